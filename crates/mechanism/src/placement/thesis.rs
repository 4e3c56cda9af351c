//! The thesis's rule, as a baseline: a thread gets its own core from 50 %, half a core from 30 %; the others share the rest.
//!
//! The thesis uses cgroups: one cpuset per core, and half of a core's `cpu.shares`. Here a mask and a nice value per thread do
//! the same, so that only the rules differ and not the means.

use std::collections::BTreeSet;

use super::cores::Machine;
use super::step::DesiredValues;
use super::threads::classify::{Class, ThesisClass};
use super::threads::roster::{Member, Roster};
use crate::{Glob, Target};
use brisk_base::insertion_sort::insertion_sort;
use brisk_sys::cpu::hotplug::format_list;
use brisk_sys::sched::priority::{Priority, SchedulingPolicy};
use brisk_sys::sched::thread_facts::ThreadFacts;

/// Three times an ordinary thread's weight: half a core against one competitor, nearly that against two or three.
const HALF_CORE_NICE: i32 = -5;

/// The demands for each thread of `roster`; threads that were never awake or have unknown facts are left alone.
pub(super) fn assign(roster: &Roster, machine: &Machine, excluded: &[Glob], maximum: usize) -> DesiredValues {
    let online: BTreeSet<u32> = machine.cpus().into_iter().collect();
    let may_move = |member: &&Member| {
        let name = &member.thread.command;
        has_been_awake(member) && !excluded.iter().any(|glob| glob.matches(name))
    };
    // A thread that is bound or has a special policy is left alone, the daemon included: a core of its own would idle.
    let is_free = |facts: &&ThreadFacts| {
        facts.priority.policy == SchedulingPolicy::Other && online.iter().all(|cpu| facts.allowed.contains(cpu))
    };
    let movable = roster.members().filter(may_move);
    let movable = movable.filter_map(|member| Some((member, member.facts.as_ref().filter(is_free)?)));
    let mut members: Vec<(&Member, &ThreadFacts)> = movable.take(maximum).collect();
    // Foreground threads choose first, then the threads with the highest demand.
    let rank = |member: &Member| (member.is_foreground, member.statistics.demand());
    insertion_sort(&mut members, |one, next| rank(one.0) < rank(next.0));
    let is_own = |(member, _): &&(&Member, &ThreadFacts)| member.statistics.thesis_class() == ThesisClass::OwnCore;
    // One core is left for all other threads.
    let most = machine.cores().len().saturating_sub(1);
    let owners: Vec<u32> = members.iter().filter(is_own).map(|(_, facts)| facts.tid).take(most).collect();
    let Some(split) = machine.reserve(owners.len()) else { return DesiredValues::new() };
    let rest = format_list(&split.rest);
    let mut demands = DesiredValues::new();
    for (member, facts) in members {
        let (tid, start_time_ticks) = (facts.tid, facts.start_time_ticks);
        let own = owners.iter().position(|&owner| owner == tid).map(|index| machine.cores()[index].cpu.to_string());
        let has_own = own.is_some();
        demands.insert(Target::CpuAffinity { tid, start_time_ticks }, own.unwrap_or_else(|| rest.clone()));
        if !has_own && member.statistics.thesis_class() == ThesisClass::HalfCore {
            let priority = Priority { policy: SchedulingPolicy::Other, nice: HALF_CORE_NICE };
            if facts.priority.nice > HALF_CORE_NICE {
                demands.insert(Target::Priority { tid, start_time_ticks }, priority.to_string());
            }
        }
    }
    demands
}

/// Threads that were awake and have unknown facts.
pub(super) fn unknown(roster: &Roster, maximum: usize) -> Vec<u32> {
    let unknown = roster.members().filter(|member| member.facts.is_none() && has_been_awake(member));
    unknown.map(|member| member.thread.tid).take(maximum).collect()
}

fn has_been_awake(member: &&Member) -> bool {
    member.statistics.class() != Class::Light || member.statistics.wakes_hz() >= 1.0
}
