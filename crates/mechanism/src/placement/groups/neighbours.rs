//! Finds the groups of a delegated sub-tree, or systemd units, that may be deprioritised for the foreground. Where the
//! foreground has its own group, nice values in another group apply only within that group: the other group's weight competes
//! with the foreground's.
//!
//! A whole group is deprioritised only where it has no other threads than bulk and sleeping ones.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::placement::threads::classify::Class;
use crate::placement::threads::roster::{AT_WORK, Member, Roster};
use crate::{Glob, Holdings};
use brisk_sys::cgroup::weight::WeighedGroup;
use brisk_sys::{BootTime, Target};

/// Groups are read again this long after the first reading, then after twice as long each time up to the longest: a service
/// manager moves a process that it starts into its own group shortly after the start.
const SOON: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(5);
/// While the pause between readings is shorter, the foreground may still be moved.
const SETTLED: Duration = Duration::from_millis(200);

/// The groups that compete with the foreground's.
#[derive(Debug, Default)]
pub(in crate::placement) struct Neighbours {
    /// The topmost groups that do not contain the foreground, whose parent does.
    found: Vec<Neighbour>,
    /// The index in `found` of the group that contains each process, directly or in a sub-group.
    homes: BTreeMap<u32, u32>,
    due: BootTime,
    pause: Duration,
}

#[derive(Debug)]
struct Neighbour {
    folder: PathBuf,
    /// Its own weight; `None` where it is not to be changed.
    weight: Option<u32>,
}

impl Neighbours {
    /// True when the groups should be read.
    pub(in crate::placement) fn are_due(&self, now: BootTime) -> bool {
        now >= self.due
    }

    /// True while the foreground is so new that it may still be moved into its own group.
    pub(in crate::placement) fn are_unsettled(&self) -> bool {
        self.pause < SETTLED
    }

    /// True where no such group is known.
    pub(in crate::placement) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Forgets all groups: the foreground has changed.
    pub(in crate::placement) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Takes a reading of all groups, each followed by its sub-groups; `leased` has the leases in force.
    pub(in crate::placement) fn take(
        &mut self,
        now: BootTime,
        groups: &[WeighedGroup],
        front: &BTreeSet<u32>,
        leased: &Holdings,
    ) {
        self.pause = (self.pause * 2).clamp(SOON, LONGEST);
        self.due = now + self.pause;
        let has_front = |group: &&WeighedGroup| group.pids.iter().any(|pid| front.contains(pid));
        let of_front: Vec<&Path> = groups.iter().filter(has_front).map(|group| group.folder.as_path()).collect();
        let is_above_front = |folder: &Path| of_front.iter().any(|of_front| of_front.starts_with(folder));
        let before = std::mem::take(&mut self.found);
        self.homes.clear();
        for WeighedGroup { folder, weight, pids } in groups {
            let is_below_last = self.found.last().is_some_and(|last| folder.starts_with(&last.folder));
            let is_neighbour = || !is_above_front(folder) && folder.parent().is_some_and(is_above_front);
            if !is_below_last && is_neighbour() {
                // The weight of a leased group is brisk's, so the known own weight is kept.
                let known = before.iter().find(|known| known.folder == *folder);
                let is_leased = leased.has(&Target::GroupWeight(folder.clone()));
                let weight = known.filter(|_| is_leased).map_or(*weight, |known| known.weight);
                self.found.push(Neighbour { folder: folder.clone(), weight });
            } else if !is_below_last {
                continue;
            }
            let home = (self.found.len() - 1) as u32;
            self.homes.extend(pids.iter().map(|pid| (*pid, home)));
        }
    }

    /// Spares, until the next reading, the groups with a thread that must not be deprioritised.
    pub(in crate::placement) fn spare(&mut self, roster: &Roster, excluded: &[Glob]) {
        if self.found.iter().all(|neighbour| neighbour.weight.is_none()) {
            return;
        }
        for member in roster.members() {
            let Some(home) = self.homes.get(&member.thread.pid) else { continue };
            let Some(Neighbour { weight, .. }) = self.found.get_mut(*home as usize) else { continue };
            if weight.is_some() && !does_with_less(member, roster, excluded) {
                *weight = None;
            }
        }
    }

    /// The weight of the group in `folder` cannot be changed.
    pub(in crate::placement) fn forget(&mut self, folder: &Path) {
        let neighbour = self.found.iter_mut().find(|neighbour| neighbour.folder == folder);
        neighbour.into_iter().for_each(|neighbour| neighbour.weight = None);
    }

    /// The group of process `pid` if it may be deprioritised, and its own weight.
    pub(in crate::placement) fn of(&self, pid: u32) -> Option<(&PathBuf, u32)> {
        let Neighbour { folder, weight } = self.found.get(*self.homes.get(&pid)? as usize)?;
        Some((folder, (*weight)?))
    }
}

/// True for a thread that may be deprioritised with its group or session: it is bulk, it sleeps, or it is too new to judge.
pub(in crate::placement) fn does_with_less(member: &Member, roster: &Roster, excluded: &[Glob]) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;
    use brisk_sys::process::schedstat::Usage;
    use brisk_sys::sched::threads::{Sample, Thread, ThreadUsage};

    fn at(milliseconds: u64) -> BootTime {
        BootTime::from_milliseconds(milliseconds)
    }

    fn group(folder: &str, weight: Option<u32>, pids: &[u32]) -> WeighedGroup {
        WeighedGroup { folder: Path::new("/t").join(folder), weight, pids: pids.to_vec() }
    }

    fn tree(pids: &[u32]) -> WeighedGroup {
        WeighedGroup { folder: "/t".into(), weight: None, pids: pids.to_vec() }
    }

    /// In the tree /t, with process 1 as the foreground: the group of `pid` that may be deprioritised.
    fn found(groups: &[WeighedGroup], pid: u32) -> Option<(String, u32)> {
        let mut neighbours = Neighbours::default();
        neighbours.take(at(0), groups, &[1].into(), &Holdings::default());
        neighbours.of(pid).map(|(folder, weight)| (folder.display().to_string(), weight))
    }

    // Verifies PLACE-4.
    #[test]
    fn it_is_the_highest_group_that_does_not_hold_the_foreground() {
        let some = |folder: &str, weight| Some((folder.to_owned(), weight));
        let w = Some(100);
        for (case, groups, expected) in [
            ("side by side", vec![tree(&[]), group("a", w, &[1]), group("b", Some(50), &[2])], some("/t/b", 50)),
            (
                "deep below",
                vec![tree(&[]), group("a", w, &[]), group("a/x", w, &[1]), group("b", w, &[]), group("b/y", w, &[2])],
                some("/t/b", 100),
            ),
            (
                "where they part",
                vec![tree(&[]), group("a", w, &[]), group("a/x", w, &[1]), group("a/y", Some(20), &[2])],
                some("/t/a/y", 20),
            ),
            ("the same", vec![tree(&[]), group("a", w, &[1, 2])], None),
            ("the foreground is below", vec![tree(&[2]), group("a", w, &[1])], None),
            ("the foreground is above", vec![tree(&[1]), group("a", w, &[2])], some("/t/a", 100)),
            ("the foreground is outside", vec![tree(&[]), group("a", w, &[2])], None),
            ("not ours to change", vec![tree(&[]), group("a", w, &[1]), group("b", None, &[2])], None),
            (
                "a name begins like another's",
                vec![tree(&[]), group("a", w, &[1]), group("ab", w, &[2])],
                some("/t/ab", 100),
            ),
        ] {
            assert_eq!(found(&groups, 2), expected, "{case}");
        }
    }

    // Verifies PLACE-4.
    #[test]
    fn what_a_group_weighs_while_it_is_leased_is_not_its_own() {
        let mut neighbours = Neighbours::default();
        let front = BTreeSet::from([1]);
        let mut sample = |seconds: u64, weight, leased: &Holdings| {
            let groups = [tree(&[]), group("a", Some(100), &[1]), group("b", weight, &[2])];
            neighbours.take(at(seconds * 1000), &groups, &front, leased);
            neighbours.of(2).map(|(_, weight)| weight)
        };
        let mut leased = Holdings::default();
        leased.lease(at(0), (&Target::GroupWeight("/t/b".into()), "5"), at(90_000), "why", &mut Vec::new());
        assert_eq!(sample(0, Some(50), &Holdings::default()), Some(50));
        assert_eq!(sample(5, Some(5), &leased), Some(50));
        assert_eq!(sample(10, None, &leased), Some(50), "idle");
        assert_eq!(sample(15, Some(70), &Holdings::default()), Some(70), "another program's");
    }

    // Verifies PLACE-4.
    #[test]
    fn neighbours_are_read_with_exponential_back_off() {
        let mut neighbours = Neighbours::default();
        let mut samples = Vec::new();
        for tick in 0..200 {
            if neighbours.are_due(at(tick * 50)) {
                neighbours.take(at(tick * 50), &[], &BTreeSet::new(), &Holdings::default());
                samples.push((tick, neighbours.are_unsettled()));
            }
        }
        let settled = [7, 15, 31, 63, 127].map(|tick| (tick, false));
        assert_eq!(samples, [&[(0, true), (1, true), (3, false)][..], &settled[..]].concat());
        neighbours.clear();
        assert!(neighbours.are_due(at(0)) && neighbours.are_unsettled());
    }

    // Verifies PLACE-4.
    #[test]
    fn a_group_is_spared_for_any_thread_that_is_not_bulk() {
        let thread = |tid: u32| Thread { tid, pid: tid, parent: 9, command: format!("t{tid}") };
        // The load of thread 3 per 100 ms: run time in milliseconds, and how often it is scheduled in.
        for (case, run_ms, slices, expected) in [
            ("a hog", 100, 1, true),
            ("music", 5, 5, false),
            ("it sleeps", 0, 0, true),
            ("it works now and then", 1, 0, true),
            ("a download", 37, 3, false),
        ] {
            let mut roster = Roster::default();
            roster.put_in_foreground([1].into());
            roster.take(at(0), 0, &Sample { born: vec![thread(1), thread(2), thread(3)], ..Sample::default() });
            for tick in 1..=20 {
                let used = |tid, run_ms: u64, slices| ThreadUsage {
                    tid,
                    usage: Usage { wall_ns: 100_000_000, run_ns: run_ms * 1_000_000, wait_ns: 0, slices },
                };
                let used = vec![used(2, 100, 1), used(3, run_ms, slices)];
                roster.take(at(tick * 100), 100_000_000, &Sample { used, ..Sample::default() });
            }
            let mut neighbours = Neighbours::default();
            let groups = [tree(&[]), group("a", Some(100), &[1]), group("b", Some(100), &[2, 3])];
            neighbours.take(at(0), &groups, roster.front(), &Holdings::default());
            neighbours.spare(&roster, &[]);
            assert_eq!(neighbours.of(2).is_some(), expected, "{case}");
            neighbours.take(at(0), &groups, roster.front(), &Holdings::default());
            neighbours.spare(&roster, &["t2".parse().unwrap()]);
            assert!(neighbours.of(2).is_none(), "{case}: an excluded thread keeps the weight of its group");
        }
    }
}
