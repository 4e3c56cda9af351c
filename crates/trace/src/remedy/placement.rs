//! What placement would have removed: its policy gets samples of the trace's threads, and the path waits less behind those that it
//! deprioritises or confines.

use std::collections::HashMap;
use std::time::Duration;

use super::replay::{Replay, policy_time, policy_time_before};
use super::samples::Sampler;
use super::{Case, Found, Unknown};
use crate::model::{NICE_0, REAL_TIME_BELOW, Tid, Trace};
use crate::path::{Behind, What};
use crate::threads::{Index, Runner};
use brisk_mechanism::placement::cores::FULL_CAPACITY;
use brisk_mechanism::placement::{Machine, PlacementConfig, PlacementPolicy};
use brisk_mechanism::{Action, Enabled, Event, Policy as _, Process, Support, SupportState, Target, ThreadDemand};
use brisk_sys::BootTime;
use brisk_sys::cgroup::membership::Memberships;
use brisk_sys::cpu::hotplug;
use brisk_sys::sched::priority::{Priority, SchedulingPolicy};
use brisk_sys::sched::scheduling_group::SchedulingGroup;
use brisk_sys::sched::thread_facts::ThreadFacts;
use brisk_sys::sched::threads::Sample;
use brisk_sys::sched::uclamp::Clamps;

/// For so long before the trace the threads are assumed to have been as busy as in it: long enough to tell bulk threads.
const BEFORE: Duration = Duration::from_secs(3);
/// The ratio of the weights of adjacent nice levels, and the weight of SCHED_IDLE beside that of nice 0 (kernel/sched/core.c).
const NICE_LEVEL_RATIO: f64 = 1.25;
const IDLE_SHARE: f64 = 3.0 / 1024.0;

/// What is done to a thread, from a moment of the trace on.
#[derive(Debug, Clone, PartialEq)]
enum Treatment {
    /// While another thread wants the CPU.
    Lowered {
        /// The share that it gets of what it took.
        kept: f64,
        /// What it gets beside a thread of nice value 0 that runs for 1.
        beside: f64,
    },
    /// It is kept to these CPUs, and the foreground to others.
    Confined(Vec<u32>),
}

/// By thread, each in the order of time.
type Treatments = HashMap<Tid, Vec<(u64, Treatment)>>;

pub(super) fn estimate(case: &Case<'_>, config: &PlacementConfig) -> Result<Found, Unknown> {
    if case.trace.counts.switches == 0 {
        return Err("the trace has no sched_switch".to_owned());
    }
    let waits = case.pieces.iter().any(|piece| is_behind_a_thread(piece.what));
    if !waits {
        return Ok(Found::nothing("the path waits for a CPU behind no other thread"));
    }
    let sampling = Duration::from_millis(config.sampling_ms);
    let length_ns = case.trace.end_ns() - case.trace.start_ns();
    if u128::from(length_ns) < sampling.as_nanos() {
        return Err(format!("the trace is shorter than one sample of placement ({} ms)", config.sampling_ms));
    }
    let (treatments, reason) = replay(case, config);
    let treatments = caught_up(case, treatments);
    let mut removed_ns = vec![0; case.explanation.parts.len()];
    for (piece, step) in case.pieces.iter().zip(&case.explanation.path) {
        let What::Runnable { cpu, behind: Behind::Thread(behind) } = piece.what else { continue };
        let Some(&(part, _)) = step.shares.first() else { continue };
        let behind = case.timelines.threads[behind as usize].tid;
        let is_foreground = is_foreground(case, piece.thread);
        let left_ns = left_ns(&treatments, behind, (cpu, is_foreground), (piece.from_ns, piece.to_ns));
        removed_ns[part] += (piece.to_ns - piece.from_ns) - left_ns;
    }
    let assumes = vec![
        "threads from before the trace were as busy before it as in it".to_owned(),
        "threads had the nice values with which they came to a CPU, no groups of their own and no reserved CPUs"
            .to_owned(),
        "what a deprioritised thread then does later, it does beside the process as well".to_owned(),
        "the process is in the foreground from its birth, or else from the beginning of the window".to_owned(),
    ];
    let nothing_because = match treatments.is_empty() {
        true => {
            let why = reason.strip_prefix("nothing is done: ").unwrap_or(&reason);
            format!("it does nothing within the window: {why}")
        }
        false => format!("it acts too late for the path: {reason}"),
    };
    Ok(Found { removed_ns, nothing_because: Some(nothing_because), assumes })
}

fn is_behind_a_thread(what: What) -> bool {
    matches!(what, What::Runnable { behind: Behind::Thread(_), .. })
}

fn is_foreground(case: &Case<'_>, thread: Index) -> bool {
    case.timelines.threads[thread as usize].process == case.explanation.process
}

/// Replays the trace up to the end of the window: what is done to which thread, and what the policy says of itself.
fn replay(case: &Case<'_>, config: &PlacementConfig) -> (Treatments, String) {
    let Case { trace, timelines, window, .. } = case;
    let machine = machine(case);
    let online = machine.cpus();
    let support = Support { state: SupportState::Active, ..Support::default() };
    let config = PlacementConfig { enabled: Enabled::On, storage: false, ..config.clone() };
    let sampling = Duration::from_millis(config.sampling_ms.max(1));
    let mut replay = Replay::new(PlacementPolicy::new(config, support, machine));
    let mut sampler = Sampler::new(trace, timelines);
    let mut treatments = Treatments::new();
    let born = sampler.first();
    tell(&mut replay, policy_time_before(BEFORE), born, &sampler, &online);
    let usual = sampler.before(sampling);
    let mut before = BEFORE;
    while !before.is_zero() {
        before -= sampling.min(before);
        tell(&mut replay, policy_time_before(before), usual.clone(), &sampler, &online);
    }
    let foreground_ns = foreground_since(case);
    let (mut at_ns, mut is_told) = (trace.start_ns(), false);
    while at_ns < window.to_ns {
        let period = replay.policy.interest().sampling_period.unwrap_or(sampling).max(Duration::from_millis(1));
        let end_ns = if is_told { window.to_ns } else { foreground_ns };
        // A gap without events, also one of a forged clock, is one sample.
        let next = trace.events.partition_point(|event| event.time_ns <= at_ns);
        let next_ns = trace.events.get(next).map_or(end_ns, |event| event.time_ns);
        at_ns = at_ns.saturating_add(period.as_nanos() as u64).max(next_ns).min(end_ns);
        let now = policy_time(trace, at_ns);
        replay.run_until(now);
        if !is_told && at_ns >= foreground_ns {
            // As in the daemon, a sample follows at once.
            is_told = true;
            let process = Process { pid: case.explanation.process, ..Process::default() };
            replay.tell(now, &Event::Foreground { processes: vec![process] });
        }
        let sample = sampler.take(at_ns, |thread, cpu, from_ns, to_ns| match is_foreground(case, thread) {
            true => waited(case, &treatments, thread, cpu, (from_ns, to_ns)),
            false => to_ns - from_ns,
        });
        tell(&mut replay, now, sample, &sampler, &online);
        note(&mut treatments, trace, at_ns, &mut replay.done);
    }
    (treatments, replay.policy.snapshot().reason)
}

/// When the explained process comes to the foreground.
fn foreground_since(case: &Case<'_>) -> u64 {
    let (first, _) = case.timelines.threads[case.window.thread as usize].life(case.trace);
    case.trace.time_ns(first).clamp(case.window.from_ns, case.window.to_ns)
}

/// The CPUs that ran anything; their capacities by their highest frequencies, where the trace tells those of all.
fn machine(case: &Case<'_>) -> Machine {
    let cpus = case.timelines.cpus.iter().enumerate().filter(|(_, cpu)| !cpu.runners.is_empty());
    let fastest_khz = cpus.clone().map(|(_, cpu)| cpu.highest_khz).max().unwrap_or(0).max(1);
    let tells_all = cpus.clone().all(|(_, cpu)| cpu.highest_khz > 0);
    let capacity = |khz: u32| match tells_all {
        true => (u64::from(FULL_CAPACITY) * u64::from(khz) / u64::from(fastest_khz)) as u32,
        false => FULL_CAPACITY,
    };
    let cores: Vec<(u32, u32)> = cpus.map(|(number, cpu)| (number as u32, capacity(cpu.highest_khz))).collect();
    Machine::of(&cores)
}

/// Tells the policy of a sample, with the facts that it asked for.
fn tell(replay: &mut Replay<PlacementPolicy>, now: BootTime, sample: Sample, sampler: &Sampler<'_>, online: &[u32]) {
    let mut demand = ThreadDemand::default();
    replay.policy.demand_threads(&mut demand);
    let facts = demand.facts.iter().filter_map(|tid| {
        let thread = sampler.living.get(tid)?;
        Some(ThreadFacts {
            tid: *tid,
            start_time_ticks: u64::from(*thread),
            allowed: online.to_vec(),
            priority: priority(sampler.priority(*tid)),
            clamps: Clamps::default(),
            groups: Memberships::default(),
            scheduling_group: SchedulingGroup::default(),
            weighed: Vec::new(),
            children_ticks: 0,
        })
    });
    let facts = facts.collect();
    replay.tell(now, &Event::Threads { sample, facts, online: online.to_vec() });
}

/// Takes what was done to threads.
fn note(treatments: &mut Treatments, trace: &Trace, now_ns: u64, done: &mut Vec<(BootTime, Action)>) {
    for (_, action) in done.drain(..) {
        let (target, value) = match &action {
            Action::Lease { target, value, .. } => (target, value.as_str()),
            Action::Release { target } => (target, ""),
            _ => continue,
        };
        let Some(tid) = target.thread() else { continue };
        let own = weight(priority(trace.priority_at(tid, now_ns)));
        let lowered_to = |beside: f64| Treatment::Lowered { kept: (beside / own).min(1.0), beside };
        let treatment = match target {
            Target::Priority { .. } => lowered_to(value.parse().map_or(own, weight)),
            Target::CpuAffinity { .. } => match hotplug::parse_list(value).filter(|_| !value.is_empty()) {
                Some(cpus) => Treatment::Confined(cpus),
                None => lowered_to(own),
            },
            _ => continue,
        };
        treatments.entry(tid).or_default().push((now_ns, treatment));
    }
}

/// A thread that does not want a CPU all the time catches up with what it could not do: while the path runs, it takes its lower share
/// even where it slept in the trace, but no more than it took there. So its share of the waits behind it is larger.
fn caught_up(case: &Case<'_>, mut treatments: Treatments) -> Treatments {
    for (tid, of_thread) in &mut treatments {
        let ends: Vec<u64> = of_thread.iter().skip(1).map(|next| next.0).chain([case.window.to_ns]).collect();
        for ((begins, treatment), ends) in of_thread.iter_mut().zip(ends) {
            let Treatment::Lowered { kept, beside } = treatment else { continue };
            let (ran_ns, waited_ns) = ran_and_waited(case, *tid, (*begins, ends));
            if *kept < 1.0 && waited_ns > 0 {
                *kept = kept.max(*beside * ran_ns as f64 / waited_ns as f64).min(1.0);
            }
        }
    }
    treatments
}

/// How long the path ran in a window, and how long it waited behind a thread.
fn ran_and_waited(case: &Case<'_>, tid: Tid, (from_ns, to_ns): (u64, u64)) -> (u64, u64) {
    let first = case.pieces.partition_point(|piece| piece.to_ns <= from_ns);
    let pieces = case.pieces[first..].iter().take_while(|piece| piece.from_ns < to_ns);
    let (mut ran_ns, mut waited_ns) = (0, 0);
    for piece in pieces {
        let ns = piece.to_ns.min(to_ns).saturating_sub(piece.from_ns.max(from_ns));
        match piece.what {
            What::Running { .. } => ran_ns += ns,
            What::Runnable { behind: Behind::Thread(behind), .. }
                if case.timelines.threads[behind as usize].tid == tid =>
            {
                waited_ns += ns;
            }
            _ => {}
        }
    }
    (ran_ns, waited_ns)
}

/// A priority of the kernel.
fn priority(of_kernel: u8) -> Priority {
    match of_kernel {
        ..REAL_TIME_BELOW => Priority { policy: SchedulingPolicy::Special, nice: 0 },
        _ => Priority { policy: SchedulingPolicy::Other, nice: (i32::from(of_kernel) - i32::from(NICE_0)).min(19) },
    }
}

/// What a thread of this priority gets beside one of nice value 0 that gets 1.
fn weight(priority: Priority) -> f64 {
    match priority.policy {
        SchedulingPolicy::Idle => IDLE_SHARE,
        _ => NICE_LEVEL_RATIO.powi(-priority.nice),
    }
}

/// How long a foreground thread would have waited in the queue of a CPU, in which it waited in the trace.
fn waited(case: &Case<'_>, treatments: &Treatments, thread: Index, cpu: u16, (from_ns, to_ns): (u64, u64)) -> u64 {
    let time = |at: u32| case.trace.time_ns(at);
    let runners = case.timelines.cpus.get(cpu as usize).map_or(&[][..], |cpu| &cpu.runners);
    if treatments.is_empty() {
        return to_ns - from_ns;
    }
    let first = runners.partition_point(|(at, _)| time(*at) <= from_ns).saturating_sub(1);
    let mut left = to_ns - from_ns;
    for (place, (at, runner)) in runners.iter().enumerate().skip(first).take_while(|(_, (at, _))| time(*at) < to_ns) {
        let Runner::Thread(behind) = *runner else { continue };
        let begins = time(*at).max(from_ns);
        let ends = runners.get(place + 1).map_or(to_ns, |(next, _)| time(*next)).min(to_ns);
        if behind != thread && begins < ends {
            let behind = case.timelines.threads[behind as usize].tid;
            left -= (ends - begins) - left_ns(treatments, behind, (cpu, true), (begins, ends));
        }
    }
    left
}

/// What would have been left of a wait behind thread `behind` on a CPU.
fn left_ns(treatments: &Treatments, behind: Tid, on: (u16, bool), (from_ns, to_ns): (u64, u64)) -> u64 {
    let Some(of_thread) = treatments.get(&behind) else { return to_ns - from_ns };
    let mut left = (to_ns - from_ns) as f64;
    for (place, (since_ns, treatment)) in of_thread.iter().enumerate() {
        let begins = (*since_ns).max(from_ns);
        let ends = of_thread.get(place + 1).map_or(to_ns, |next| next.0).min(to_ns);
        if begins < ends {
            left -= (ends - begins) as f64 * (1.0 - treatment.share_left(on));
        }
    }
    left.max(0.0).round() as u64
}

impl Treatment {
    /// The share of a wait that is left, on this CPU and for the foreground or not.
    fn share_left(&self, (cpu, is_foreground): (u16, bool)) -> f64 {
        match self {
            Self::Lowered { kept, .. } => *kept,
            // The foreground's threads are moved to the CPUs that are reserved for them.
            Self::Confined(cpus) if is_foreground || !cpus.contains(&u32::from(cpu)) => 0.0,
            Self::Confined(_) => 1.0,
        }
    }
}
