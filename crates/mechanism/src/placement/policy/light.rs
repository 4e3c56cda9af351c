//! Light threads where CPUs are reserved: their masks alone keep them off the reserved CPUs, as long as they wake on time.

use std::collections::BTreeSet;

use super::PlacementPolicy;
use crate::Target;
use crate::placement::step::{Demands, Step, put_on};
use crate::placement::threads::classify::Class;
use crate::placement::threads::roster::{AT_WORK, Member};
use crate::placement::trial::Missed;

impl PlacementPolicy {
    /// The demands of `step` on light threads. Even one millisecond of a light thread is a seventh of a frame's work. But only
    /// threads with a known period before the step leave the reserved cores, so that a missed period is detected.
    pub(super) fn demands_of_light(&self, step: &Step) -> Demands {
        let Step::Isolate(split) = step else { return Demands::new() };
        if !self.fits(split) {
            return Demands::new();
        }
        let facts = self.light_at_work().filter_map(|member| member.facts.as_ref());
        // A thread with a raised priority has it for a reason.
        let ordinary = facts.filter(|facts| facts.priority.nice >= 0);
        ordinary.filter_map(|facts| put_on(&split.rest, facts, &self.machine)).collect()
    }

    /// Light threads with unknown facts that may have to leave the reserved cores.
    pub(super) fn unknown_light(&self) -> impl Iterator<Item = u32> {
        let is_wanted = self.split().is_some();
        let unknown = self.light_at_work().filter(move |member| is_wanted && member.facts.is_none());
        unknown.map(|member| member.thread.tid)
    }

    fn light_at_work(&self) -> impl Iterator<Item = &Member> {
        let regular = self.held.iter().flat_map(|held| held.rhythms.regular());
        let may_leave = regular.filter(|tid| !self.late.contains(tid));
        let members = may_leave.filter_map(|tid| self.roster.get(tid)).filter(|member| !member.is_front);
        let may_go =
            |member: &Member| !self.config.excluded_commands.iter().any(|glob| glob.matches(&member.thread.command));
        members.filter(move |member| self.is_light_at_work(member) && may_go(member))
    }

    /// Hysteresis: a thread that was moved off the reserved cores stays off until its demand falls to half the threshold.
    fn is_light_at_work(&self, member: &Member) -> bool {
        let least = if self.has_left(member) { AT_WORK / 2.0 } else { AT_WORK };
        member.habits.class() == Class::Light && member.habits.demand() >= least
    }

    fn has_left(&self, member: &Member) -> bool {
        let start_time = member.facts.as_ref().map(|facts| facts.start_time_ticks);
        let target = |start_time_ticks| Target::CpuAffinity { tid: member.thread.tid, start_time_ticks };
        start_time.is_some_and(|start_time| self.leased.has(&target(start_time)))
    }

    /// Frees the threads that `missed` their period; false where one of them was not confined.
    pub(super) fn free_light(&mut self, missed: &[Missed]) -> bool {
        let left: BTreeSet<u32> =
            self.light_at_work().filter(|member| self.has_left(member)).map(|member| member.thread.tid).collect();
        if !missed.iter().all(|missed| left.contains(&missed.tid)) {
            return false;
        }
        self.late.extend(missed.iter().map(|missed| missed.tid));
        true
    }
}
