//! A simulated system: processes on the [`Scheduler`], samples of them, and the policy, which is called when the daemon would
//! call it: at its own deadlines, and for samples at its own period.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use super::super::super::*;
use super::super::thread::Habit;
use super::scheduler::{Mask, ROOT, Scheduler};
use crate::Enabled;
use crate::simulated::Kernel;
use brisk_base::random::Random;
use brisk_sys::cgroup::membership::Memberships;
use brisk_sys::process::schedstat::{Schedstat, Usage};
use brisk_sys::sched::priority::{Priority, SchedulingPolicy};
use brisk_sys::sched::threads::{Thread, ThreadUsage};

/// What a thread inherits at fork and brisk may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    pub mask: Mask,
    pub priority: Priority,
}

/// The value before a lease.
#[derive(Debug, Clone)]
pub struct Original {
    pub value: String,
    /// The leased value.
    pub observed: String,
    pub since_us: u64,
}

/// What a group of threads competes as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grouping {
    /// All threads are in the root group.
    Root,
    /// Sessions compete as autogroups.
    Sessions,
    /// Units compete by the weights of their control groups.
    Units,
}

/// A process that runs jobs one after the other, each in a child.
#[derive(Debug, Clone, Copy)]
pub struct Build {
    pub jobs: u32,
    pub work_ms: u32,
}

/// A thread; the scheduler has its load.
#[derive(Debug, Clone)]
pub struct SimulatedThread {
    pub thread: Thread,
    /// Its number in the scheduler.
    pub task: usize,
    pub start_time_ticks: u64,
    pub habit: Habit,
    /// What it would have without brisk.
    pub own: Attributes,
    pub now: Attributes,
    pub born_us: u64,
    pub is_foreground: bool,
    /// The end of its work ends it: a job of a build.
    pub is_job: bool,
    /// A user has changed it.
    pub is_set_by_user: bool,
    random: Random,
    began_us: u64,
    pub children_ns: u64,
    is_new: bool,
    pub(super) reported: Schedstat,
    pub(super) sampled_us: u64,
    /// What has been added to the scores.
    settled: (f64, u64),
}

/// What the foreground or the background has done.
#[derive(Debug, Clone, Copy, Default)]
pub struct Score {
    /// Work at full capacity, in seconds.
    pub work_s: f64,
    /// Time in which a thread had work to do.
    pub busy_s: f64,
    /// Periods that were missed by threads of a light periodic load, and all of them.
    pub missed: u64,
    pub periods: u64,
}

pub struct System {
    pub policy: Option<PlacementPolicy>,
    pub scheduler: Scheduler,
    pub threads: BTreeMap<u32, SimulatedThread>,
    pub kernel: Kernel,
    /// The kernel may refuse a restore.
    pub may_refuse: bool,
    pub originals: BTreeMap<Target, Original>,
    pub grouping: Grouping,
    /// The leased nice values or weights of groups.
    pub group_values: BTreeMap<usize, String>,
    pub builds: BTreeMap<u32, Build>,
    pub foreground: BTreeSet<u32>,
    /// Of the foreground and of the background.
    pub scores: [Score; 2],
    pub decisions: u64,
    pub samples: u64,
    /// Threads that ended since the last sample.
    pub ended: Vec<u32>,
    wakes: BinaryHeap<Reverse<(u64, u32, u64)>>,
    next_sample_us: u64,
    period_us: Option<u64>,
    next_tid: u32,
    seed: u64,
    /// The thread of each task of the scheduler.
    tids: Vec<u32>,
    /// Since when each foreground thread is confined or deprioritised.
    pub(super) restricted_since: BTreeMap<u32, u64>,
}

/// The machine of a system.
#[derive(Debug, Clone)]
pub struct Hardware {
    /// The capacity and the core of each CPU.
    pub cpus: Vec<(u32, u32)>,
}

impl Hardware {
    pub fn equal(count: u32) -> Self {
        Self { cpus: (0..count).map(|cpu| (1024, cpu)).collect() }
    }

    /// `count` cores with two threads each; the second threads have the higher numbers, as on x86.
    pub fn siblings(count: u32) -> Self {
        Self { cpus: (0..count * 2).map(|cpu| (1024, cpu % count)).collect() }
    }

    pub fn is_unequal(&self) -> bool {
        self.cpus.iter().any(|&(capacity, _)| capacity != self.cpus[0].0)
    }

    pub fn machine(&self) -> Machine {
        let cores: Vec<_> = (0..).zip(&self.cpus).map(|(cpu, &(capacity, _))| (cpu, capacity)).collect();
        let siblings = (0..).zip(self.cpus.iter().map(|&(_, core)| core)).collect();
        Machine::of(&cores).with_siblings(siblings)
    }
}

fn support() -> Support {
    Support { state: SupportState::Active, reason: "simulated".into(), advice: String::new() }
}

impl System {
    pub fn new(hardware: &Hardware, grouping: Grouping, is_on: bool, seed: u64) -> Self {
        let config = PlacementConfig { enabled: Enabled::On, ..PlacementConfig::default() };
        Self {
            policy: is_on.then(|| PlacementPolicy::new(config, support(), hardware.machine())),
            scheduler: Scheduler::new(&hardware.cpus, 8),
            threads: BTreeMap::new(),
            kernel: Kernel::default(),
            may_refuse: false,
            originals: BTreeMap::new(),
            grouping,
            group_values: BTreeMap::new(),
            builds: BTreeMap::new(),
            foreground: BTreeSet::new(),
            scores: Default::default(),
            decisions: 0,
            samples: 0,
            ended: Vec::new(),
            wakes: BinaryHeap::new(),
            next_sample_us: 0,
            period_us: None,
            next_tid: 10_000,
            seed,
            tids: Vec::new(),
            restricted_since: BTreeMap::new(),
        }
    }

    pub fn now(&self) -> BootTime {
        BootTime::default() + Duration::from_micros(self.scheduler.now_us)
    }

    /// A thread of process `pid` in group `group`, which wakes now. It inherits what its creator `from` has, if it has one.
    pub fn start(&mut self, (tid, pid, parent): (u32, u32, u32), habit: Habit, group: usize, from: Option<u32>) {
        let all = (1u64 << self.scheduler.cpus.len()).wrapping_sub(1);
        let ordinary = Priority { policy: SchedulingPolicy::Other, nice: 0 };
        let fresh = Attributes { mask: all, priority: ordinary };
        let creator = from.and_then(|from| self.threads.get(&from));
        let (own, now) = creator.map_or((fresh, fresh), |creator| (creator.own, creator.now));
        let group = creator.map_or(group, |creator| self.scheduler.tasks[creator.task].group);
        let now_us = self.scheduler.now_us;
        let task = self.scheduler.add(now.mask, if self.grouping == Grouping::Root { ROOT } else { group });
        self.tids.push(tid);
        let is_foreground = self.is_of_foreground(pid, parent);
        let sim = SimulatedThread {
            thread: Thread { tid, pid, parent, command: format!("t{tid}") },
            task,
            start_time_ticks: now_us / 10_000,
            habit,
            own,
            now,
            born_us: now_us,
            is_foreground,
            is_job: false,
            is_set_by_user: false,
            random: Random::stream(self.seed, u64::from(tid)),
            began_us: now_us,
            children_ns: 0,
            is_new: true,
            reported: Schedstat::default(),
            sampled_us: now_us,
            settled: (0.0, 0),
        };
        assert!(self.threads.insert(tid, sim).is_none(), "thread {tid} exists");
        self.show_attributes(tid);
        self.wakes.push(Reverse((now_us + u64::from(tid % 7) * 1000, tid, now_us)));
    }

    fn is_of_foreground(&self, pid: u32, parent: u32) -> bool {
        let is = |of: u32| self.threads.values().any(|it| it.thread.pid == of && it.is_foreground);
        self.foreground.contains(&pid) || is(parent)
    }

    /// Has the scheduler use what the thread has now.
    pub fn show_attributes(&mut self, tid: u32) {
        let SimulatedThread { task, now, .. } = self.threads[&tid];
        let Attributes { mask, priority } = now;
        let is_idle = priority.policy == SchedulingPolicy::Idle;
        let weight = if is_idle { 3.0 } else { 1024.0 / 1.25f64.powi(priority.nice) };
        self.scheduler.change(task, |task| {
            (task.mask, task.weight, task.is_idle) = (mask, weight, is_idle);
        });
    }

    /// True while a child of `creator` is younger than two samples, a job of a build excepted.
    pub fn has_unseen_children(&self, creator: u32) -> bool {
        let is_young = |it: &SimulatedThread| it.born_us + 250_000 > self.scheduler.now_us && !it.is_job;
        self.threads.values().any(|it| (it.thread.parent == creator || it.thread.pid == creator) && is_young(it))
    }

    /// The threads of `pid` end.
    pub fn end_process(&mut self, pid: u32) {
        let tids: Vec<u32> = self.threads.values().filter(|it| it.thread.pid == pid).map(|it| it.thread.tid).collect();
        tids.into_iter().for_each(|tid| self.end(tid));
        self.builds.remove(&pid);
    }

    pub fn end(&mut self, tid: u32) {
        self.settle();
        let Some(ended) = self.threads.remove(&tid) else { return };
        self.scheduler.end(ended.task);
        if ended.thread.tid == ended.thread.pid
            && let Some(parent) = self.threads.get_mut(&ended.thread.parent)
        {
            parent.children_ns += self.scheduler.tasks[ended.task].counters.run_ns + ended.children_ns;
        }
        // Orphans become children of init.
        for orphan in self.threads.values_mut().filter(|it| it.thread.parent == tid && ended.thread.pid == tid) {
            orphan.thread.parent = 1;
        }
        if !ended.is_new {
            self.ended.push(tid);
        }
    }

    /// Starts as many jobs as `pid` may run at once.
    pub fn build(&mut self, pid: u32, build: Build) {
        self.builds.insert(pid, build);
        (0..build.jobs).for_each(|_| self.start_job(pid));
    }

    fn start_job(&mut self, pid: u32) {
        let Some(&Build { work_ms, .. }) = self.builds.get(&pid).filter(|_| self.threads.contains_key(&pid)) else {
            return;
        };
        let tid = self.next_tid;
        self.next_tid += 1;
        let habit = Habit { work_ms, sleep_ms: 0, period_ms: 0 };
        self.start((tid, tid, pid), habit, ROOT, Some(pid));
        self.threads.get_mut(&tid).unwrap().is_job = true;
    }

    pub fn put_in_foreground(&mut self, pids: &[u32]) {
        self.settle();
        self.foreground = pids.iter().copied().collect();
        self.threads.values_mut().for_each(|it| it.is_foreground = pids.contains(&it.thread.pid));
        loop {
            let of: BTreeSet<u32> =
                self.threads.values().filter(|it| it.is_foreground).map(|it| it.thread.pid).collect();
            let mut found = self.threads.values_mut().filter(|it| !it.is_foreground && of.contains(&it.thread.parent));
            let Some(found) = found.next() else { break };
            found.is_foreground = true;
        }
        let process = |&pid: &u32| crate::Process { pid, ..Default::default() };
        self.tell(&Event::Foreground { processes: pids.iter().map(process).collect() });
        self.next_sample_us = self.scheduler.now_us;
    }

    pub fn set_online(&mut self, cpu: usize, is_online: bool) {
        self.scheduler.set_online(cpu, is_online);
    }

    /// Adds to the scores what was done since the last call.
    pub fn settle(&mut self) {
        self.scheduler.account_all();
        for sim in self.threads.values_mut() {
            let task = &self.scheduler.tasks[sim.task];
            let busy_ns = task.counters.run_ns + task.counters.wait_ns;
            let score = &mut self.scores[usize::from(!sim.is_foreground)];
            score.work_s += (task.progress_us - sim.settled.0) / 1e6;
            score.busy_s += (busy_ns - sim.settled.1) as f64 / 1e9;
            sim.settled = (task.progress_us, busy_ns);
        }
    }

    pub fn run_until(&mut self, until_ms: u64) {
        let until_us = until_ms * 1000;
        while self.scheduler.now_us < until_us {
            let wake_us = self.wakes.peek().map_or(u64::MAX, |Reverse((at, ..))| *at);
            let of_policy_us =
                if self.policy.is_some() { self.next_sample_us.min(self.deadline_us()) } else { u64::MAX };
            let next_us = self.scheduler.next_us().min(wake_us).min(of_policy_us).min(until_us);
            self.scheduler.advance(next_us.max(self.scheduler.now_us));
            while let Some(task) = self.scheduler.finished.pop() {
                self.finish(task);
            }
            self.wake_due();
            if self.policy.is_some() {
                self.call_policy();
            }
        }
    }

    fn deadline_us(&self) -> u64 {
        let deadline = self.policy.as_ref().and_then(Policy::deadline);
        deadline.map_or(u64::MAX, |at| (at.since(BootTime::default()).as_nanos() as u64).div_ceil(1000))
    }

    fn call_policy(&mut self) {
        if self.deadline_us() <= self.scheduler.now_us {
            self.tell(&Event::Deadline);
        }
        if self.next_sample_us <= self.scheduler.now_us {
            self.expire();
            self.sample();
        }
    }

    fn wake_due(&mut self) {
        while let Some(&Reverse((at, tid, born_us))) = self.wakes.peek()
            && at <= self.scheduler.now_us
        {
            self.wakes.pop();
            let Some(sim) = self.threads.get_mut(&tid).filter(|sim| sim.born_us == born_us) else { continue };
            sim.began_us = at;
            // Loads vary, so that threads do not stay in step.
            let varied = 0.7 + 0.6 * sim.random.unit();
            let work_us =
                if sim.habit.work_ms == 0 { f64::INFINITY } else { f64::from(sim.habit.work_ms) * 1e3 * varied };
            let task = sim.task;
            self.scheduler.wake(task, work_us);
        }
    }

    /// The task has done its work.
    fn finish(&mut self, task: usize) {
        let now_us = self.scheduler.now_us;
        let Some(sim) = self.threads.get(&self.tids[task]) else { return };
        let (tid, parent) = (sim.thread.tid, sim.thread.parent);
        if sim.is_job {
            self.end(tid);
            return self.start_job(parent);
        }
        let (habit, began_us) = (sim.habit, sim.began_us);
        let next_us = match habit.period_ms {
            0 => now_us + u64::from(habit.sleep_ms) * 1000,
            period => {
                let score = &mut self.scores[usize::from(!sim.is_foreground)];
                score.periods += 1;
                score.missed += u64::from(now_us > began_us + u64::from(period) * 1000);
                (began_us + u64::from(period) * 1000).max(now_us)
            }
        };
        let born_us = self.threads[&tid].born_us;
        self.wakes.push(Reverse((next_us, tid, born_us)));
    }

    fn sample(&mut self) {
        self.scheduler.account_all();
        self.samples += 1;
        let now_us = self.scheduler.now_us;
        let mut demand = ThreadDemand::default();
        let Some(policy) = &self.policy else { return };
        policy.demand_threads(&mut demand);
        let facts: Vec<_> = demand.facts.iter().filter_map(|&tid| self.facts(tid)).collect();
        let mut sample = Sample { ended: std::mem::take(&mut self.ended), ..Sample::default() };
        for sim in self.threads.values_mut() {
            if std::mem::take(&mut sim.is_new) {
                sample.born.push(sim.thread.clone());
                (sim.reported, sim.sampled_us) = (self.scheduler.tasks[sim.task].counters, now_us);
                continue;
            }
            let counters = self.scheduler.tasks[sim.task].counters;
            let usage = counters.since(sim.reported, (now_us - sim.sampled_us) * 1000);
            if usage.wall_ns > 0 && (usage != Usage { wall_ns: usage.wall_ns, ..Usage::default() }) {
                sample.used.push(ThreadUsage { tid: sim.thread.tid, usage });
                (sim.reported, sim.sampled_us) = (counters, now_us);
            } else if usage.wall_ns >= 1_000_000_000 {
                sim.sampled_us = now_us;
            }
        }
        let online = self.scheduler.online();
        let online = (0..64).filter(|cpu| online >> cpu & 1 == 1).collect();
        self.next_sample_us = u64::MAX;
        self.tell(&Event::Threads { sample, facts, online });
        self.next_sample_us = now_us + self.period_us.unwrap_or(1_000_000);
        self.check();
    }

    pub fn tell(&mut self, event: &Event) {
        let now = self.now();
        let Some(policy) = &mut self.policy else { return };
        let mut decisions = Vec::new();
        policy.on_event(now, event, &mut decisions);
        self.carry_out(decisions);
    }

    /// Carries out the decisions, reports the outcomes, and takes the period that the policy wants from then on.
    pub fn carry_out(&mut self, mut decisions: Vec<Decision>) {
        let now = self.now();
        let mut rounds = 0;
        while !decisions.is_empty() {
            rounds += 1;
            assert!(rounds < 20, "each outcome leads to another decision: {decisions:?}");
            let mut kernel = std::mem::take(&mut self.kernel);
            let outcomes: Vec<_> = decisions.iter().map(|it| self.carry_out_one(&mut kernel, it)).collect();
            self.kernel = kernel;
            self.decisions += decisions.len() as u64;
            decisions.clear();
            let Some(policy) = &mut self.policy else { return };
            policy.on_outcomes(now, &outcomes, &mut decisions);
        }
        let period = self.policy.as_ref().and_then(|policy| policy.interest().sampling_period);
        let period_us = period.map(|period| period.as_micros() as u64);
        if period_us != self.period_us {
            self.period_us = period_us;
            let next_us = self.scheduler.now_us + period_us.unwrap_or(1_000_000);
            self.next_sample_us = self.next_sample_us.min(next_us);
        }
    }

    fn facts(&self, tid: u32) -> Option<ThreadFacts> {
        let sim = self.threads.get(&tid)?;
        let group = self.scheduler.tasks[sim.task].group;
        let (scheduling_group, weighed) = self.groups_of(group);
        Some(ThreadFacts {
            tid,
            start_time_ticks: sim.start_time_ticks,
            // With the CPUs that are offline, as in /proc/TID/status.
            allowed: (0..64).filter(|cpu| sim.now.mask >> cpu & 1 == 1).collect(),
            priority: sim.now.priority,
            groups: Memberships::default(),
            scheduling_group,
            weighed,
            children_ticks: sim.children_ns / 10_000_000,
        })
    }
}
