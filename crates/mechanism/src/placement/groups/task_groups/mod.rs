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

use crate::placement::threads::classify::Class;
use crate::placement::threads::roster::{AT_WORK, Member, Roster};
use crate::{Glob, Holdings, Target};
use brisk_sys::BootTime;
use brisk_sys::sched::scheduling_group::SchedulingGroup;
use brisk_sys::sched::thread_facts::ThreadFacts;
use brisk_sys::sched::threads::Thread;

/// A group stays a bulk group for this long after its last bulk thread, because the jobs of a build come and go.
const LINGERS: Duration = Duration::from_secs(5);

/// The known groups and the processes in them.
#[derive(Debug, Default)]
pub(in crate::placement) struct TaskGroups {
    /// The groups of each process that was read.
    homes: BTreeMap<u32, Home>,
    /// Processes with groups that need not be read again for now.
    sure: BTreeSet<u32>,
    /// The own nice value or weight of each group.
    own: BTreeMap<Target, i32>,
    /// Groups that keep their weight, and why.
    spared: BTreeMap<Target, Spared>,
    /// The foreground's groups.
    of_front: BTreeSet<SchedulingGroup>,
    /// The control groups above the foreground.
    above_front: BTreeSet<PathBuf>,
    /// Threads with facts that were requested only for their group.
    asked: BTreeSet<u32>,
    /// The group of a thread that must not be deprioritised is unknown.
    is_incomplete: bool,
    /// When each place last had a bulk thread.
    bulk_at: BTreeMap<Home, BootTime>,
}

/// The groups that a process is in.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Home {
    group: SchedulingGroup,
    /// The control groups above it that compete by weights which brisk may change, the highest first.
    above: Vec<PathBuf>,
}

/// Why a group keeps its weight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::placement) enum Spared {
    /// It contains the foreground.
    Foreground,
    /// It contains brisk.
    Own,
    /// It contains a thread of this name that must not be deprioritised.
    Thread(String),
}

/// What decides between the foreground and a thread of another process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::placement) enum Reach {
    /// The thread's nice value.
    Nice,
    /// The nice value of its session or the weight of this control group.
    Group(Target),
    /// The same, which is kept.
    Spared(Target, Spared),
}

impl TaskGroups {
    /// Forgets all groups: the device or the configuration has changed.
    pub(in crate::placement) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Forgets processes that have ended.
    pub(in crate::placement) fn forget(&mut self, ended: &[u32]) {
        for pid in ended {
            self.homes.remove(pid);
            self.sure.remove(pid);
        }
    }

    /// Has the groups of every process read again.
    pub(in crate::placement) fn doubt(&mut self) {
        self.sure.clear();
    }

    /// Takes the requested facts of threads; `leased` has the leases in force.
    pub(in crate::placement) fn take(&mut self, facts: &[ThreadFacts], roster: &Roster, leased: &Holdings) {
        for ThreadFacts { tid, scheduling_group, weighed, .. } in facts {
            let Some(pid) = roster.get(*tid).map(|member| member.thread.pid) else { continue };
            let above = weighed.iter().map(|group| group.folder.clone()).collect();
            self.homes.insert(pid, Home { group: scheduling_group.clone(), above });
            self.sure.insert(pid);
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
    pub(in crate::placement) fn share(&mut self, tids: &[u32]) {
        self.asked.retain(|asked| !tids.contains(asked));
    }

    /// True when the facts of thread `tid` were requested only for its groups.
    pub(in crate::placement) fn asked_alone(&self, tid: u32) -> bool {
        self.asked.contains(&tid)
    }

    /// Notes the groups of `bulk` threads, and finds those with a thread that must not be deprioritised. Adds to `unknown` a
    /// thread of each process with groups that this needs, no more than `maximum`; always of the processes `moving`.
    pub(in crate::placement) fn spare(
        &mut self,
        (now, roster, excluded): (BootTime, &Roster, &[Glob]),
        bulk: &[&Member],
        moving: &BTreeSet<u32>,
        (unknown, maximum): (&mut Vec<u32>, usize),
    ) {
        let of_bulk: Vec<Home> = bulk.iter().filter_map(|member| self.home(&member.thread).cloned()).collect();
        self.bulk_at.extend(of_bulk.into_iter().map(|home| (home, now)));
        self.bulk_at.retain(|_, at| now.since(*at) < LINGERS);
        self.asked.clear();
        if self.bulk_at.is_empty() && bulk.is_empty() {
            return;
        }
        let kept: Vec<&Member> = roster.members().filter(|member| !does_with_less(member, roster, excluded)).collect();
        let mut wanted = BTreeMap::new();
        for Member { thread, .. } in kept.iter().chain(bulk) {
            if !self.sure.contains(&thread.pid) || moving.contains(&thread.pid) {
                wanted.entry(thread.pid).or_insert(thread.tid);
            }
        }
        self.follow_front(&kept);
        self.spare_groups(&kept);
        self.asked = wanted.into_values().take(maximum).filter(|tid| !unknown.contains(tid)).collect();
        unknown.extend(&self.asked);
    }

    /// Finds the groups of the foreground among the threads `kept`.
    fn follow_front(&mut self, kept: &[&Member]) {
        let front = kept.iter().filter(|member| member.is_front).filter_map(|member| self.home(&member.thread));
        let (groups, above): (BTreeSet<_>, Vec<_>) = front.map(|home| (home.group.clone(), home.above.clone())).unzip();
        self.of_front = groups;
        self.above_front = above.into_iter().flatten().collect();
    }

    /// Finds the groups that keep their weight for one of the threads `kept`, or because brisk is in them.
    fn spare_groups(&mut self, kept: &[&Member]) {
        let mut spared: BTreeMap<Target, Spared> = BTreeMap::new();
        self.is_incomplete = false;
        for member in kept {
            let Some(home) = self.home(&member.thread) else {
                self.is_incomplete = true;
                continue;
            };
            let Some(group) = self.competitor(home) else { continue };
            if member.is_front {
                spared.insert(group, Spared::Foreground);
            } else {
                spared.entry(group).or_insert_with(|| Spared::Thread(member.thread.command.clone()));
            }
        }
        let present: BTreeSet<Target> = self.homes.values().flat_map(Home::targets).collect();
        self.own.retain(|target, _| present.contains(target));
        for home in self.homes.values() {
            if let SchedulingGroup::Autogroup(group) = &home.group
                && group.is_own
            {
                spared.entry(Target::Autogroup(group.id)).or_insert(Spared::Own);
            }
        }
        self.spared = spared;
    }

    /// The group that competes with the foreground for what the threads at `home` do; none where their nice values do.
    fn competitor(&self, home: &Home) -> Option<Target> {
        let is_beside_front = home.above.first().is_some_and(|top| self.above_front.contains(top));
        let apart = home.above.iter().find(|folder| !self.above_front.contains(*folder)).filter(|_| is_beside_front);
        match (apart, &home.group) {
            (Some(folder), _) => Some(Target::GroupWeight(folder.clone())),
            (None, SchedulingGroup::Autogroup(group)) => Some(Target::Autogroup(group.id)),
            _ => None,
        }
    }

    /// The bulk groups that may be deprioritised, each with its own nice value or weight.
    pub(in crate::placement) fn lowered(&self, now: BootTime) -> BTreeMap<Target, i32> {
        let homes = self.bulk_at.iter().filter(|(_, at)| now.since(**at) < LINGERS);
        homes.filter_map(|(home, _)| self.lowerable(home)).collect()
    }

    /// The group of this thread if it may be deprioritised.
    pub(in crate::placement) fn of(&self, member: &Member) -> Option<Target> {
        Some(self.lowerable(self.home(&member.thread)?)?.0)
    }

    fn lowerable(&self, home: &Home) -> Option<(Target, i32)> {
        let group = self.competitor(home).filter(|group| !self.spared.contains_key(group))?;
        let own = *self.own.get(&group)?;
        Some((group, own))
    }

    /// True while a group may still turn out to be one to spare.
    pub(in crate::placement) fn is_incomplete(&self) -> bool {
        self.is_incomplete
    }

    /// True where bulk threads run and the foreground may compete with them by a control group's weight.
    pub(in crate::placement) fn may_have_weights(&self) -> bool {
        !self.bulk_at.is_empty() && (self.of_front.is_empty() || !self.above_front.is_empty())
    }

    /// True where the foreground is known to compete by the weight of a control group, and groups beside it are not all known.
    pub(in crate::placement) fn lacks_weights(&self) -> bool {
        self.is_incomplete && !self.above_front.is_empty()
    }

    /// What decides between the foreground and a thread; `None` where the thread's group is unknown.
    pub(in crate::placement) fn reach(&self, member: &Member) -> Option<Reach> {
        let home = self.home(&member.thread)?;
        let group = self.competitor(home).or_else(|| self.foreign(&home.group));
        Some(match group {
            Some(group) => match self.spared.get(&group) {
                _ if self.of_front.contains(&home.group) => Reach::Nice,
                Some(spared) => Reach::Spared(group, spared.clone()),
                None => Reach::Group(group),
            },
            None => Reach::Nice,
        })
    }

    /// A control group that brisk must not change and that does not contain the foreground.
    fn foreign(&self, group: &SchedulingGroup) -> Option<Target> {
        let SchedulingGroup::Cgroup(folder) = group else { return None };
        let is_below = |front: &SchedulingGroup| matches!(front, SchedulingGroup::Cgroup(it) if it.starts_with(folder));
        (!self.of_front.iter().any(is_below)).then(|| Target::GroupWeight(folder.clone()))
    }

    /// A new process is assumed to be in its parent's groups.
    fn home(&self, thread: &Thread) -> Option<&Home> {
        self.homes.get(&thread.pid).or_else(|| self.homes.get(&thread.parent))
    }
}

impl Home {
    /// All groups that it is in. The highest has no siblings to compete with.
    fn targets(&self) -> impl Iterator<Item = Target> {
        let autogroup = match &self.group {
            SchedulingGroup::Autogroup(group) => Some(Target::Autogroup(group.id)),
            _ => None,
        };
        self.above.iter().skip(1).cloned().map(Target::GroupWeight).chain(autogroup)
    }
}

/// True for a thread that does not keep its group from being deprioritised: a bulk or sleeping thread.
fn does_with_less(member: &Member, roster: &Roster, excluded: &[Glob]) -> bool {
    let Member { thread, habits, .. } = member;
    if member.is_front || excluded.iter().any(|glob| glob.matches(&thread.command)) {
        return false;
    }
    let sleeps = habits.is_silent() || (habits.demand() < AT_WORK && !habits.has_rhythm());
    // A new thread cannot be classified yet.
    let is_alike =
        habits.class() == Class::Bulk || habits.is_newcomer() || !habits.is_acquaintance() && !habits.has_rhythm();
    sleeps || is_alike || [thread.pid, thread.parent].iter().any(|&pid| roster.makes_room_for_children(pid))
}

impl fmt::Display for Reach {
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
            Self::Spared(group, why) => {
                match group {
                    Target::Autogroup(id) => write!(f, "its session competes as one (autogroup {id})")?,
                    Target::GroupWeight(folder) => {
                        write!(f, "its control group competes as one ({})", folder.display())?;
                    }
                    _ => write!(f, "its group competes as one ({group})")?,
                }
                f.write_str(" and keeps its weight: ")?;
                match why {
                    Spared::Foreground => f.write_str("it contains the foreground"),
                    Spared::Own => f.write_str("it contains brisk"),
                    Spared::Thread(command) => write!(f, "it contains {command}, which is not bulk"),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
