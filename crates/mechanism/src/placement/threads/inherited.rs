//! Threads created by restricted threads: they inherit the leased values at fork, although they were not to be restricted.

use std::collections::{BTreeMap, BTreeSet};

use super::roster::Roster;
use crate::placement::ablation::{Part, is_off};
use crate::{Action, Decision, LeaseSet, Target};
use brisk_sys::cpu::hotplug::format_list;
use brisk_sys::sched::thread_facts::ThreadFacts;
use brisk_sys::sched::threads::Sample;

/// New threads; their facts will show whether they inherited leased values.
#[derive(Debug, Default)]
pub(in crate::placement) struct InheritedAttributes(BTreeMap<u32, Inheritance>);

/// What a thread may have inherited.
#[derive(Debug, Clone)]
struct Inheritance {
    values: Vec<InheritedValue>,
    /// It descends from a fork parent: it keeps the values until that one's leases have ended.
    is_kept: bool,
}

/// A value that a thread may have inherited.
#[derive(Debug, Clone)]
struct InheritedValue {
    /// The creator's leased target.
    target: Target,
    /// The creator's leased value.
    value: String,
    /// The creator's original value.
    original: String,
}

impl InheritedAttributes {
    /// The threads whose facts are wanted.
    pub(in crate::placement) fn tids(&self) -> impl Iterator<Item = &u32> {
        self.0.iter().filter(|(_, inheritance)| !inheritance.is_kept).map(|(tid, _)| tid)
    }

    /// Notes the new threads: they inherit the mask and the priority of their creator.
    pub(in crate::placement) fn note(&mut self, sample: &Sample, leased: &LeaseSet, roster: &Roster) {
        self.0.retain(|tid, _| !sample.ended.contains(tid));
        for inheritance in self.0.values_mut() {
            inheritance.is_kept &= inheritance.values.iter().any(|value| leased.has(&value.target));
        }
        if is_off(Part::Inherited) {
            return;
        }
        for thread in &sample.born {
            // A fork parent is restricted so that its children inherit that.
            let is_foreground = roster.get(thread.tid).is_some_and(|member| member.is_foreground);
            let is_kept = !is_foreground && thread.pid != thread.parent && roster.is_bulk_fork_parent(thread.parent);
            let inheritance = |(target, value): (&Target, &str)| {
                let parent = roster.get(target.thread()?)?;
                let is_relative = parent.thread.pid == thread.pid || parent.thread.pid == thread.parent;
                let original = current_value(target, parent.facts.as_ref().filter(|_| is_relative)?)?;
                Some(InheritedValue { target: target.clone(), value: value.to_owned(), original })
            };
            // Leave the group first: a mask applies only within the cpuset.
            // A value whose restore failed is inherited as well.
            let values: Vec<_> = leased.held().rev().filter_map(inheritance).collect();
            let of_creator = || [thread.pid, thread.parent].iter().find_map(|pid| self.0.get(pid)).cloned();
            let inheritance = match values.is_empty() {
                true => of_creator().map(|it| Inheritance { is_kept: it.is_kept && !is_foreground, ..it }),
                false => Some(Inheritance { values, is_kept }),
            };
            self.0.extend(inheritance.map(|inheritance| (thread.tid, inheritance)));
        }
    }

    /// Restores the values that inheriting threads would have without brisk. Returns the threads that are changed.
    pub(in crate::placement) fn disinherit(
        &mut self,
        facts: &[ThreadFacts],
        leased: &LeaseSet,
        decisions: &mut Vec<Decision>,
    ) -> BTreeSet<u32> {
        let mut disinherited = BTreeSet::new();
        for facts in facts {
            let (tid, start_time_ticks) = (facts.tid, facts.start_time_ticks);
            // A child that has a lease of its own holds what it inherited only after that.
            let is_due = |inheritance: &Inheritance| {
                let own = |value: &InheritedValue| value.target.of_child(tid, start_time_ticks);
                !inheritance.is_kept && !inheritance.values.iter().filter_map(own).any(|own| leased.has(&own))
            };
            if !self.0.get(&tid).is_some_and(is_due) {
                continue;
            }
            for InheritedValue { target, value, original } in self.0.remove(&tid).into_iter().flat_map(|it| it.values) {
                // Facts do not show membership in brisk's own groups; that is checked when the thread is moved.
                let is_member = matches!(target, Target::GroupMember { .. });
                if !is_member && current_value(&target, facts).as_ref() != Some(&value) {
                    continue;
                }
                let Some(target) = target.of_child(tid, start_time_ticks) else { continue };
                let action = Action::Disinherit { target, inherited: value, original };
                let reason = "it inherited this value from a restricted thread".to_owned();
                decisions.push(Decision { action, reason });
                disinherited.insert(tid);
            }
        }
        disinherited
    }
}

/// The value of `target` for a thread with these facts.
fn current_value(target: &Target, facts: &ThreadFacts) -> Option<String> {
    match target {
        Target::CpuAffinity { .. } => Some(format_list(&facts.allowed)),
        Target::Priority { .. } => Some(facts.priority.to_string()),
        Target::GroupMember { hierarchy, .. } => {
            let groups = facts.groups.cpu.iter().chain(&facts.groups.cpuset);
            groups.filter(|from| from.hierarchy == *hierarchy).map(|from| from.group.clone()).next()
        }
        _ => None,
    }
}
