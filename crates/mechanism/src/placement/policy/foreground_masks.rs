//! Moves foreground threads once when a step starts, without confining them there.

use std::time::Duration;

use super::{LEASE, PlacementPolicy};
use crate::Decision;
use crate::placement::ablation::{Part, is_off};
use crate::placement::step::{Step, affinity_demand};
use brisk_sys::BootTime;

/// Masks that are to last until the next sample expire after this long.
const SPREAD_TIMEOUT: Duration = Duration::from_secs(1);

impl PlacementPolicy {
    /// Moves the foreground to the newly reserved cores by a mask that is released at once. Otherwise it would wait among the
    /// threads that have just left them, until the kernel balances the load.
    pub(super) fn migrate_foreground(&mut self, now: BootTime) -> Vec<Decision> {
        const REASON: &str = "moved to the reserved CPUs once, not confined to them";
        let Some(split) = self.split() else { return Vec::new() };
        let facts = self.roster.busy_foreground_threads().filter_map(|member| member.facts.as_ref());
        let masks: Vec<_> = facts.filter_map(|facts| affinity_demand(&split.reserved, facts, &self.machine)).collect();
        let mut decisions = Vec::new();
        for (target, value) in &masks {
            self.temporary_masks.lease(now, (target, value), now + LEASE, REASON, &mut decisions);
            self.temporary_masks.release_where(REASON, &mut decisions, |held| held == target);
        }
        decisions
    }

    /// Puts the busiest foreground threads on one CPU each until the next sample, where bulk threads have a low weight on every
    /// CPU. The kernel wakes a thread on its previous CPU: a helper would wait for the thread that it helps, beside a CPU that
    /// runs only bulk threads. The masks last until the next sample because a sleeping thread moves only when it wakes.
    pub(super) fn spread_foreground(&mut self, now: BootTime) -> Vec<Decision> {
        let Some(held) =
            self.held.as_mut().filter(|held| held.step == Step::Weight && !held.is_spread && !is_off(Part::Spread))
        else {
            return Vec::new();
        };
        let foreground = self.roster.active_foreground_threads();
        let places = foreground.into_iter().zip(self.machine.cores());
        held.is_spread = places.len() > 1 && places.clone().all(|(member, _)| member.facts.is_some());
        if !held.is_spread {
            return Vec::new();
        }
        let masks =
            places.filter_map(|(member, core)| affinity_demand(&[core.cpu], member.facts.as_ref()?, &self.machine));
        let reason = "until the next sample, so that foreground threads do not wait for each other";
        let mut decisions = Vec::new();
        for (target, value) in masks {
            self.temporary_masks.lease(now, (&target, &value), now + SPREAD_TIMEOUT, reason, &mut decisions);
        }
        decisions
    }

    /// Restores the masks of foreground threads.
    pub(super) fn release_temporary_masks(&mut self, decisions: &mut Vec<Decision>) {
        self.temporary_masks.release_where("foreground threads may use all their CPUs again", decisions, |_| true);
    }
}
