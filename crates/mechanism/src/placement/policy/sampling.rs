//! How often threads are sampled: each sample takes CPU time, with one CPU from the foreground.

use std::time::Duration;

use super::{EVIDENCE, PlacementPolicy};
use crate::placement::config::Rule;
use crate::placement::threads::classify::Class;

/// The control groups of threads that begin to work with a new foreground are learned from one sample to the next. Until then no
/// further group is deprioritised, so these samples follow each other at once. Each delays a frame, so there are few.
pub(super) const QUICK_SAMPLES: u32 = 3;
const QUICK_SAMPLE_MS: u64 = 5;
/// Samples are rare where there was nothing to gain for so long.
const SETTLES_AFTER: Duration = Duration::from_millis(500);

impl PlacementPolicy {
    /// The sampling period in force; `is_uncontended`: see [`PlacementPolicy::is_uncontended`].
    pub(super) fn sampling_ms(&self, is_uncontended: bool) -> u64 {
        let config = &self.config;
        if !self.roster.has_foreground() {
            return config.idle_sampling_ms;
        }
        if is_uncontended {
            return if self.has_changed { config.sampling_ms } else { config.idle_sampling_ms };
        }
        if self.has_settled() {
            return config.idle_sampling_ms;
        }
        if self.quick_samples > 0 && self.may_be_moved() && self.task_groups.has_unknown_siblings() {
            return QUICK_SAMPLE_MS;
        }
        // During an opening the step is already in force, and nothing is judged before the opening ends.
        if self.opening.is_some() && self.held.is_some() && !self.may_be_moved() {
            return config.sampling_ms * 2;
        }
        // Twice as often at first, so that a new foreground soon has enough evidence.
        let is_new = config.rule == Rule::Brisk && self.opening.is_none() && self.window.span() < EVIDENCE * 2;
        if is_new || self.may_be_moved() { config.sampling_ms.div_ceil(2) } else { config.sampling_ms }
    }

    /// True while the foreground competes with no thread that could be deprioritised: it is sampled as an idle device is. The first
    /// sample after a change of the foreground shows what the previous foreground still does.
    pub(super) fn is_uncontended(&self) -> bool {
        let least = if self.has_one_cpu() { Class::Interactive } else { Class::Bulk };
        self.config.rule == Rule::Brisk && self.leased.is_empty() && !self.roster.has_busy_background(least)
    }

    /// True where nothing is in force and there was nothing to gain for a while: other programs have deprioritised or bound the bulk
    /// threads, or the foreground hardly waits for them. More frequent samples would only cost CPU time.
    fn has_settled(&self) -> bool {
        let settled = self.settled_since.zip(self.sampled_at).map(|(since, now)| now.since(since));
        self.leased.is_empty()
            && self.group_weights.is_none()
            && settled.is_some_and(|settled| settled >= SETTLES_AFTER)
    }

    pub(super) fn has_one_cpu(&self) -> bool {
        self.machine.cores().len() == 1
    }
}
