//! Threads that are made by ones that make room: they begin with what those were made to give up, and have not earned it.

use std::collections::{BTreeMap, BTreeSet};

use super::roster::Roster;
use crate::{Action, Decision, Holdings, Target};
use brisk_sys::cpu::hotplug::format_list;
use brisk_sys::sched::thread_facts::ThreadFacts;
use brisk_sys::sched::threads::Sample;

/// The threads whose facts will tell whether they have inherited.
#[derive(Debug, Default)]
pub(in crate::placement) struct Heirs(BTreeMap<u32, Vec<Inheritance>>);

/// What a thread may have inherited.
#[derive(Debug)]
struct Inheritance {
    /// Of the thread that it may have come from.
    target: Target,
    /// What that one was made to have.
    value: String,
    /// What that one had before.
    original: String,
}

impl Heirs {
    /// The threads whose facts are wanted.
    pub(in crate::placement) fn tids(&self) -> impl Iterator<Item = &u32> {
        self.0.keys()
    }

    /// New threads begin with the mask, the priority and the clamp of the one that made them.
    pub(in crate::placement) fn note(&mut self, sample: &Sample, leased: &Holdings, roster: &Roster) {
        self.0.retain(|tid, _| !sample.ended.contains(tid));
        if leased.is_empty() {
            return;
        }
        for thread in &sample.born {
            // That its children begin as it is, is why their parent makes room.
            let is_front = roster.get(thread.tid).is_some_and(|member| member.is_front);
            if !is_front && thread.pid != thread.parent && roster.makes_room_for_children(thread.parent) {
                continue;
            }
            let inheritance = |(target, value): (&Target, &str)| {
                let parent = roster.get(target.thread()?)?;
                let is_relative = parent.thread.pid == thread.pid || parent.thread.pid == thread.parent;
                let original = held_by(target, parent.facts.as_ref().filter(|_| is_relative)?)?;
                Some(Inheritance { target: target.clone(), value: value.to_owned(), original })
            };
            // Out of the group first: a mask counts only as far as its cpuset goes.
            let inherited: Vec<_> = leased.in_force().rev().filter_map(inheritance).collect();
            if !inherited.is_empty() {
                self.0.insert(thread.tid, inherited);
            }
        }
    }

    /// Gives heirs back what they would have without us; those that get anything.
    pub(in crate::placement) fn disinherit(
        &mut self,
        facts: &[ThreadFacts],
        decisions: &mut Vec<Decision>,
    ) -> BTreeSet<u32> {
        let mut disinherited = BTreeSet::new();
        for facts in facts {
            let (tid, start_time_ticks) = (facts.tid, facts.start_time_ticks);
            for Inheritance { target, value, original } in self.0.remove(&tid).unwrap_or_default() {
                // Of a group that is ours the facts say nothing; whether it is in there is looked at when it is moved.
                let is_member = matches!(target, Target::GroupMember { .. });
                if !is_member && held_by(&target, facts).as_ref() != Some(&value) {
                    continue;
                }
                let Some(target) = target.of_heir(tid, start_time_ticks) else { continue };
                let action = Action::Disinherit { target, inherited: value, original };
                let reason = "it was made by a thread that makes room, and began as that one is now".to_owned();
                decisions.push(Decision { action, reason });
                disinherited.insert(tid);
            }
        }
        disinherited
    }
}

/// The value of `target` that a thread with these facts has.
fn held_by(target: &Target, facts: &ThreadFacts) -> Option<String> {
    match target {
        Target::CpuAffinity { .. } => Some(format_list(&facts.allowed)),
        Target::Priority { .. } => Some(facts.priority.to_string()),
        Target::UtilizationClampMaximum { .. } => Some(facts.clamps.maximum.to_string()),
        Target::GroupMember { hierarchy, .. } => {
            let groups = facts.groups.cpu.iter().chain(&facts.groups.cpuset);
            groups.filter(|from| from.hierarchy == *hierarchy).map(|from| from.group.clone()).next()
        }
        _ => None,
    }
}
