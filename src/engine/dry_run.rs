//! What a dry run shows of memory: it asks each second what the killer's process and the restraint of groups would do, and
//! prints what is new.

use std::time::Duration;

use super::Engine;
use super::killer::{Foreseen, fetch_back, foresee};
use super::restraint;
use crate::device::{BootTime, psi};
use crate::mechanism::memory::NAME;

/// How often.
const PERIOD: Duration = Duration::from_secs(1);

/// What was printed, and what was seen last.
#[derive(Debug, Default)]
pub(super) struct Shown {
    said: Vec<Foreseen>,
    stalled_us: u64,
    /// When it looks next; none unless it is a dry run.
    pub(super) due: Option<BootTime>,
}

impl Engine {
    /// Starts again: the configuration has been read.
    pub(super) fn follow_dry_run_config(&mut self, now: BootTime) {
        if !self.executor.is_dry() {
            return;
        }
        self.memory.shown = Shown::default();
        let config = &self.layers.config.memory;
        let (is_on, restraint_s) = (config.killer.enabled.is_on(), config.restraint_s);
        if is_on || restraint_s > 0 {
            self.show(now);
        }
    }

    /// Shows what would be done now and was not shown before.
    pub(super) fn show(&mut self, now: BootTime) {
        self.memory.shown.due = Some(now + PERIOD);
        let (root, config) = (&self.options.root, self.layers.config.memory.clone());
        let mut foreseen = Vec::new();
        if config.killer.enabled.is_on() {
            foreseen = foresee(root, &config.killer);
        }
        if config.restraint_s > 0 {
            foreseen.push(restraint::foresee(root, config.restraint_s));
            let stalled_us = psi::memory(root).map_or(0, |pressure| pressure.some.total_us);
            let waited_us = stalled_us.saturating_sub(std::mem::replace(&mut self.memory.shown.stalled_us, stalled_us));
            if waited_us >= u64::from(restraint::STALL_US) {
                self.hold_groups_back(now);
            }
        }
        for foreseen in foreseen {
            let is_same = |said: &Foreseen| said.action == foreseen.action && said.subject == foreseen.subject;
            if !self.memory.shown.said.iter().any(is_same) {
                self.memory.shown.said.retain(|said| said.action != foreseen.action);
                self.executor.announce(now, NAME, &foreseen);
                self.memory.shown.said.push(foreseen);
            }
        }
    }

    /// Shows what would be fetched back for `pids`, which come to the front.
    pub(super) fn show_fetched(&self, pids: &[u32]) {
        let foreseen = pids.iter().filter_map(|&pid| fetch_back(&self.options.root, pid));
        foreseen.for_each(|foreseen| self.executor.announce(BootTime::now(), NAME, &foreseen));
    }
}
