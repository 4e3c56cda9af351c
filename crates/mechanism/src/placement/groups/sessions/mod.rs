//! Finds the sessions that may be deprioritised, and what decides between the foreground and a bulk thread: where each session
//! competes as one (autogroup), a nice value applies only within a session, and the autogroup's nice value between sessions.
//!
//! A session is deprioritised as a whole, including the short-lived processes of a build. That affects all its threads, so it
//! is done only to sessions that have no other threads than bulk and sleeping ones, and never to the foreground's.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::neighbours::does_with_less;
use crate::placement::threads::roster::{Member, Roster};
use crate::{Glob, Holdings, Target};
use brisk_sys::BootTime;
use brisk_sys::sched::scheduling_group::SchedulingGroup;
use brisk_sys::sched::thread_facts::ThreadFacts;

/// A session stays a bulk session for this long after its last bulk thread, because the jobs of a build come and go.
const LINGERS: Duration = Duration::from_secs(5);

/// The known sessions and the processes in them.
#[derive(Debug, Default)]
pub(in crate::placement) struct Sessions {
    /// The scheduling group of each process that was read.
    homes: BTreeMap<u32, SchedulingGroup>,
    /// Processes with a group that need not be read again for now.
    sure: BTreeSet<u32>,
    /// The own nice value of each session's autogroup.
    nice: BTreeMap<u64, i32>,
    /// Sessions that keep their weight, and why.
    spared: BTreeMap<u64, Spared>,
    /// The foreground's groups.
    of_front: BTreeSet<SchedulingGroup>,
    /// Threads with facts that were requested only for their group.
    asked: BTreeSet<u32>,
    /// The group of a thread that must not be deprioritised is unknown.
    is_incomplete: bool,
    /// When each session last had a bulk thread.
    bulk_at: BTreeMap<u64, BootTime>,
}

/// Why a session keeps its weight.
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
    /// The nice value of its session.
    Autogroup(u64),
    /// The nice value of its session, which is kept.
    Spared(u64, Spared),
    /// The weight of this control group.
    Cgroup(PathBuf),
}

impl Sessions {
    /// Forgets all sessions: the device or the configuration has changed.
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

    /// Has the group of every process read again.
    pub(in crate::placement) fn doubt(&mut self) {
        self.sure.clear();
    }

    /// Takes the requested facts of threads; `leased` has the leases in force.
    pub(in crate::placement) fn take(&mut self, facts: &[ThreadFacts], roster: &Roster, leased: &Holdings) {
        for ThreadFacts { tid, scheduling_group, .. } in facts {
            let Some(pid) = roster.get(*tid).map(|member| member.thread.pid) else { continue };
            self.homes.insert(pid, scheduling_group.clone());
            self.sure.insert(pid);
            // The nice value of a leased session is brisk's, so the known own value is kept.
            if let SchedulingGroup::Autogroup(group) = scheduling_group
                && !(leased.has(&Target::Autogroup(group.id)) && self.nice.contains_key(&group.id))
            {
                self.nice.insert(group.id, group.nice);
            }
        }
    }

    /// True when the facts of thread `tid` were requested only for its group.
    pub(in crate::placement) fn asked_alone(&self, tid: u32) -> bool {
        self.asked.contains(&tid)
    }

    /// Finds the sessions with a thread that must not be deprioritised. Adds to `unknown` a thread of each process with a group
    /// that this needs, no more than `maximum`.
    pub(in crate::placement) fn spare(
        &mut self,
        roster: &Roster,
        excluded: &[Glob],
        unknown: &mut Vec<u32>,
        maximum: usize,
    ) {
        self.spared.clear();
        self.of_front.clear();
        self.is_incomplete = false;
        let mut wanted = BTreeMap::new();
        for member in roster.members().filter(|member| !does_with_less(member, roster, excluded)) {
            let pid = member.thread.pid;
            if !self.sure.contains(&pid) {
                wanted.entry(pid).or_insert(member.thread.tid);
            }
            let Some(home) = self.home(&member.thread).cloned() else {
                self.is_incomplete = true;
                continue;
            };
            if let SchedulingGroup::Autogroup(group) = &home {
                let spared = if member.is_front { Spared::Foreground } else { Spared::of(member) };
                let known = self.spared.entry(group.id).or_insert_with(|| spared.clone());
                if spared == Spared::Foreground {
                    *known = spared;
                }
            }
            if member.is_front {
                self.of_front.insert(home);
            }
        }
        let present: BTreeSet<u64> = self.homes.values().filter_map(autogroup).collect();
        self.nice.retain(|id, _| present.contains(id));
        for home in self.homes.values() {
            if let SchedulingGroup::Autogroup(group) = home
                && group.is_own
            {
                self.spared.entry(group.id).or_insert(Spared::Own);
            }
        }
        self.asked = wanted.into_values().take(maximum).filter(|tid| !unknown.contains(tid)).collect();
        unknown.extend(&self.asked);
    }

    /// Notes the sessions of bulk threads.
    pub(in crate::placement) fn note(&mut self, now: BootTime, bulk: &[&Member]) {
        let of_bulk = |member: &&Member| autogroup(self.home(&member.thread)?);
        let ids: Vec<u64> = bulk.iter().filter_map(of_bulk).collect();
        self.bulk_at.extend(ids.into_iter().map(|id| (id, now)));
        self.bulk_at.retain(|_, at| now.since(*at) < LINGERS);
    }

    /// True where some session had a bulk thread within [`LINGERS`].
    pub(in crate::placement) fn has_bulk(&self, now: BootTime) -> bool {
        self.bulk_at.values().any(|at| now.since(*at) < LINGERS)
    }

    /// The bulk sessions that may be deprioritised, each with its own nice value.
    pub(in crate::placement) fn lowered(&self, now: BootTime) -> Vec<(u64, i32)> {
        let ids = self.bulk_at.iter().filter(|(id, at)| now.since(**at) < LINGERS && !self.spared.contains_key(id));
        ids.filter_map(|(&id, _)| Some((id, *self.nice.get(&id)?))).collect()
    }

    /// The session of this thread if it may be deprioritised, and its own nice value.
    pub(in crate::placement) fn of(&self, member: &Member) -> Option<(u64, i32)> {
        let id = autogroup(self.home(&member.thread)?).filter(|id| !self.spared.contains_key(id))?;
        Some((id, *self.nice.get(&id)?))
    }

    /// True while a session may still turn out to be one to spare.
    pub(in crate::placement) fn is_incomplete(&self) -> bool {
        self.is_incomplete
    }

    /// What decides between the foreground and a thread; `None` where the thread's group is unknown.
    pub(in crate::placement) fn reach(&self, member: &Member) -> Option<Reach> {
        let home = self.home(&member.thread)?;
        Some(match home {
            _ if self.of_front.contains(home) => Reach::Nice,
            SchedulingGroup::Root => Reach::Nice,
            SchedulingGroup::Autogroup(group) => match self.spared.get(&group.id) {
                Some(spared) => Reach::Spared(group.id, spared.clone()),
                None => Reach::Autogroup(group.id),
            },
            SchedulingGroup::Cgroup(folder) => {
                let is_below = |front: &SchedulingGroup| match front {
                    SchedulingGroup::Cgroup(front) => front.starts_with(folder),
                    _ => false,
                };
                if self.of_front.iter().any(is_below) { Reach::Nice } else { Reach::Cgroup(folder.clone()) }
            }
        })
    }

    /// A new process is assumed to be in its parent's group.
    fn home(&self, thread: &brisk_sys::sched::threads::Thread) -> Option<&SchedulingGroup> {
        self.homes.get(&thread.pid).or_else(|| self.homes.get(&thread.parent))
    }
}

impl Spared {
    fn of(member: &Member) -> Self {
        Self::Thread(member.thread.command.clone())
    }
}

fn autogroup(home: &SchedulingGroup) -> Option<u64> {
    match home {
        SchedulingGroup::Autogroup(group) => Some(group.id),
        _ => None,
    }
}

impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nice => f.write_str("its nice value applies against the foreground"),
            Self::Autogroup(id) => {
                write!(f, "its session competes as one, by the nice value of autogroup {id}")
            }
            Self::Spared(id, why) => {
                write!(f, "its session competes as one (autogroup {id}) and keeps its weight: ")?;
                match why {
                    Spared::Foreground => f.write_str("it contains the foreground"),
                    Spared::Own => f.write_str("it contains brisk"),
                    Spared::Thread(command) => write!(f, "it contains {command}, which is not bulk"),
                }
            }
            Self::Cgroup(folder) => write!(f, "only the weight of {} applies against the foreground", folder.display()),
        }
    }
}

#[cfg(test)]
mod tests;
