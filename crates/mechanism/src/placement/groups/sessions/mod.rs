//! Which sessions may weigh less for the foreground's sake, and what counts between the foreground and a bulk thread: where
//! each session competes as one (autogroups), a nice value counts within it alone, and the session's own one between them.
//!
//! A session weighs less as a whole, with the short-lived processes of a build in it. That takes from all of its threads, so
//! it is done only where bulk work and sleeping threads are all that it has, and never to the foreground's.

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

/// A session of a build, whose jobs come and go, is one of bulk work for so long after the last.
const LINGERS: Duration = Duration::from_secs(5);

/// What is known of them.
#[derive(Debug, Default)]
pub(in crate::placement) struct Sessions {
    /// In which group of the scheduler each process is, as far as it was asked.
    homes: BTreeMap<u32, SchedulingGroup>,
    /// Processes whose group need not be asked again for now.
    sure: BTreeSet<u32>,
    /// What each session weighs by itself: the nice value of its autogroup.
    nice: BTreeMap<u64, i32>,
    /// Sessions that keep what they weigh, and why.
    spared: BTreeMap<u64, Spared>,
    /// The foreground's groups.
    of_front: BTreeSet<SchedulingGroup>,
    /// Threads that were asked for that alone.
    asked: BTreeSet<u32>,
    /// A thread that would not do with less is in a group that is not known yet.
    is_incomplete: bool,
    /// When each session had bulk work last.
    bulk_at: BTreeMap<u64, BootTime>,
}

/// Why a session keeps what it weighs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::placement) enum Spared {
    /// The foreground is in it.
    Foreground,
    /// Brisk is in it.
    Own,
    /// A thread of this name would not do with less.
    Thread(String),
}

/// What counts between the foreground and a thread of another process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::placement) enum Reach {
    /// The thread's nice value.
    Nice,
    /// The nice value of its session.
    Autogroup(u64),
    /// The same, but the session keeps it.
    Spared(u64, Spared),
    /// The weight of this control group.
    Cgroup(PathBuf),
}

impl Sessions {
    /// Forgets who is where: the device or the configuration is another.
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

    /// Has every process asked again where it is.
    pub(in crate::placement) fn doubt(&mut self) {
        self.sure.clear();
    }

    /// Takes what was asked for of threads, while so much is leased.
    pub(in crate::placement) fn take(&mut self, facts: &[ThreadFacts], roster: &Roster, leased: &Holdings) {
        for ThreadFacts { tid, scheduling_group, .. } in facts {
            let Some(pid) = roster.get(*tid).map(|member| member.thread.pid) else { continue };
            self.homes.insert(pid, scheduling_group.clone());
            self.sure.insert(pid);
            // What it weighs while that is leased is our own doing.
            if let SchedulingGroup::Autogroup(group) = scheduling_group
                && !(leased.has(&Target::Autogroup(group.id)) && self.nice.contains_key(&group.id))
            {
                self.nice.insert(group.id, group.nice);
            }
        }
    }

    /// True when nothing but the group of thread `tid` was asked for.
    pub(in crate::placement) fn asked_alone(&self, tid: u32) -> bool {
        self.asked.contains(&tid)
    }

    /// Finds out which sessions have a thread in them that would not do with less. Adds to `unknown` one of each process whose
    /// group is wanted for that, so many at most.
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

    /// Notes which sessions bulk threads are in.
    pub(in crate::placement) fn note(&mut self, now: BootTime, bulk: &[&Member]) {
        let of_bulk = |member: &&Member| autogroup(self.home(&member.thread)?);
        let ids: Vec<u64> = bulk.iter().filter_map(of_bulk).collect();
        self.bulk_at.extend(ids.into_iter().map(|id| (id, now)));
        self.bulk_at.retain(|_, at| now.since(*at) < LINGERS);
    }

    /// True where a session had bulk work a moment ago.
    pub(in crate::placement) fn has_bulk(&self, now: BootTime) -> bool {
        self.bulk_at.values().any(|at| now.since(*at) < LINGERS)
    }

    /// The sessions of bulk work that may weigh less, each with its own nice value.
    pub(in crate::placement) fn lowered(&self, now: BootTime) -> Vec<(u64, i32)> {
        let ids = self.bulk_at.iter().filter(|(id, at)| now.since(**at) < LINGERS && !self.spared.contains_key(id));
        ids.filter_map(|(&id, _)| Some((id, *self.nice.get(&id)?))).collect()
    }

    /// The session that may weigh less for what this thread does, and what it weighs by itself.
    pub(in crate::placement) fn of(&self, member: &Member) -> Option<(u64, i32)> {
        let id = autogroup(self.home(&member.thread)?).filter(|id| !self.spared.contains_key(id))?;
        Some((id, *self.nice.get(&id)?))
    }

    /// True while it may yet turn out that a session has to be spared.
    pub(in crate::placement) fn is_incomplete(&self) -> bool {
        self.is_incomplete
    }

    /// What counts between the foreground and a thread; nothing is said of what is not known.
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

    /// A process that has just come is where its parent is.
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
            Self::Nice => f.write_str("its nice value counts against the foreground"),
            Self::Autogroup(id) => {
                write!(f, "its session competes as one: what counts is the nice value of autogroup {id}")
            }
            Self::Spared(id, why) => {
                write!(f, "its session competes as one (autogroup {id}), and keeps its weight: ")?;
                match why {
                    Spared::Foreground => f.write_str("the foreground is in it"),
                    Spared::Own => f.write_str("brisk is in it"),
                    Spared::Thread(command) => write!(f, "{command} is in it, and is not bulk"),
                }
            }
            Self::Cgroup(folder) => write!(f, "only the weight of {} counts against the foreground", folder.display()),
        }
    }
}

#[cfg(test)]
mod tests;
