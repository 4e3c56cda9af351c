//! Launch on a device: probes it for [`LaunchPolicy`].

use super::{LaunchConfig, LaunchDevice, LaunchPolicy, NAME, triggers};
use crate::{Decision, Mechanism, Surroundings};
use brisk_sys::BootTime;
use brisk_sys::system::other_managers;

impl Mechanism for LaunchPolicy {
    fn follow(&mut self, now: BootTime, surroundings: &Surroundings<'_>, decisions: &mut Vec<Decision>) {
        let config: LaunchConfig = surroundings.section(NAME);
        let facts = LaunchDevice::probe(surroundings.root);
        let triggers = triggers::chosen(&config, &facts);
        let config = LaunchConfig { triggers, ..config };
        let found = config.defers().then(|| other_managers::find(surroundings.root));
        self.take_device(now, (config, surroundings.is_new_configuration), (facts, found.as_deref()), decisions);
    }

    fn let_go(&mut self, _surroundings: &Surroundings<'_>, decisions: &mut Vec<Decision>) {
        self.let_go_for_probe(decisions);
    }
}
