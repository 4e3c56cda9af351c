//! Placement on a device: probes it for [`PlacementPolicy`].

use super::automatic::{Asker, decision};
use super::{NAME, PlacementConfig, PlacementPolicy, probe};
use crate::{Decision, Enabled, Mechanism, SupportState, Surroundings};
use brisk_sys::BootTime;
use brisk_sys::system::other_managers;

impl Mechanism for PlacementPolicy {
    fn follow(&mut self, now: BootTime, surroundings: &Surroundings<'_>, decisions: &mut Vec<Decision>) {
        let root = surroundings.root;
        let config: PlacementConfig = surroundings.section(NAME);
        let found = (config.enabled == Enabled::Auto).then(|| other_managers::find(root));
        let doers = self.defer(now, found.as_deref(), surroundings.is_new_configuration);
        let machine = probe::machine(root);
        let decision = decision(root, &config, doers.as_deref(), Asker::Daemon);
        let support = probe::support(root, &config, &machine, &decision);
        let lowest = probe::lowest_io_priority(root, &config, support.state == SupportState::Active);
        self.take_storage(lowest, &config);
        self.replace(config, support, machine, decisions);
    }

    fn let_go(&mut self, _surroundings: &Surroundings<'_>, decisions: &mut Vec<Decision>) {
        self.let_go_for_probe(decisions);
    }
}
