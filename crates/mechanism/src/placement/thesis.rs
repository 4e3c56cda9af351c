//! The thesis's rule, as an arm to compare with: from 50 % a core of its own, from 30 % half a core, the rest on the rest.
//!
//! It was written for cgroups: a cpuset a core, and half of a core's `cpu.shares`. Here a mask and a nice value say the
//! same of each thread, so that both rules have the same means and only the rules differ.

use std::collections::BTreeSet;

use super::cores::Machine;
use super::step::Demands;
use super::threads::classify::{Class, ThesisClass};
use super::threads::roster::{Member, Roster};
use crate::{Glob, Target};
use brisk_base::insertion_sort::insertion_sort;
use brisk_sys::cpu::hotplug::format_list;
use brisk_sys::sched::priority::{Priority, SchedulingPolicy};
use brisk_sys::sched::thread_facts::ThreadFacts;

/// Against one ordinary competitor, half a core; against two or three, still nearly that: three times their weight.
const HALF_CORE_NICE: i32 = -5;

/// What each thread of `roster` gets; those that were never awake and those of which nothing is known stay where they are.
pub(super) fn assign(roster: &Roster, machine: &Machine, excluded: &[Glob], maximum: usize) -> Demands {
    let online: BTreeSet<u32> = machine.cpus().into_iter().collect();
    let may_move = |member: &&Member| {
        let name = &member.thread.command;
        is_known_to_move(member) && !excluded.iter().any(|glob| glob.matches(name))
    };
    // A task that is bound or has a policy of its own stays so, the daemon itself among them: a core of its own would idle.
    let is_free = |facts: &&ThreadFacts| {
        facts.priority.policy == SchedulingPolicy::Other && online.iter().all(|cpu| facts.allowed.contains(cpu))
    };
    let movable = roster.members().filter(may_move);
    let movable = movable.filter_map(|member| Some((member, member.facts.as_ref().filter(is_free)?)));
    let mut members: Vec<(&Member, &ThreadFacts)> = movable.take(maximum).collect();
    // The foreground chooses first, then the task that asks for most.
    let rank = |member: &Member| (member.is_front, member.habits.demand());
    insertion_sort(&mut members, |one, next| rank(one.0) < rank(next.0));
    let is_own = |(member, _): &&(&Member, &ThreadFacts)| member.habits.thesis_class() == ThesisClass::OwnCore;
    // One core stays for all the rest.
    let most = machine.cores().len().saturating_sub(1);
    let owners: Vec<u32> = members.iter().filter(is_own).map(|(_, facts)| facts.tid).take(most).collect();
    let Some(split) = machine.reserve(owners.len()) else { return Demands::new() };
    let rest = format_list(&split.rest);
    let mut demands = Demands::new();
    for (member, facts) in members {
        let (tid, start_time_ticks) = (facts.tid, facts.start_time_ticks);
        let own = owners.iter().position(|&owner| owner == tid).map(|index| machine.cores()[index].cpu.to_string());
        let has_own = own.is_some();
        demands.insert(Target::CpuAffinity { tid, start_time_ticks }, own.unwrap_or_else(|| rest.clone()));
        if !has_own && member.habits.thesis_class() == ThesisClass::HalfCore {
            let priority = Priority { policy: SchedulingPolicy::Other, nice: HALF_CORE_NICE };
            if facts.priority.nice > HALF_CORE_NICE {
                demands.insert(Target::Priority { tid, start_time_ticks }, priority.to_string());
            }
        }
    }
    demands
}

/// Threads that were awake and of which nothing is known yet.
pub(super) fn unknown(roster: &Roster, maximum: usize) -> Vec<u32> {
    let unknown = roster.members().filter(|member| member.facts.is_none() && is_known_to_move(member));
    unknown.map(|member| member.thread.tid).take(maximum).collect()
}

fn is_known_to_move(member: &&Member) -> bool {
    member.habits.class() != Class::Light || member.habits.wakes_hz() >= 1.0
}
