//! Reads the device for [`MemoryPolicy`].

use super::restraint::is_background;
use super::{MemoryConfig, MemoryDevice, MemoryPolicy, NAME, support};
use crate::{Decision, Foreseen, Mechanism, Surroundings};
use brisk_sys::cgroup::hierarchy;
use brisk_sys::cgroup::memory::samples;
use brisk_sys::system::other_managers;
use brisk_sys::{BootTime, Root};

impl Mechanism for MemoryPolicy {
    fn follow(&mut self, now: BootTime, surroundings: &Surroundings<'_>, decisions: &mut Vec<Decision>) {
        if surroundings.is_new_configuration {
            let facts = MemoryDevice::probe(surroundings.root);
            let offered = support(surroundings.root, &facts);
            self.take_device(now, surroundings.section(NAME), (&facts, offered), decisions);
        }
    }

    fn let_go(&mut self, surroundings: &Surroundings<'_>, decisions: &mut Vec<Decision>) {
        self.let_go_of_other(&surroundings.section::<MemoryConfig>(NAME), decisions);
    }

    fn refresh(&mut self, now: BootTime, root: &Root) {
        if self.wants_company(now) {
            self.take_company(now, &other_managers::find(root));
        }
    }

    fn foresee(&self, root: &Root) -> Vec<Foreseen> {
        let Some(time) = self.restrains_for() else { return Vec::new() };
        let groups = hierarchy::unified(root).map(|mount| samples(root, &mount)).unwrap_or_default();
        let count = groups.iter().filter(|sample| is_background(sample) && sample.is_free).count();
        let reason = format!("for {} s, each that grows while foreground groups wait for memory", time.as_secs());
        vec![Foreseen::new("restrain", format!("{count} groups in the background"), reason)]
    }
}
