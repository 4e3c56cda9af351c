//! Placement on a device: probes it for [`PlacementPolicy`].

use super::automatic::{Caller, decision};
use super::{NAME, PlacementConfig, PlacementPolicy, probe};
use crate::{Decision, Enabled, Mechanism, ProbeContext, SupportState};
use brisk_sys::BootTime;
use brisk_sys::system::other_managers;

impl Mechanism for PlacementPolicy {
    fn reconfigure(&mut self, now: BootTime, probe_context: &ProbeContext<'_>, decisions: &mut Vec<Decision>) {
        self.observe(probe_context.settings.is_observed());
        let root = probe_context.root;
        let config: PlacementConfig = probe_context.section(NAME);
        let found = (config.enabled == Enabled::Auto).then(|| other_managers::find(root));
        let managers = self.defer(now, found.as_deref(), probe_context.is_new_configuration);
        let machine = probe::machine(root);
        let decision = decision(root, &config, managers.as_deref(), Caller::Daemon);
        let support = probe::support(root, &config, &machine, &decision);
        let lowest = probe::lowest_io_priority(root, &config, support.state == SupportState::Active);
        let acts_on_network = probe::acts_on_network(root, &config, support.state == SupportState::Active);
        self.configure(lowest, acts_on_network, &config);
        self.replace(config, support, machine, decisions);
    }

    fn prepare_reconfigure(&mut self, _probe_context: &ProbeContext<'_>, decisions: &mut Vec<Decision>) {
        self.let_go_for_probe(decisions);
    }
}
