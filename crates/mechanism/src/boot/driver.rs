//! Reads for [`BootWatch`] whether governors are held for a boot.

use super::{BootWatch, probe, support};
use crate::{Decision, Mechanism, Observation, ProbeContext};
use brisk_sys::{BootTime, Root};
use brisk_undo::journal::{Holder, JournalState};

impl Mechanism for BootWatch {
    fn reconfigure(&mut self, now: BootTime, probe_context: &ProbeContext<'_>, _decisions: &mut Vec<Decision>) {
        self.refresh(now, probe_context.root);
    }

    fn slow_observer(&self) -> Option<fn(&Root) -> Option<Observation>> {
        Some(probe::completed_boot)
    }

    fn refresh(&mut self, now: BootTime, root: &Root) {
        // The journal belongs to root; a daemon that may not read it goes on without it.
        let journal = JournalState::of(&Holder::Boot.folder(root)).ok();
        self.take_device(now, journal.as_ref(), support(root));
    }
}
