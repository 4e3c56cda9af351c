//! Launch on a device: probes it for [`LaunchPolicy`].

use super::{LaunchConfig, LaunchDevice, LaunchPolicy, NAME, triggers};
use crate::{Decision, Mechanism, ProbeContext};
use brisk_sys::BootTime;
use brisk_sys::system::other_managers;

impl Mechanism for LaunchPolicy {
    fn reconfigure(&mut self, now: BootTime, probe_context: &ProbeContext<'_>, decisions: &mut Vec<Decision>) {
        self.observe(probe_context.settings.is_observed());
        let config: LaunchConfig = probe_context.section(NAME);
        let facts = LaunchDevice::probe(probe_context.root);
        let triggers = triggers::effective(&config, &facts);
        let config = LaunchConfig { triggers, ..config };
        let found = config.defers().then(|| other_managers::find(probe_context.root));
        self.take_device(now, (config, probe_context.is_new_configuration), (facts, found.as_deref()), decisions);
    }

    fn prepare_reconfigure(&mut self, _probe_context: &ProbeContext<'_>, decisions: &mut Vec<Decision>) {
        self.release_for_probe(decisions);
    }
}
