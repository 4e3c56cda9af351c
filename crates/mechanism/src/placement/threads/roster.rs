//! The tracked threads, their classes, and which of them are in the foreground.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::classify::{Class, UsageStatistics};
use super::fork_parents::ForkParents;
use crate::Glob;
use crate::placement::gain::Totals;
use brisk_sys::BootTime;
use brisk_sys::process::schedstat::Usage;
use brisk_sys::sched::thread_facts::ThreadFacts;
use brisk_sys::sched::threads::{Sample, Thread};

/// A thread with its statistics and facts.
#[derive(Debug, Clone)]
pub struct Member {
    /// Its ids and name.
    pub thread: Thread,
    /// Its CPU use.
    pub statistics: UsageStatistics,
    /// The facts that are needed before it may be changed; requested when it becomes busy.
    pub facts: Option<ThreadFacts>,
    /// Its process is in the foreground.
    pub is_foreground: bool,
    /// The time up to which its statistics are learned.
    updated_at: BootTime,
}

impl Member {
    /// True for a thread that has neither run nor waited for one second. The statistics of a light thread do not show that: its
    /// absence from samples is not learned.
    pub fn is_sleeping(&self, now: BootTime) -> bool {
        self.statistics.is_sleeping(now.since(self.updated_at))
    }
}

/// The most ancestors that are followed.
const MOST_GENERATIONS: usize = 64;

/// A thread with a lower demand does not delay other threads, however long its bursts are.
pub(in crate::placement) const ACTIVE_DEMAND: f64 = 0.02;
/// A deprioritised thread that is quiet for longer is asleep.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// The most foreground threads that are handled one by one.
const MAXIMUM_FOREGROUND_THREADS: usize = 16;

/// All tracked threads.
#[derive(Debug, Default)]
pub struct Roster {
    members: BTreeMap<u32, Member>,
    /// Threads that are not light: their absence from a sample is learned as rest.
    non_light: BTreeSet<u32>,
    /// Processes that were reported as the foreground.
    roots: BTreeSet<u32>,
    /// These processes and their descendants.
    foreground: BTreeSet<u32>,
    fork_parents: ForkParents,
}

impl Roster {
    /// The thread `tid`.
    pub fn get(&self, tid: u32) -> Option<&Member> {
        self.members.get(&tid)
    }

    /// All tracked threads, by thread id.
    pub fn members(&self) -> impl Iterator<Item = &Member> {
        self.members.values()
    }

    /// True while a foreground process exists.
    pub fn has_foreground(&self) -> bool {
        !self.foreground.is_empty()
    }

    /// The foreground processes, including descendants.
    pub fn foreground(&self) -> &BTreeSet<u32> {
        &self.foreground
    }

    /// The processes that were reported to be in the foreground, without descendants.
    pub fn roots(&self) -> &BTreeSet<u32> {
        &self.roots
    }

    /// Makes the processes `pids` the only foreground. True when that changes anything.
    pub fn put_in_foreground(&mut self, pids: BTreeSet<u32>) -> bool {
        // A root that has ended is no longer among the roots, but its descendants may still be in the foreground.
        let has_orphans = self.roots.is_empty() && !self.foreground.is_empty();
        if pids == self.roots && !has_orphans {
            return false;
        }
        self.roots = pids;
        self.foreground.clear();
        loop {
            let before = self.foreground.len();
            for Member { thread, .. } in self.members.values() {
                if self.roots.contains(&thread.pid) || self.foreground.contains(&thread.parent) {
                    self.foreground.insert(thread.pid);
                }
            }
            if self.foreground.len() == before {
                break;
            }
        }
        for member in self.members.values_mut() {
            member.is_foreground = self.foreground.contains(&member.thread.pid);
        }
        true
    }

    /// True for a process with one thread.
    pub fn is_single_threaded(&self, pid: u32) -> bool {
        self.members.values().filter(|member| member.thread.pid == pid).count() == 1
    }

    /// Takes a sample of `wall_ns` that ended at `now`; returns the CPU use of foreground and bulk threads in it. A thread that
    /// `is_deprioritised` and has no usage is assumed to wait for a CPU: the kernel accounts that when the wait ends.
    pub fn take(
        &mut self,
        now: BootTime,
        wall_ns: u64,
        sample: &Sample,
        is_deprioritised: impl Fn(&Member) -> bool,
    ) -> Totals {
        for tid in &sample.ended {
            self.forget(*tid);
        }
        for thread in &sample.born {
            self.add(now, thread.clone());
        }
        let mut totals = Totals { wall_ns, ..Totals::default() };
        let mut sleeping = self.non_light.clone();
        for used in &sample.used {
            sleeping.remove(&used.tid);
            let Some(member) = self.members.get_mut(&used.tid) else { continue };
            // Errors at the edges of a sample may make run and wait time longer than the period that they were in.
            let covered_ns = used.usage.wall_ns.max(used.usage.run_ns + used.usage.wait_ns);
            let elapsed_ns = now.since(member.updated_at).as_nanos() as u64;
            let slept_ns = elapsed_ns.saturating_sub(covered_ns);
            if slept_ns > 0 {
                member.statistics.update(&Usage { wall_ns: slept_ns, ..Usage::default() });
            }
            // Part of a quiet thread's time may already be learned as rest; none of a new thread's time is.
            let unaccounted_ns = if elapsed_ns > 0 { covered_ns.min(elapsed_ns) } else { used.usage.wall_ns };
            member.statistics.update(&Usage { wall_ns: unaccounted_ns, ..used.usage });
            member.updated_at = now;
            // A quiet thread's usage covers a longer period than this sample: only the sample's share is added.
            let within = |ns: u64| match covered_ns {
                longer if longer > wall_ns => (u128::from(ns) * u128::from(wall_ns) / u128::from(longer)) as u64,
                _ => ns,
            };
            if member.is_foreground {
                totals.run_ns += within(used.usage.run_ns);
                totals.wait_ns += within(used.usage.wait_ns);
            } else if member.statistics.class() == Class::Bulk {
                totals.bulk_run_ns += within(used.usage.run_ns);
            }
            if member.statistics.class() == Class::Light {
                self.non_light.remove(&used.tid);
            } else {
                self.non_light.insert(used.tid);
            }
        }
        for tid in sleeping {
            let is_waiting = |member: &Member| now.since(member.updated_at) < LONGEST_WAIT && is_deprioritised(member);
            if !self.members.get(&tid).is_some_and(is_waiting) {
                self.rest(now, tid);
            }
        }
        // In the first sample every thread is new.
        if wall_ns > 0 {
            self.fork_parents.count_children(now, sample);
        }
        totals.bulk_run_ns += self.bulk_fork_parents().map(|(_, rate)| (rate * wall_ns as f64) as u64).sum::<u64>();
        totals
    }

    /// True for a process with children that are CPU-bound together, unless it is in the foreground or an ancestor of it.
    pub fn is_bulk_fork_parent(&self, pid: u32) -> bool {
        self.fork_parents.is_bulk(pid) && !self.foreground.contains(&pid) && !self.is_foreground_ancestor(pid)
    }

    /// The processes for which [`Roster::is_bulk_fork_parent`] is true, each with the CPU use of its children.
    fn bulk_fork_parents(&self) -> impl Iterator<Item = (u32, f64)> {
        self.fork_parents.bulk().filter(|&(pid, _)| self.is_bulk_fork_parent(pid))
    }

    /// The threads that are not light.
    fn non_light_members(&self) -> impl Iterator<Item = &Member> {
        self.non_light.iter().filter_map(|tid| self.members.get(tid))
    }

    /// True for an ancestor of the foreground.
    fn is_foreground_ancestor(&self, pid: u32) -> bool {
        self.roots.iter().any(|root| {
            let mut next = self.members.get(root);
            // Pids are reused: a cycle is possible, though unlikely.
            for _ in 0..MOST_GENERATIONS {
                match next {
                    Some(member) if member.thread.parent == pid => return true,
                    Some(member) => next = self.members.get(&member.thread.parent),
                    None => return false,
                }
            }
            true
        })
    }

    /// Takes the requested facts of fork parents, on a device with `cpus` CPUs.
    pub fn take_fork_parents(&mut self, now: BootTime, facts: &[ThreadFacts], cpus: usize) {
        self.fork_parents.take(now, facts, cpus);
    }

    /// The fork parents that need facts with the next sample.
    pub fn unknown_fork_parents(&self, now: BootTime) -> impl Iterator<Item = u32> {
        self.fork_parents.unknown(now)
    }

    fn add(&mut self, now: BootTime, thread: Thread) {
        if self.roots.contains(&thread.pid) || self.foreground.contains(&thread.parent) {
            self.foreground.insert(thread.pid);
        }
        let is_foreground = self.foreground.contains(&thread.pid);
        let member =
            Member { statistics: UsageStatistics::default(), facts: None, is_foreground, updated_at: now, thread };
        self.members.insert(member.thread.tid, member);
    }

    fn rest(&mut self, now: BootTime, tid: u32) {
        let Some(member) = self.members.get_mut(&tid) else { return };
        let slept_ns = now.since(member.updated_at).as_nanos() as u64;
        member.statistics.update(&Usage { wall_ns: slept_ns, ..Usage::default() });
        member.updated_at = now;
        if member.statistics.class() == Class::Light {
            self.non_light.remove(&tid);
        }
    }

    fn forget(&mut self, tid: u32) {
        self.non_light.remove(&tid);
        let Some(member) = self.members.remove(&tid) else { return };
        let pid = member.thread.pid;
        if self.foreground.contains(&pid) && !self.members.values().any(|member| member.thread.pid == pid) {
            self.foreground.remove(&pid);
            self.roots.remove(&pid);
        }
    }

    /// Takes the facts that [`Roster::unknown`] requested.
    pub fn take_facts<'a>(&mut self, facts: impl IntoIterator<Item = &'a ThreadFacts>) {
        for facts in facts {
            if let Some(member) = self.members.get_mut(&facts.tid) {
                member.facts = Some(facts.clone());
            }
        }
    }

    /// Drops the facts of these threads, because they may have changed.
    pub fn invalidate_facts(&mut self, of: impl Fn(&Member) -> bool) {
        let members = self.members.values_mut().filter(|member| of(member));
        members.for_each(|member| member.facts = None);
    }

    /// Background threads of at least class `least` that may have to be restricted, and the threads of fork parents. Those with
    /// the highest demand come first; no more than `maximum`.
    pub fn busy<'a>(&'a self, least: Class, excluded: &'a [Glob], maximum: usize) -> Vec<&'a Member> {
        let is_busy = |member: &&Member| {
            let statistics = &member.statistics;
            !member.is_foreground
                && statistics.class() >= least
                && statistics.demand() >= ACTIVE_DEMAND
                && !statistics.is_new()
        };
        let parents: BTreeSet<u32> = self.bulk_fork_parents().map(|(pid, _)| pid).collect();
        let is_fork_parent = |member: &&Member| !is_busy(member) && parents.contains(&member.thread.pid);
        let with_fork_parents = self.members.values().filter(|member| !parents.is_empty() && is_fork_parent(member));
        let is_included = |member: &&Member| !excluded.iter().any(|glob| glob.matches(&member.thread.command));
        most_demanding(self.non_light_members().filter(is_busy).chain(with_fork_parents).filter(is_included), maximum)
    }

    /// True where a background thread of at least class `least` works, new or excluded ones included, or a fork parent.
    pub fn has_busy_background(&self, least: Class) -> bool {
        let is_busy = |member: &Member| {
            let statistics = &member.statistics;
            !member.is_foreground && statistics.class() >= least && statistics.demand() >= ACTIVE_DEMAND
        };
        self.non_light_members().any(is_busy) || self.bulk_fork_parents().next().is_some()
    }

    /// Busy foreground threads, which compete with bulk threads.
    pub fn busy_foreground_threads(&self) -> impl Iterator<Item = &Member> {
        self.non_light_members().filter(|member| member.is_foreground).take(MAXIMUM_FOREGROUND_THREADS)
    }

    /// Foreground threads with work, including light ones, those with the highest demand first: they may delay each other.
    pub fn active_foreground_threads(&self) -> Vec<&Member> {
        if self.foreground.is_empty() {
            return Vec::new();
        }
        let is_active = |member: &&Member| member.is_foreground && member.statistics.demand() >= ACTIVE_DEMAND;
        most_demanding(self.members.values().filter(is_active), MAXIMUM_FOREGROUND_THREADS)
    }

    /// Busy threads with unknown facts.
    pub fn unknown(&self, excluded: &[Glob], maximum: usize) -> Vec<u32> {
        let foreground: BTreeMap<u32, &Member> = self
            .busy_foreground_threads()
            .chain(self.active_foreground_threads())
            .map(|member| (member.thread.tid, member))
            .collect();
        let busy = self.busy(Class::Interactive, excluded, maximum).into_iter().chain(foreground.into_values());
        busy.filter(|member| member.facts.is_none()).map(|member| member.thread.tid).collect()
    }
}

/// The `members` with the highest demand, no more than `maximum`.
pub fn most_demanding<'a>(members: impl Iterator<Item = &'a Member>, maximum: usize) -> Vec<&'a Member> {
    let mut members: Vec<_> = members.collect();
    members.sort_by(|one, other| other.statistics.demand().total_cmp(&one.statistics.demand()));
    members.truncate(maximum);
    members
}

#[cfg(test)]
mod tests {
    use super::*;
    use brisk_sys::cgroup::membership::Memberships;
    use brisk_sys::sched::priority::{Priority, SchedulingPolicy};
    use brisk_sys::sched::scheduling_group::SchedulingGroup;
    use brisk_sys::sched::threads::ThreadUsage;

    fn thread(tid: u32, pid: u32, parent: u32) -> Thread {
        Thread { tid, pid, parent, command: format!("t{tid}") }
    }

    fn used(tid: u32, wall_ms: u64, run_ms: u64, wait_ms: u64) -> ThreadUsage {
        let ns = |ms: u64| ms * 1_000_000;
        ThreadUsage { tid, usage: Usage { wall_ns: ns(wall_ms), run_ns: ns(run_ms), wait_ns: ns(wait_ms), slices: 3 } }
    }

    fn sample(born: &[Thread], used: &[ThreadUsage], ended: &[u32]) -> Sample {
        Sample { born: born.to_vec(), used: used.to_vec(), ended: ended.to_vec() }
    }

    fn at(milliseconds: u64) -> BootTime {
        BootTime::from_milliseconds(milliseconds)
    }

    const WALL: u64 = 100_000_000;

    #[test]
    fn descendants_are_in_foreground_with_their_ancestor() {
        let mut roster = Roster::default();
        let family = [thread(10, 10, 1), thread(20, 20, 10), thread(21, 20, 10), thread(30, 30, 20), thread(40, 40, 1)];
        roster.take(at(0), WALL, &sample(&family, &[], &[]), |_| false);
        assert!(roster.put_in_foreground(BTreeSet::from([10])) && !roster.put_in_foreground(BTreeSet::from([10])));
        assert_eq!(roster.foreground(), &BTreeSet::from([10, 20, 30]));
        assert!(roster.get(21).unwrap().is_foreground && !roster.get(40).unwrap().is_foreground);
        roster.take(at(100), WALL, &sample(&[thread(50, 50, 30), thread(60, 60, 40)], &[], &[20]), |_| false);
        assert_eq!(roster.foreground(), &BTreeSet::from([10, 20, 30, 50]), "20 has another thread");
        roster.take(at(200), WALL, &sample(&[], &[], &[10, 21, 30, 50]), |_| false);
        assert!(!roster.has_foreground());
    }

    #[test]
    fn descendants_of_an_ended_root_leave_the_foreground() {
        let mut roster = Roster::default();
        roster.take(at(0), WALL, &sample(&[thread(10, 10, 1), thread(20, 20, 10)], &[], &[]), |_| false);
        roster.put_in_foreground(BTreeSet::from([10]));
        roster.take(at(100), WALL, &sample(&[], &[], &[10]), |_| false);
        assert_eq!(roster.foreground(), &BTreeSet::from([20]), "a launcher ends before what it has launched");
        assert!(roster.put_in_foreground(BTreeSet::new()) && !roster.has_foreground());
        assert!(!roster.get(20).unwrap().is_foreground && !roster.put_in_foreground(BTreeSet::new()));
    }

    #[test]
    fn a_process_may_be_in_foreground_before_it_is_known() {
        let mut roster = Roster::default();
        roster.put_in_foreground(BTreeSet::from([7]));
        assert!(!roster.has_foreground());
        roster.take(at(0), WALL, &sample(&[thread(7, 7, 1)], &[], &[]), |_| false);
        assert!(roster.has_foreground() && roster.get(7).unwrap().is_foreground);
    }

    #[test]
    fn totals_separate_foreground_and_bulk() {
        let mut roster = Roster::default();
        roster.put_in_foreground(BTreeSet::from([1]));
        roster.take(at(0), WALL, &sample(&[thread(1, 1, 0), thread(2, 2, 0), thread(3, 3, 0)], &[], &[]), |_| false);
        let busy = [used(1, 100, 40, 20), used(2, 100, 70, 30), used(3, 100, 5, 0)];
        let mut totals = Totals::default();
        for tick in 1..=15 {
            totals = roster.take(at(tick * 100), WALL, &sample(&[], &busy, &[]), |_| false);
        }
        let ns = |ms: u64| ms * 1_000_000;
        let expected = Totals { wall_ns: WALL, run_ns: ns(40), wait_ns: ns(20), bulk_run_ns: ns(70) };
        assert_eq!(totals, expected);
        let late = roster.take(at(2500), WALL, &sample(&[], &[used(1, 1000, 400, 200)], &[]), |_| false);
        assert_eq!((late.run_ns, late.wait_ns), (ns(40), ns(20)), "only the sample's share is added");
    }

    #[test]
    fn a_thread_that_stops_running_becomes_light() {
        let mut roster = Roster::default();
        roster.take(at(0), WALL, &sample(&[thread(2, 2, 0)], &[], &[]), |_| false);
        for tick in 1..=20 {
            roster.take(at(tick * 100), WALL, &sample(&[], &[used(2, 100, 100, 0)], &[]), |_| false);
        }
        assert_eq!(roster.unknown(&[], 9), [2]);
        let priority = Priority { policy: SchedulingPolicy::Other, nice: 0 };
        roster.take_facts(&[ThreadFacts {
            tid: 2,
            start_time_ticks: 5,
            allowed: vec![0],
            priority,
            groups: Memberships::default(),
            scheduling_group: SchedulingGroup::default(),
            weighed: Vec::new(),
            children_ticks: 0,
        }]);
        assert_eq!((roster.unknown(&[], 9).len(), roster.busy(Class::Bulk, &[], 9).len()), (0, 1));
        assert_eq!(roster.busy(Class::Bulk, &["t?".parse().unwrap()], 9).len(), 0, "excluded");
        for tick in 21..=150 {
            roster.take(at(tick * 100), WALL, &sample(&[], &[], &[]), |_| false);
        }
        assert_eq!(roster.get(2).unwrap().statistics.class(), Class::Light);
        assert!(roster.non_light.is_empty() && roster.busy(Class::Bulk, &[], 9).is_empty());
    }

    // Verifies PLACE-2.
    #[test]
    fn a_newcomer_is_not_busy_and_its_facts_are_not_read() {
        let mut roster = Roster::default();
        roster.take(at(0), WALL, &sample(&[thread(2, 2, 0)], &[], &[]), |_| false);
        let asked: Vec<usize> = (1..=4)
            .map(|tick| {
                roster.take(at(tick * 100), WALL, &sample(&[], &[used(2, 100, 30, 0)], &[]), |_| false);
                let busy = roster.busy(Class::Interactive, &[], 9).len();
                assert_eq!(roster.unknown(&[], 9).len(), busy);
                busy
            })
            .collect();
        assert_eq!(asked, [0, 0, 1, 1]);
    }

    /// A group that only gets idle CPU time may wait for seconds.
    // Verifies PLACE-1.
    #[test]
    fn a_deprioritised_thread_without_usage_waits_and_does_not_sleep() {
        for (is_deprioritised, expected) in [(true, Class::Bulk), (false, Class::Interactive)] {
            let mut roster = Roster::default();
            roster.take(at(0), WALL, &sample(&[thread(2, 2, 0)], &[], &[]), |_| is_deprioritised);
            for tick in 1..=20 {
                roster.take(at(tick * 100), WALL, &sample(&[], &[used(2, 100, 100, 0)], &[]), |_| is_deprioritised);
            }
            for tick in 21..=60 {
                roster.take(at(tick * 100), WALL, &sample(&[], &[], &[]), |_| is_deprioritised);
            }
            assert_eq!(roster.get(2).unwrap().statistics.class(), expected, "{:?}", roster.get(2));
            roster.take(at(6100), WALL, &sample(&[], &[used(2, 950, 100, 4000)], &[]), |_| is_deprioritised);
            if is_deprioritised {
                assert_eq!(roster.get(2).unwrap().statistics.class(), Class::Bulk, "{:?}", roster.get(2));
            }
            for tick in 62..=250 {
                roster.take(at(tick * 100), WALL, &sample(&[], &[], &[]), |_| is_deprioritised);
            }
            assert_eq!(roster.get(2).unwrap().statistics.class(), Class::Light, "it sleeps: {:?}", roster.get(2));
        }
    }

    /// The kernel accounts its waits of a second when they end, in a sample that covers them completely.
    // Verifies PLACE-1.
    #[test]
    fn a_hog_that_is_quiet_because_it_waits_stays_one() {
        let mut roster = Roster::default();
        roster.take(at(0), WALL, &sample(&[thread(2, 2, 0)], &[], &[]), |_| false);
        for tick in 1..=600 {
            let usage = match tick {
                ..50 => Some(used(2, 100, 100, 0)),
                _ if tick % 10 == 0 => Some(used(2, 950, 3, 997)),
                _ => None,
            };
            roster.take(at(tick * 100), WALL, &sample(&[], usage.as_slice(), &[]), |_| false);
            assert!(
                tick < 20 || roster.get(2).unwrap().statistics.class() == Class::Bulk,
                "{tick}: {:?}",
                roster.get(2)
            );
        }
    }
}
