//! Light threads where CPUs are reserved: their masks alone keep them off the reserved CPUs, as long as they wake on time.

use std::collections::BTreeSet;

use super::PlacementPolicy;
use crate::Target;
use crate::placement::ablation::{Part, is_off};
use crate::placement::step::{DesiredValues, Step, affinity_demand};
use crate::placement::threads::classify::Class;
use crate::placement::threads::roster::{ACTIVE_DEMAND, Member};
use crate::placement::trial::MissedPeriod;

impl PlacementPolicy {
    /// The demands of `step` on light threads. Even one millisecond of a light thread is a seventh of a frame's work. But only
    /// threads with a known period before the step leave the reserved cores, so that a missed period is detected.
    pub(super) fn demands_of_light(&self, step: &Step) -> DesiredValues {
        let Step::Isolate(split) = step else { return DesiredValues::new() };
        if !self.fits(split) || is_off(Part::LightThreads) {
            return DesiredValues::new();
        }
        let facts = self.active_light_threads().filter_map(|member| member.facts.as_ref());
        // A thread with a raised priority has it for a reason.
        let ordinary = facts.filter(|facts| facts.priority.nice >= 0);
        ordinary.filter_map(|facts| affinity_demand(&split.rest, facts, &self.machine)).collect()
    }

    /// Light threads with unknown facts that may have to leave the reserved cores.
    pub(super) fn unknown_light(&self) -> impl Iterator<Item = u32> {
        let is_wanted = self.split().is_some();
        let unknown = self.active_light_threads().filter(move |member| is_wanted && member.facts.is_none());
        unknown.map(|member| member.thread.tid)
    }

    fn active_light_threads(&self) -> impl Iterator<Item = &Member> {
        let regular = self.held.iter().flat_map(|held| held.periodic_threads.tids());
        let may_be_confined = regular.filter(|tid| !self.unconfined_light.contains(tid));
        let members = may_be_confined.filter_map(|tid| self.roster.get(tid)).filter(|member| !member.is_foreground);
        let is_included =
            |member: &Member| !self.config.excluded_commands.iter().any(|glob| glob.matches(&member.thread.command));
        members.filter(move |member| self.is_active_light(member) && is_included(member))
    }

    /// Hysteresis: a thread that was moved off the reserved cores stays off until its demand falls to half the threshold.
    fn is_active_light(&self, member: &Member) -> bool {
        let least = if self.is_confined(member) { ACTIVE_DEMAND / 2.0 } else { ACTIVE_DEMAND };
        member.statistics.class() == Class::Light && member.statistics.demand() >= least
    }

    fn is_confined(&self, member: &Member) -> bool {
        let start_time = member.facts.as_ref().map(|facts| facts.start_time_ticks);
        let target = |start_time_ticks| Target::CpuAffinity { tid: member.thread.tid, start_time_ticks };
        start_time.is_some_and(|start_time| self.leased.has(&target(start_time)))
    }

    /// Frees the threads that `missed` their period; false where one of them was not confined.
    pub(super) fn unconfine_light(&mut self, missed: &[MissedPeriod]) -> bool {
        let left: BTreeSet<u32> = self
            .active_light_threads()
            .filter(|member| self.is_confined(member))
            .map(|member| member.thread.tid)
            .collect();
        if !missed.iter().all(|missed| left.contains(&missed.tid)) {
            return false;
        }
        self.unconfined_light.extend(missed.iter().map(|missed| missed.tid));
        true
    }
}
