//! Finds the task groups that may be deprioritised as a whole, and what decides between the foreground and a bulk thread: where
//! a session (autogroup) or a control group competes as one, a nice value applies only within it, and between groups the
//! autogroup's nice value or the control group's weight.
//!
//! A group is deprioritised as a whole, including the short-lived processes of a build. That affects all its threads, so it is
//! done only to groups that have no other threads than bulk and sleeping ones, and never to the foreground's.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::placement::ablation::{Part, is_off};
use crate::placement::threads::classify::Class;
use crate::placement::threads::roster::{ACTIVE_DEMAND, Member, Roster};
use crate::{Glob, LeaseSet, Target};
use brisk_sys::BootTime;
use brisk_sys::sched::scheduling_group::SchedulingGroup;
use brisk_sys::sched::thread_facts::ThreadFacts;
use brisk_sys::sched::threads::Thread;

/// A group stays a bulk group for this long after its last bulk thread, because the jobs of a build come and go.
const BULK_LINGER: Duration = Duration::from_secs(5);

/// The known groups and the processes in them.
#[derive(Debug, Default)]
pub(in crate::placement) struct TaskGroups {
    /// The groups of each process that was read.
    group_paths: BTreeMap<u32, GroupPath>,
    /// Processes with groups that need not be read again for now.
    fresh: BTreeSet<u32>,
    /// The own nice value or weight of each group.
    own: BTreeMap<Target, i32>,
    /// Groups that keep their weight, and why.
    exempt: BTreeMap<Target, Exempt>,
    /// The foreground's groups.
    foreground_groups: BTreeSet<SchedulingGroup>,
    /// The ancestors of the foreground's control groups.
    foreground_ancestors: BTreeSet<PathBuf>,
    /// Threads with facts that were requested only for their group.
    requested: BTreeSet<u32>,
    /// The group of a thread that must not be deprioritised is unknown.
    is_incomplete: bool,
    /// When each place last had a bulk thread.
    last_bulk_at: BTreeMap<GroupPath, BootTime>,
}

/// The groups that a process is in.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct GroupPath {
    group: SchedulingGroup,
    /// Its ancestor control groups that compete by weights which brisk may change, the highest first.
    ancestors: Vec<PathBuf>,
}

/// What a group that may be deprioritised has, and what the foreground has beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::placement) struct Weights {
    /// Its own nice value or weight.
    pub own: i32,
    /// The weight of the foreground's group; its own value where that is unknown or has no effect on it.
    pub foreground: i32,
}

/// Why a group keeps its weight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::placement) enum Exempt {
    /// It contains the foreground.
    Foreground,
    /// It contains brisk.
    Own,
    /// It contains a thread of this name that must not be deprioritised.
    Thread(String),
}

/// What decides between the foreground and a thread of another process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::placement) enum CompetesBy {
    /// The thread's nice value.
    Nice,
    /// The nice value of its session or the weight of this control group.
    Group(Target),
    /// The same, which is kept.
    Exempt(Target, Exempt),
}

impl TaskGroups {
    /// Forgets all groups: the device or the configuration has changed.
    pub(in crate::placement) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Forgets processes that have ended.
    pub(in crate::placement) fn forget(&mut self, ended: &[u32]) {
        for pid in ended {
            self.group_paths.remove(pid);
            self.fresh.remove(pid);
        }
    }

    /// Has the groups of every process read again.
    pub(in crate::placement) fn invalidate(&mut self) {
        self.fresh.clear();
    }

    /// Takes the requested facts of threads; `leased` has the leases in force.
    pub(in crate::placement) fn take(&mut self, facts: &[ThreadFacts], roster: &Roster, leased: &LeaseSet) {
        for ThreadFacts { tid, scheduling_group, weighed, .. } in facts {
            let Some(pid) = roster.get(*tid).map(|member| member.thread.pid) else { continue };
            let ancestors = weighed.iter().map(|group| group.folder.clone()).collect();
            self.group_paths.insert(pid, GroupPath { group: scheduling_group.clone(), ancestors });
            self.fresh.insert(pid);
            let weights = weighed.iter().skip(1).map(|group| {
                (Target::GroupWeight(group.folder.clone()), group.weight.and_then(|weight| i32::try_from(weight).ok()))
            });
            let nice = match scheduling_group {
                SchedulingGroup::Autogroup(group) => Some((Target::Autogroup(group.id), Some(group.nice))),
                _ => None,
            };
            for (target, own) in weights.chain(nice) {
                match own {
                    // The value of a leased group is brisk's, so the known own value is kept.
                    _ if leased.has(&target) && self.own.contains_key(&target) => {}
                    Some(own) => drop(self.own.insert(target, own)),
                    None => drop(self.own.remove(&target)),
                }
            }
        }
    }

    /// The facts of the threads `tids` are requested for other reasons as well.
    pub(in crate::placement) fn note_other_requests(&mut self, tids: &[u32]) {
        self.requested.retain(|requested| !tids.contains(requested));
    }

    /// True when the facts of thread `tid` were requested only for its groups.
    pub(in crate::placement) fn is_requested_for_group(&self, tid: u32) -> bool {
        self.requested.contains(&tid)
    }

    /// Notes the groups of `bulk` threads, and finds those with a thread that must not be deprioritised. Adds to `unknown` a
    /// thread of each process with groups that this needs, no more than `maximum`; always of the processes `moving`.
    pub(in crate::placement) fn update(
        &mut self,
        (now, roster, excluded): (BootTime, &Roster, &[Glob]),
        bulk: &[&Member],
        moving: &BTreeSet<u32>,
        (unknown, maximum): (&mut Vec<u32>, usize),
    ) {
        let of_bulk: Vec<GroupPath> =
            bulk.iter().filter_map(|member| self.group_path(&member.thread).cloned()).collect();
        self.last_bulk_at.extend(of_bulk.into_iter().map(|group_path| (group_path, now)));
        self.last_bulk_at.retain(|_, at| now.since(*at) < BULK_LINGER);
        self.requested.clear();
        if self.last_bulk_at.is_empty() && bulk.is_empty() {
            return;
        }
        let kept: Vec<&Member> =
            roster.members().filter(|member| !may_be_deprioritised(now, member, roster, excluded)).collect();
        let mut wanted = BTreeMap::new();
        for Member { thread, .. } in kept.iter().chain(bulk) {
            if !self.fresh.contains(&thread.pid) || moving.contains(&thread.pid) {
                wanted.entry(thread.pid).or_insert(thread.tid);
            }
        }
        self.find_foreground_groups(&kept);
        self.find_exempt_groups(&kept);
        self.requested = wanted.into_values().take(maximum).filter(|tid| !unknown.contains(tid)).collect();
        unknown.extend(&self.requested);
    }

    /// Finds the groups of the foreground among the threads `kept`.
    fn find_foreground_groups(&mut self, kept: &[&Member]) {
        let foreground =
            kept.iter().filter(|member| member.is_foreground).filter_map(|member| self.group_path(&member.thread));
        let (groups, ancestors): (BTreeSet<_>, Vec<_>) =
            foreground.map(|group_path| (group_path.group.clone(), group_path.ancestors.clone())).unzip();
        self.foreground_groups = groups;
        self.foreground_ancestors = ancestors.into_iter().flatten().collect();
    }

    /// Finds the groups that keep their weight for one of the threads `kept`, or because brisk is in them.
    fn find_exempt_groups(&mut self, kept: &[&Member]) {
        let mut exempt: BTreeMap<Target, Exempt> = BTreeMap::new();
        self.is_incomplete = false;
        for member in kept {
            let Some(group_path) = self.group_path(&member.thread) else {
                self.is_incomplete = true;
                continue;
            };
            let Some(group) = self.competing_group(group_path) else { continue };
            if member.is_foreground {
                exempt.insert(group, Exempt::Foreground);
            } else {
                exempt.entry(group).or_insert_with(|| Exempt::Thread(member.thread.command.clone()));
            }
        }
        let present: BTreeSet<Target> = self.group_paths.values().flat_map(GroupPath::targets).collect();
        self.own.retain(|target, _| present.contains(target));
        for group_path in self.group_paths.values() {
            if let SchedulingGroup::Autogroup(group) = &group_path.group
                && group.is_own
            {
                exempt.entry(Target::Autogroup(group.id)).or_insert(Exempt::Own);
            }
        }
        self.exempt = exempt;
    }

    /// The group that competes with the foreground for what the threads at `group_path` do; none where their nice values do.
    fn competing_group(&self, group_path: &GroupPath) -> Option<Target> {
        let shares_top_group = group_path.ancestors.first().is_some_and(|top| self.foreground_ancestors.contains(top));
        let first_unshared = group_path
            .ancestors
            .iter()
            .find(|folder| !self.foreground_ancestors.contains(*folder))
            .filter(|_| shares_top_group);
        match (first_unshared, &group_path.group) {
            (Some(folder), _) => Some(Target::GroupWeight(folder.clone())),
            (None, SchedulingGroup::Autogroup(group)) => Some(Target::Autogroup(group.id)),
            _ => None,
        }
    }

    /// The bulk groups that may be deprioritised, each with its own nice value or its weights.
    pub(in crate::placement) fn lowerable_groups(&self, now: BootTime) -> BTreeMap<Target, Weights> {
        let group_paths = self.last_bulk_at.iter().filter(|(_, at)| now.since(**at) < BULK_LINGER);
        group_paths.filter_map(|(group_path, _)| self.lowerable(group_path)).collect()
    }

    /// The group of this thread if it may be deprioritised.
    pub(in crate::placement) fn of(&self, member: &Member) -> Option<Target> {
        Some(self.lowerable(self.group_path(&member.thread)?)?.0)
    }

    fn lowerable(&self, group_path: &GroupPath) -> Option<(Target, Weights)> {
        let group = self
            .competing_group(group_path)
            .filter(|group| !self.exempt.contains_key(group) && !is_off(Part::GroupWeights))?;
        let own = *self.own.get(&group)?;
        let foreground = self.foreground_beside(&group).unwrap_or(own);
        Some((group, Weights { own, foreground }))
    }

    /// The weight of the foreground's group among the siblings of `group`.
    fn foreground_beside(&self, group: &Target) -> Option<i32> {
        let Target::GroupWeight(folder) = group else { return None };
        let sibling = self.foreground_ancestors.iter().find(|ancestor| ancestor.parent() == folder.parent())?;
        self.own.get(&Target::GroupWeight(sibling.clone())).copied()
    }

    /// How many processes' groups are known.
    #[cfg(test)]
    pub(in crate::placement) fn processes(&self) -> usize {
        self.group_paths.len().max(self.fresh.len())
    }

    /// True while a group may still turn out to be exempt.
    pub(in crate::placement) fn is_incomplete(&self) -> bool {
        self.is_incomplete
    }

    /// True where bulk threads run and the foreground may compete with them by a control group's weight.
    pub(in crate::placement) fn may_compete_by_weight(&self) -> bool {
        !self.last_bulk_at.is_empty() && (self.foreground_groups.is_empty() || !self.foreground_ancestors.is_empty())
    }

    /// True where the foreground is known to compete by the weight of a control group, and groups beside it are not all known.
    pub(in crate::placement) fn has_unknown_siblings(&self) -> bool {
        self.is_incomplete && !self.foreground_ancestors.is_empty()
    }

    /// What decides between the foreground and a thread; `None` where the thread's group is unknown.
    pub(in crate::placement) fn competes_by(&self, member: &Member) -> Option<CompetesBy> {
        let group_path = self.group_path(&member.thread)?;
        let group = self.competing_group(group_path).or_else(|| self.foreign(&group_path.group));
        Some(match group {
            Some(group) => match self.exempt.get(&group) {
                _ if self.foreground_groups.contains(&group_path.group) => CompetesBy::Nice,
                Some(exempt) => CompetesBy::Exempt(group, exempt.clone()),
                None => CompetesBy::Group(group),
            },
            None => CompetesBy::Nice,
        })
    }

    /// A control group that brisk must not change and that does not contain the foreground.
    fn foreign(&self, group: &SchedulingGroup) -> Option<Target> {
        let SchedulingGroup::Cgroup(folder) = group else { return None };
        let is_below =
            |foreground: &SchedulingGroup| matches!(foreground, SchedulingGroup::Cgroup(it) if it.starts_with(folder));
        (!self.foreground_groups.iter().any(is_below)).then(|| Target::GroupWeight(folder.clone()))
    }

    /// A new process is assumed to be in its parent's groups.
    fn group_path(&self, thread: &Thread) -> Option<&GroupPath> {
        self.group_paths.get(&thread.pid).or_else(|| self.group_paths.get(&thread.parent))
    }
}

impl GroupPath {
    /// All groups that it is in. The highest has no siblings to compete with.
    fn targets(&self) -> impl Iterator<Item = Target> {
        let autogroup = match &self.group {
            SchedulingGroup::Autogroup(group) => Some(Target::Autogroup(group.id)),
            _ => None,
        };
        self.ancestors.iter().skip(1).cloned().map(Target::GroupWeight).chain(autogroup)
    }
}

/// True for a thread that does not keep its group from being deprioritised: a bulk or sleeping thread.
fn may_be_deprioritised(now: BootTime, member: &Member, roster: &Roster, excluded: &[Glob]) -> bool {
    let Member { thread, statistics, .. } = member;
    if member.is_foreground || excluded.iter().any(|glob| glob.matches(&thread.command)) {
        return false;
    }
    let sleeps = member.is_sleeping(now) || (statistics.demand() < ACTIVE_DEMAND && !statistics.is_periodic());
    // A new thread cannot be classified yet.
    let is_bulk_or_new = statistics.class() == Class::Bulk
        || statistics.is_new()
        || !statistics.is_classifiable() && !statistics.is_periodic();
    sleeps || is_bulk_or_new || [thread.pid, thread.parent].iter().any(|&pid| roster.is_bulk_fork_parent(pid))
}

impl fmt::Display for CompetesBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nice => f.write_str("its nice value applies against the foreground"),
            Self::Group(Target::Autogroup(id)) => {
                write!(f, "its session competes as one, by the nice value of autogroup {id}")
            }
            Self::Group(Target::GroupWeight(folder)) => {
                write!(f, "only the weight of {} applies against the foreground", folder.display())
            }
            Self::Group(group) => write!(f, "only {group} applies against the foreground"),
            Self::Exempt(group, why) => {
                match group {
                    Target::Autogroup(id) => write!(f, "its session competes as one (autogroup {id})")?,
                    Target::GroupWeight(folder) => {
                        write!(f, "its control group competes as one ({})", folder.display())?;
                    }
                    _ => write!(f, "its group competes as one ({group})")?,
                }
                f.write_str(" and keeps its weight: ")?;
                match why {
                    Exempt::Foreground => f.write_str("it contains the foreground"),
                    Exempt::Own => f.write_str("it contains brisk"),
                    Exempt::Thread(command) => write!(f, "it contains {command}, which is not bulk"),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
