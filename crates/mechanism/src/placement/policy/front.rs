//! Where the foreground runs when a step begins: it is put where there is room, once, and may leave at once.

use std::time::Duration;

use super::{LEASE, PlacementPolicy};
use crate::Decision;
use crate::placement::step::{Step, put_on};
use brisk_sys::BootTime;

/// Masks that last until the next look end by themselves after this long.
const PARTED: Duration = Duration::from_secs(1);

impl PlacementPolicy {
    /// Puts the foreground on the cores that are free for it now. It may leave them at once: without this it would wait
    /// among those that have just left them, until the kernel balances load.
    pub(super) fn fetch_front(&mut self, now: BootTime) -> Vec<Decision> {
        const REASON: &str = "it begins on CPUs where no other thread is busy, and may leave them at once";
        let Some(split) = self.split() else { return Vec::new() };
        let facts = self.roster.busy_front().filter_map(|member| member.facts.as_ref());
        let masks: Vec<_> = facts.filter_map(|facts| put_on(&split.reserved, facts, &self.machine)).collect();
        let mut decisions = Vec::new();
        for (target, value) in &masks {
            self.parted.lease(now, (target, value), now + LEASE, REASON, &mut decisions);
            self.parted.release_where(REASON, &mut decisions, |held| held == target);
        }
        decisions
    }

    /// Puts the busiest foreground threads on a CPU each until the next sample, where bulk work weighs little wherever it is.
    /// The kernel wakes a thread where it was: a helper would wait for whom it helps, beside a CPU on which only bulk
    /// work is. Until then, because one that sleeps moves only when it wakes.
    pub(super) fn part_front(&mut self, now: BootTime) -> Vec<Decision> {
        let Some(held) = self.held.as_mut().filter(|held| held.step == Step::Weight && !held.is_parted) else {
            return Vec::new();
        };
        let front = self.roster.front_at_work();
        let places = front.into_iter().zip(self.machine.cores());
        held.is_parted = places.len() > 1 && places.clone().all(|(member, _)| member.facts.is_some());
        if !held.is_parted {
            return Vec::new();
        }
        let masks = places.filter_map(|(member, core)| put_on(&[core.cpu], member.facts.as_ref()?, &self.machine));
        let reason = "for a moment, so that the foreground does not wait for itself";
        let mut decisions = Vec::new();
        for (target, value) in masks {
            self.parted.lease(now, (&target, &value), now + PARTED, reason, &mut decisions);
        }
        decisions
    }

    /// Lets the foreground run on any of its CPUs again.
    pub(super) fn rejoin_foreground(&mut self, decisions: &mut Vec<Decision>) {
        self.parted.release_where("it may go where it likes", decisions, |_| true);
    }
}
