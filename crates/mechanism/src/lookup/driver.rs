//! Reads the binder driver's cache and its counters for [`LookupControl`].

use super::control::NAME;
use super::{LookupConfig, LookupControl, support};
use crate::{Decision, Mechanism, Surroundings};
use brisk_sys::binder::cache;
use brisk_sys::{BootTime, Root};

impl Mechanism for LookupControl {
    fn follow(&mut self, now: BootTime, surroundings: &Surroundings<'_>, decisions: &mut Vec<Decision>) {
        if surroundings.is_new_configuration {
            let contexts = cache::status(surroundings.root).unwrap_or_default();
            self.set(now, surroundings.section(NAME), (support(surroundings.root), &contexts), decisions);
        }
    }

    fn let_go(&mut self, surroundings: &Surroundings<'_>, decisions: &mut Vec<Decision>) {
        self.let_go_of_other(&surroundings.section::<LookupConfig>(NAME), decisions);
    }

    fn refresh(&mut self, now: BootTime, root: &Root) {
        self.take_offer(now, support(root));
    }
}
