//! Reads the binder driver's cache and its counters for [`LookupControl`].

use super::control::NAME;
use super::{LookupConfig, LookupControl, support};
use crate::{Decision, HourFigures, Mechanism, ProbeContext};
use brisk_sys::binder::cache;
use brisk_sys::{BootTime, Root};

impl Mechanism for LookupControl {
    fn reconfigure(&mut self, now: BootTime, probe_context: &ProbeContext<'_>, decisions: &mut Vec<Decision>) {
        if probe_context.is_new_configuration {
            let contexts = cache::status(probe_context.root).unwrap_or_default();
            self.set(now, probe_context.section(NAME), (support(probe_context.root), &contexts), decisions);
        }
    }

    fn prepare_reconfigure(&mut self, probe_context: &ProbeContext<'_>, decisions: &mut Vec<Decision>) {
        self.release_if_changed(&probe_context.section::<LookupConfig>(NAME), decisions);
    }

    fn add_hour_figures(&mut self, root: &Root, figures: &mut HourFigures) {
        let counted = self.count_lookups(&cache::status(root).unwrap_or_default());
        (figures.lookup_hits, figures.lookup_misses) = counted.unzip();
    }

    fn refresh(&mut self, now: BootTime, root: &Root) {
        self.set_device_support(now, support(root));
    }
}
