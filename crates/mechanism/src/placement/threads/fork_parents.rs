//! Fork parents: processes with short-lived children that are CPU-bound together, such as builds and scripts.
//!
//! A child that has ended by the next sample cannot be deprioritised. But a child inherits its parent's attributes, so
//! deprioritising the parent reaches all of them. The kernel sums their CPU time as the parent reaps each (cutime, cstime).

use std::collections::BTreeMap;
use std::time::Duration;

use crate::placement::ablation::{Part, is_off};
use brisk_sys::BootTime;
use brisk_sys::process::TICK_MS;
use brisk_sys::sched::thread_facts::ThreadFacts;
use brisk_sys::sched::threads::Sample;

/// A process's facts are requested after this many new children.
const CHILDREN: u32 = 2;
/// A process is forgotten when it has had no new child for this long.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(5);
/// The most processes that are followed.
const MAXIMUM_PARENTS: usize = 8;
/// CPU time of children is measured over at least this period, because the kernel adds it only when a child has ended.
const PERIOD: Duration = Duration::from_millis(950);
/// A parent of at most this age is measured from its start at once, so that a build is detected within two periods.
const YOUNG: Duration = Duration::from_secs(10);
/// The children's CPU use from which a fork parent is bulk, and below which it no longer is.
const BULK_RATE: [f64; 2] = [0.50, 0.35];
/// A rate above this multiple of the CPUs comes from a long-lived child that has just ended, and is ignored.
const PLAUSIBLE: f64 = 1.25;
/// Init is excluded: it is every process's ancestor, and orphans become its children.
const INIT: u32 = 1;

/// The parents of short-lived children.
#[derive(Debug, Default)]
pub(in crate::placement) struct ForkParents(BTreeMap<u32, ForkParent>);

#[derive(Debug)]
struct ForkParent {
    children: u32,
    seen_at: BootTime,
    measured: Option<(BootTime, u64)>,
    /// The number of CPUs that its children used.
    rate: f64,
    is_bulk: bool,
}

impl ForkParents {
    /// Counts new children by parent, and forgets parents without new children.
    pub(in crate::placement) fn count_children(&mut self, now: BootTime, sample: &Sample) {
        for child in sample.born.iter().filter(|thread| thread.tid == thread.pid && thread.parent > INIT) {
            if self.0.len() == MAXIMUM_PARENTS && !self.0.contains_key(&child.parent) {
                let oldest = self
                    .0
                    .iter()
                    .filter(|(_, fork_parent)| !fork_parent.is_bulk)
                    .min_by_key(|(_, fork_parent)| fork_parent.seen_at);
                let Some(oldest) = oldest.map(|(&pid, _)| pid) else { continue };
                self.0.remove(&oldest);
            }
            let new = || ForkParent { children: 0, seen_at: now, measured: None, rate: 0.0, is_bulk: false };
            let fork_parent = self.0.entry(child.parent).or_insert_with(new);
            fork_parent.children = fork_parent.children.saturating_add(1);
            fork_parent.seen_at = now;
        }
        self.0
            .retain(|pid, fork_parent| now.since(fork_parent.seen_at) < FORGOTTEN_AFTER && !sample.ended.contains(pid));
    }

    /// The processes that need facts with the next sample.
    pub(in crate::placement) fn unknown(&self, now: BootTime) -> impl Iterator<Item = u32> {
        let is_due = move |(_, fork_parent): &(&u32, &ForkParent)| {
            let is_old = fork_parent.measured.is_none_or(|(at, _)| now.since(at) >= PERIOD);
            fork_parent.children >= CHILDREN && is_old
        };
        self.0.iter().filter(is_due).map(|(&pid, _)| pid)
    }

    /// Learns from the requested facts, on a device with `cpus` CPUs.
    pub(in crate::placement) fn take(&mut self, now: BootTime, facts: &[ThreadFacts], cpus: usize) {
        for facts in facts {
            let Some(fork_parent) = self.0.get_mut(&facts.tid) else { continue };
            let begun = BootTime::from_milliseconds(facts.start_time_ticks.saturating_mul(TICK_MS));
            let whole_life = || (now.since(begun) <= YOUNG).then_some((begun, 0));
            let Some((at, ticks)) = fork_parent.measured.or_else(whole_life) else {
                fork_parent.measured = Some((now, facts.children_ticks));
                continue;
            };
            let wall = now.since(at);
            if wall < PERIOD {
                continue;
            }
            fork_parent.measured = Some((now, facts.children_ticks));
            let used_s = (facts.children_ticks.saturating_sub(ticks).saturating_mul(TICK_MS)) as f64 / 1000.0;
            let rate = used_s / wall.as_secs_f64();
            fork_parent.rate = if rate > cpus as f64 * PLAUSIBLE { 0.0 } else { rate };
            let least = BULK_RATE[usize::from(fork_parent.is_bulk)];
            fork_parent.is_bulk = fork_parent.rate >= least && !is_off(Part::ForkParents);
        }
    }

    /// True when the children of process `pid` are CPU-bound together.
    pub(in crate::placement) fn is_bulk(&self, pid: u32) -> bool {
        self.0.get(&pid).is_some_and(|fork_parent| fork_parent.is_bulk)
    }

    /// The bulk fork parents, with the number of CPUs that their children used.
    pub(in crate::placement) fn bulk(&self) -> impl Iterator<Item = (u32, f64)> {
        self.0.iter().filter(|(_, fork_parent)| fork_parent.is_bulk).map(|(&pid, fork_parent)| (pid, fork_parent.rate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brisk_sys::cgroup::membership::Memberships;
    use brisk_sys::sched::priority::{Priority, SchedulingPolicy};
    use brisk_sys::sched::threads::Thread;

    fn facts(tid: u32, children_ticks: u64) -> ThreadFacts {
        let priority = Priority { policy: SchedulingPolicy::Other, nice: 0 };
        let groups = Memberships::default();
        ThreadFacts {
            tid,
            start_time_ticks: 1,
            allowed: vec![0],
            priority,
            groups,
            scheduling_group: Default::default(),
            weighed: Vec::new(),
            children_ticks,
        }
    }

    fn born(tid: u32, pid: u32, parent: u32) -> Sample {
        let thread = Thread { tid, pid, parent, command: "cc".into() };
        Sample { born: vec![thread], ..Sample::default() }
    }

    /// Process 10 has a new child every 100 ms, and in each second reaps children that used `ticks`.
    fn after(ticks: &[u64]) -> ForkParents {
        let (mut fork_parents, mut used) = (ForkParents::default(), 0);
        for sample in 0..ticks.len() as u64 * 10 {
            let now = BootTime::from_milliseconds(sample * 100);
            let asked: Vec<u32> = fork_parents.unknown(now).collect();
            fork_parents.count_children(now, &born(100 + sample as u32, 100 + sample as u32, 10));
            used += if sample % 10 == 9 { ticks[sample as usize / 10] } else { 0 };
            fork_parents.take(now, &asked.iter().map(|&pid| facts(pid, used)).collect::<Vec<_>>(), 2);
        }
        fork_parents
    }

    // Verifies PLACE-2.
    #[test]
    fn children_are_judged_by_what_they_cost_together() {
        for (name, ticks, expected) in [
            ("a build with two jobs", vec![190; 4], true),
            ("one job that shares its CPU", vec![60; 4], true),
            ("a script that sleeps", vec![5; 4], false),
            ("a build that has ended", vec![190, 190, 190, 5, 5, 5], false),
            ("hysteresis at the threshold", vec![60, 60, 45, 45, 45], true),
            ("a long-lived child ends", vec![5, 5, 5000], false),
        ] {
            assert_eq!(after(&ticks).is_bulk(10), expected, "{name}: {:?}", after(&ticks));
        }
    }

    // Verifies PLACE-2.
    #[test]
    fn a_build_is_known_when_it_is_a_period_old() {
        let at = |milliseconds| BootTime::from_milliseconds(100_000_u64 + milliseconds);
        for (name, age_ms, answers, expected) in [
            ("a build, read late", 1700, vec![(0, 300)], true),
            ("a build, read early", 700, vec![(0, 100), (300, 160)], true),
            ("a build younger than a period", 700, vec![(0, 130)], false),
            ("a script that sleeps", 1700, vec![(0, 8)], false),
            ("a shell of yesterday's builds", 90_000, vec![(0, 50_000)], false),
            ("a shell that builds again", 90_000, vec![(0, 50_000), (1000, 50_190)], true),
        ] {
            let mut fork_parents = ForkParents::default();
            for child in [20, 21] {
                fork_parents.count_children(at(0), &born(child, child, 10));
            }
            for (later_ms, ticks) in answers {
                let start_time_ticks = (100_000 - age_ms) / TICK_MS;
                let facts = ThreadFacts { start_time_ticks, ..facts(10, ticks) };
                fork_parents.take(at(later_ms), &[facts], 2);
            }
            assert_eq!(fork_parents.is_bulk(10), expected, "{name}: {fork_parents:?}");
        }
    }

    // Verifies PLACE-2.
    #[test]
    fn only_processes_that_come_again_and_again_are_asked_about() {
        let (mut fork_parents, now) = (ForkParents::default(), BootTime::from_milliseconds(1000));
        fork_parents.count_children(now, &born(20, 20, 10));
        assert_eq!(fork_parents.unknown(now).count(), 0, "one child is not enough");
        for (tid, pid, parent) in [(21, 21, 10), (22, 22, INIT), (23, 22, 11), (24, 24, 12)] {
            fork_parents.count_children(now, &born(tid, pid, parent));
        }
        assert_eq!(fork_parents.unknown(now).collect::<Vec<_>>(), [10]);
        for parent in 100..200 {
            fork_parents.count_children(now, &born(parent + 1000, parent + 1000, parent));
        }
        assert!(fork_parents.0.len() <= MAXIMUM_PARENTS);
        fork_parents.count_children(now + FORGOTTEN_AFTER, &Sample::default());
        assert!(fork_parents.0.is_empty(), "no parent has new children");
    }

    #[test]
    fn a_parent_that_has_ended_is_forgotten() {
        let mut fork_parents = after(&[190; 4]);
        assert_eq!(fork_parents.bulk().map(|(pid, _)| pid).collect::<Vec<_>>(), [10]);
        fork_parents
            .count_children(BootTime::from_milliseconds(4000), &Sample { ended: vec![10], ..Sample::default() });
        assert_eq!(fork_parents.bulk().count(), 0);
    }
}
