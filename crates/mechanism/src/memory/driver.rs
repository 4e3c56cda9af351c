//! Reads the device for [`MemoryPolicy`].

use super::restraint::is_background;
use super::{MemoryConfig, MemoryDevice, MemoryPolicy, NAME, support};
use crate::{Decision, Mechanism, Preview, ProbeContext};
use brisk_sys::cgroup::hierarchy;
use brisk_sys::cgroup::memory::samples;
use brisk_sys::system::other_managers;
use brisk_sys::{BootTime, Root};

impl Mechanism for MemoryPolicy {
    fn reconfigure(&mut self, now: BootTime, probe_context: &ProbeContext<'_>, decisions: &mut Vec<Decision>) {
        self.observe(probe_context.settings.is_observed());
        if probe_context.is_new_configuration || self.needs_plan() {
            let facts = MemoryDevice::probe(probe_context.root);
            let config: MemoryConfig = probe_context.section(NAME);
            let device_support = support(probe_context.root, &facts, &config.zram);
            self.take_device(now, config, (&facts, device_support), decisions);
        }
    }

    fn prepare_reconfigure(&mut self, probe_context: &ProbeContext<'_>, decisions: &mut Vec<Decision>) {
        self.release_if_changed(&probe_context.section::<MemoryConfig>(NAME), decisions);
        if self.has_owned_zram() {
            self.release_if_zram_is_free(&MemoryDevice::probe(probe_context.root), decisions);
        }
    }

    fn refresh(&mut self, now: BootTime, root: &Root) {
        if self.needs_managers(now) {
            self.set_managers(now, &other_managers::find(root));
        }
    }

    fn preview(&self, root: &Root) -> Vec<Preview> {
        let Some(time) = self.restraint_duration() else { return Vec::new() };
        let groups = hierarchy::unified(root).map(|mount| samples(root, &mount)).unwrap_or_default();
        let count = groups.iter().filter(|sample| is_background(sample) && sample.is_free).count();
        let reason = format!("for {} s, each that grows while foreground groups wait for memory", time.as_secs());
        vec![Preview::new("restrain", format!("{count} groups in the background"), reason)]
    }
}
