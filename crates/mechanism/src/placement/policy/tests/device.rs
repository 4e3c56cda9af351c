//! A simulated device: CPUs, threads that run and sleep, a fair scheduler with steps of 1 ms, and the policy.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::super::*;
use super::thread::{Habit, LEAST_SLICE_MS, MOST_LAG_MS, SimulatedThread};
use crate::Enabled;
use crate::placement::snapshot::ThreadView;
use crate::simulated::Kernel;
use brisk_sys::cgroup::hierarchy::Hierarchy;
use brisk_sys::cgroup::membership::{GroupChoice, Membership, Memberships};
use brisk_sys::cgroup::weight::WeightedGroup;
use brisk_sys::cpu::hotplug::format_list;
use brisk_sys::process::schedstat::{Schedstat, Usage};
use brisk_sys::sched::priority::{Priority, SchedulingPolicy};
use brisk_sys::sched::scheduling_group::SchedulingGroup;
use brisk_sys::sched::threads::{Thread, ThreadUsage};

/// The device and its policy.
pub struct Device {
    pub policy: PlacementPolicy,
    pub threads: BTreeMap<u32, SimulatedThread>,
    cores: Vec<(u32, u32)>,
    pub online: Vec<u32>,
    pub now_ms: u64,
    next_sample_ms: u64,
    /// All decisions with their time.
    pub decisions: Vec<(u64, Decision)>,
    pub kernel: Kernel,
    pub(super) acts: bool,
    /// The control groups that were created, with their settings, and their members.
    pub groups: BTreeMap<PathBuf, String>,
    pub members: BTreeMap<(Hierarchy, u32), PathBuf>,
    /// A delegated sub-tree, and the leased weights of its groups.
    pub tree: Vec<TreeGroup>,
    pub weights: BTreeMap<PathBuf, String>,
    /// The leased nice values of sessions.
    pub sessions: BTreeMap<u64, i32>,
}

/// A control group of the simulated sub-tree, and its processes.
pub struct TreeGroup {
    pub folder: PathBuf,
    pub weight: Option<u32>,
    pub pids: Vec<u32>,
}

/// The groups of a device: for weights, beside all other groups; for CPUs, below the thread's own group.
pub(super) const CPU_FOLDER: &str = "/cpu/brisk-threads";
pub(super) const CPUSET_FOLDER: &str = "/cpuset/others/brisk-threads";

fn memberships() -> Memberships {
    let from = |hierarchy, folder: &str, group: &str, taken_as: &str| Membership {
        hierarchy,
        group: group.into(),
        taken_into: folder.into(),
        taken_as: taken_as.into(),
        whole_process: false,
    };
    Memberships {
        cpu: Some(from(Hierarchy::Cpu, CPU_FOLDER, "/", "/brisk-threads")),
        cpuset: Some(from(Hierarchy::Cpuset, CPUSET_FOLDER, "/others", "/others/brisk-threads")),
    }
}

fn active() -> Support {
    Support { state: SupportState::Active, reason: "simulated".into(), advice: String::new() }
}

impl Device {
    pub fn new(cores: &[(u32, u32)], config: PlacementConfig) -> Self {
        let mut all = cores.to_vec();
        // A thread takes the fastest allowed CPU first, and among equals the one that is reserved first.
        all.sort_by_key(|&(cpu, capacity)| std::cmp::Reverse((capacity, cpu)));
        let acts = config.enabled.is_on();
        Self {
            policy: PlacementPolicy::new(
                PlacementConfig { enabled: Enabled::On, ..config },
                active(),
                Machine::of(cores),
            ),
            threads: BTreeMap::new(),
            cores: all,
            online: cores.iter().map(|&(cpu, _)| cpu).collect(),
            now_ms: 0,
            next_sample_ms: 0,
            decisions: Vec::new(),
            kernel: Kernel::default(),
            acts,
            groups: BTreeMap::new(),
            members: BTreeMap::new(),
            tree: Vec::new(),
            weights: BTreeMap::new(),
            sessions: BTreeMap::new(),
        }
    }

    fn offered(&self) -> Memberships {
        if self.policy.config.groups == GroupChoice::Auto { memberships() } else { Memberships::default() }
    }

    /// A thread of process `pid` that starts now.
    pub fn start(&mut self, tid: u32, pid: u32, parent: u32, habit: Habit) -> &mut SimulatedThread {
        let mut allowed: Vec<u32> = self.cores.iter().map(|&(cpu, _)| cpu).collect();
        allowed.sort_unstable();
        let priority = Priority { policy: SchedulingPolicy::Other, nice: 0 };
        let facts = ThreadFacts {
            tid,
            start_time_ticks: u64::from(tid),
            allowed: allowed.clone(),
            priority,
            groups: self.offered(),
            scheduling_group: SchedulingGroup::default(),
            weighed: Vec::new(),
            children_ticks: 0,
        };
        let running = self.threads.values().filter(|sim| sim.ran_last).map(|sim| sim.virtual_time);
        let least = running.fold(f64::INFINITY, f64::min);
        let sim = SimulatedThread {
            thread: Thread { tid, pid, parent, command: format!("t{tid}") },
            habit,
            facts,
            mask: allowed,
            priority,
            counters: Schedstat::default(),
            wait_ns: 0,
            reported: Schedstat::default(),
            sampled_at: self.now_ms,
            virtual_time: if least.is_finite() { least } else { 0.0 },
            work_left: f64::from(habit.work_ms),
            began_at: self.now_ms,
            // Threads start at different times; otherwise they would stay in step.
            wakes_at: self.now_ms + u64::from(tid % 7),
            ran_last: false,
            ran_at: 0,
            slice_ms: 0,
            group_weight: None,
            is_new: true,
            progress: 0.0,
            finished: 0,
            slowest_ms: 0,
        };
        self.threads.insert(tid, sim);
        self.threads.get_mut(&tid).unwrap()
    }

    /// A child process that inherits its parent's current attributes.
    pub fn fork(&mut self, tid: u32, parent: u32, habit: Habit) {
        let SimulatedThread { mask, priority, group_weight, .. } = self.threads[&parent].clone();
        let child = self.start(tid, tid, parent, habit);
        (child.mask, child.priority, child.group_weight) = (mask, priority, group_weight);
    }

    pub fn end(&mut self, tid: u32) {
        let ended = self.threads.remove(&tid);
        if let Some(ended) = ended
            && let Some(parent) = self.threads.get_mut(&ended.thread.parent)
        {
            parent.facts.children_ticks += ended.counters.run_ns / 10_000_000;
        }
        self.members.retain(|&(_, member), _| member != tid);
        let sample = Sample { ended: vec![tid], ..Sample::default() };
        let event = Event::Threads { sample, facts: Vec::new(), online: self.online.clone() };
        self.tell(&event);
    }

    pub fn put_in_foreground(&mut self, pids: &[u32]) {
        let process = |&pid: &u32| crate::Process { pid, ..Default::default() };
        self.tell(&Event::Foreground { processes: pids.iter().map(process).collect() });
        self.next_sample_ms = self.now_ms;
    }

    pub fn run(&mut self, milliseconds: u64) {
        let until = self.now_ms + milliseconds;
        while self.now_ms < until {
            if self.policy.deadline().is_some_and(|deadline| deadline <= BootTime::from_milliseconds(self.now_ms)) {
                self.tell(&Event::Deadline);
            }
            if self.now_ms >= self.next_sample_ms {
                self.sample();
            }
            self.step();
        }
    }

    fn step(&mut self) {
        let now = self.now_ms;
        let mut runnable: Vec<(f64, u32)> = Vec::new();
        let running = || self.threads.values().filter(|sim| sim.ran_last).map(|sim| sim.virtual_time);
        let least = running().fold(f64::INFINITY, f64::min);
        // Threads that share CPUs: those with equally many allowed CPUs.
        let mut most: BTreeMap<usize, f64> = BTreeMap::new();
        for sim in self.threads.values().filter(|sim| sim.ran_last) {
            let most = most.entry(sim.mask.len()).or_insert(sim.virtual_time);
            *most = most.max(sim.virtual_time);
        }
        for sim in self.threads.values_mut() {
            if sim.wakes_at == now && least.is_finite() {
                // A thread that slept starts slightly ahead of the others, without credit for all its sleep.
                sim.virtual_time = sim.virtual_time.max(least - 3.0);
            }
            if sim.wakes_at <= now {
                let most = most.get(&sim.mask.len()).copied().unwrap_or(f64::NEG_INFINITY);
                sim.virtual_time = sim.virtual_time.max(most - MOST_LAG_MS);
                // A thread that was just scheduled in is not preempted at once.
                let keeps = sim.ran_last && sim.slice_ms < LEAST_SLICE_MS;
                runnable.push((if keeps { f64::NEG_INFINITY } else { sim.virtual_time }, sim.thread.tid));
            }
        }
        let ran = |tid: &u32| self.threads[tid].ran_at;
        runnable.sort_by(|one, other| {
            one.0.total_cmp(&other.0).then_with(|| (ran(&one.1), one.1).cmp(&(ran(&other.1), other.1)))
        });
        let mut free: Vec<(u32, u32)> =
            self.cores.iter().copied().filter(|(cpu, _)| self.online.contains(cpu)).collect();
        for (_, tid) in runnable {
            let sim = self.threads.get_mut(&tid).unwrap();
            let confined = sim.mask.iter().any(|cpu| self.online.contains(cpu));
            let may = |(cpu, _): &(u32, u32)| !confined || sim.mask.contains(cpu);
            match free.iter().position(may) {
                Some(index) => sim.get(free.remove(index).1, now),
                None => {
                    sim.wait_ns += 1_000_000;
                    sim.ran_last = false;
                    sim.slice_ms = 0;
                }
            }
        }
        self.now_ms += 1;
        self.expire();
    }

    /// Expires the leases whose deadline has passed, and reports that to the policy.
    pub fn expire(&mut self) {
        let now = BootTime::from_milliseconds(self.now_ms);
        let mut kernel = std::mem::take(&mut self.kernel);
        let outcomes = kernel.expire(now, &mut |action| self.act(action));
        self.kernel = kernel;
        if !outcomes.is_empty() {
            let mut decisions = Vec::new();
            self.policy.on_outcomes(now, &outcomes, &mut decisions);
            self.carry_out(decisions);
        }
    }

    /// The groups of the sub-tree above process `pid`, the highest first.
    fn above(&self, pid: u32) -> Vec<WeightedGroup> {
        let Some(own) = self.tree.iter().find(|group| group.pids.contains(&pid)) else { return Vec::new() };
        let above = self.tree.iter().filter(|group| own.folder.starts_with(&group.folder));
        above.map(|group| WeightedGroup { folder: group.folder.clone(), weight: group.weight }).collect()
    }

    /// Runs up to and including the next sample.
    pub fn next_sample(&mut self) {
        let ahead = self.next_sample_ms + 1 - self.now_ms;
        self.run(ahead);
    }

    fn sample(&mut self) {
        let asked = self.policy.unknown.to_vec();
        let mut sample = Sample::default();
        for sim in self.threads.values_mut() {
            if std::mem::take(&mut sim.is_new) {
                sample.born.push(sim.thread.clone());
                sim.sampled_at = self.now_ms;
                continue;
            }
            let usage = sim.counters.since(sim.reported, (self.now_ms - sim.sampled_at) * 1_000_000);
            if usage.wall_ns > 0 && (usage != Usage { wall_ns: usage.wall_ns, ..Usage::default() }) {
                sample.used.push(ThreadUsage { tid: sim.thread.tid, usage });
                (sim.reported, sim.sampled_at) = (sim.counters, self.now_ms);
            } else if usage.wall_ns >= 1_000_000_000 {
                sim.sampled_at = self.now_ms;
            }
        }
        let facts = |tid: &u32| {
            let sim = self.threads.get(tid)?;
            let mut scheduling_group = sim.facts.scheduling_group.clone();
            if let SchedulingGroup::Autogroup(group) = &mut scheduling_group {
                group.nice = self.sessions.get(&group.id).copied().unwrap_or(group.nice);
            }
            let (facts, weighed) = (sim.facts.clone(), self.above(sim.thread.pid));
            let (allowed, priority) = (sim.mask.clone(), sim.priority);
            Some(ThreadFacts { allowed, priority, scheduling_group, weighed, ..facts })
        };
        let facts = asked.iter().filter_map(facts).collect();
        self.tell(&Event::Threads { sample, facts, online: self.online.clone() });
        let period = self.policy.interest().sampling_period.unwrap();
        self.next_sample_ms = self.now_ms + period.as_millis() as u64;
    }

    pub fn tell(&mut self, event: &Event) {
        let mut decisions = Vec::new();
        self.policy.on_event(BootTime::from_milliseconds(self.now_ms), event, &mut decisions);
        self.carry_out(decisions);
        if let Some(period) = self.policy.interest().sampling_period {
            self.next_sample_ms = self.next_sample_ms.min(self.now_ms + period.as_millis() as u64);
        }
    }

    /// Carries out the decisions, and reports the outcomes to the policy.
    pub fn carry_out(&mut self, mut decisions: Vec<Decision>) {
        let now = BootTime::from_milliseconds(self.now_ms);
        while !decisions.is_empty() {
            let mut kernel = std::mem::take(&mut self.kernel);
            let outcomes: Vec<_> =
                decisions.iter().map(|it| kernel.carry_out(now, it, &mut |action| self.act(action))).collect();
            self.kernel = kernel;
            self.decisions.extend(decisions.drain(..).map(|decision| (self.now_ms, decision)));
            self.policy.on_outcomes(now, &outcomes, &mut decisions);
        }
        self.check_belief();
    }

    /// Checks that the policy's leases match the kernel's and the threads' values.
    fn check_belief(&self) {
        let believed = self.policy.leased.held().chain(self.policy.temporary_masks.held());
        let believed: BTreeMap<Target, String> =
            believed.map(|(target, value)| (target.clone(), value.to_owned())).collect();
        assert_eq!(believed, self.kernel.held(), "at {} ms: {}", self.now_ms, self.policy.reason);
        assert!(
            self.policy.leased.is_empty()
                || self.policy.leased.in_force().all(|(target, _)| believed.contains_key(target))
        );
        for sim in self.threads.values().filter(|_| self.acts) {
            let (tid, start_time_ticks) = (sim.thread.tid, sim.facts.start_time_ticks);
            let held = |target: Target| believed.get(&target).cloned();
            if let Some(value) = held(Target::CpuAffinity { tid, start_time_ticks }) {
                assert_eq!(format_list(&sim.mask), value, "mask of {tid}");
            }
            if let Some(value) = held(Target::Priority { tid, start_time_ticks }) {
                assert_eq!(sim.priority.to_string(), value, "priority of {tid}");
            }
        }
        assert_eq!(self.policy.snapshot().threads.iter().filter(|view| self.shows_more_than_held(view)).count(), 0);
    }

    /// True when `brisk placement explain` would show a leased value that the kernel does not hold.
    fn shows_more_than_held(&self, view: &ThreadView) -> bool {
        let is_its = |target: &Target| {
            target.thread() == Some(view.tid) || matches!(target, Target::GroupWeight(_) | Target::Autogroup(_))
        };
        view.leased.is_some() && !self.kernel.held().keys().any(is_its)
    }

    /// The threads with a changed mask, priority or group weight.
    pub fn treated(&self) -> Vec<u32> {
        let is_treated = |sim: &&SimulatedThread| {
            sim.mask != sim.facts.allowed || sim.priority != sim.facts.priority || sim.group_weight.is_some()
        };
        self.threads.values().filter(is_treated).map(|sim| sim.thread.tid).collect()
    }
}
