//! Where what is in front runs when a step begins: it is put where there is room, once, and may leave at once.

use std::time::Duration;

use super::demands::release;
use super::{LEASE, PlacementPolicy};
use crate::device::BootTime;
use crate::mechanism::placement::step::{Step, put_on};
use crate::mechanism::{Action, Decision};

/// Masks that last until the next look end by themselves after this long.
const PARTED: Duration = Duration::from_secs(1);

impl PlacementPolicy {
    /// Puts what is in front on the cores that are free for it now. It may leave them at once: without this it would wait
    /// among those who have just left them, until the kernel shares work out anew.
    pub(super) fn fetch_front(&self, now: BootTime) -> Vec<Decision> {
        const REASON: &str = "it is put where nobody else is busy, and may go where it likes";
        let Some(split) = self.split() else { return Vec::new() };
        let facts = self.roster.busy_front().filter_map(|member| member.facts.as_ref());
        let masks = facts.filter_map(|facts| put_on(&split.reserved, facts, &self.machine));
        let fetched = masks.flat_map(|(target, value)| {
            let action = Action::Lease { target: target.clone(), value, until: now + LEASE };
            [Decision { action, reason: REASON.to_owned() }, release(target, REASON)]
        });
        fetched.collect()
    }

    /// Puts the busiest threads in front on a CPU each until the next look, where bulk work weighs little wherever it is.
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
        let masks: Vec<_> = masks.collect();
        self.parted = masks.iter().map(|(target, _)| target.clone()).collect();
        let lease = |(target, value)| Decision {
            action: Action::Lease { target, value, until: now + PARTED },
            reason: "for a moment, so that what is in front does not wait for itself".to_owned(),
        };
        masks.into_iter().map(lease).collect()
    }

    /// Lets what is in front go where it likes again.
    pub(super) fn rejoin_front(&mut self, decisions: &mut Vec<Decision>) {
        let parted = std::mem::take(&mut self.parted);
        decisions.extend(parted.into_iter().map(|target| release(target, "it may go where it likes")));
    }
}
