//! What placement would have removed: its policy gets samples of the trace's threads, and the path waits less behind those that it
//! deprioritises or confines.

use std::time::Duration;

use super::facts::KnownThreads;
use super::replay::{Replay, policy_time, policy_time_before};
use super::samples::Sampler;
use super::treatment::InForce;
use super::{Case, Found, Unknown};
use crate::model::Exec;
use crate::path::{Behind, What};
use crate::threads::{Index, Runner};
use brisk_mechanism::placement::cores::FULL_CAPACITY;
use brisk_mechanism::placement::{Machine, PlacementConfig, PlacementPolicy};
use brisk_mechanism::{Enabled, Event, Policy as _, Process, Support, SupportState, ThreadDemand};
use brisk_sys::BootTime;
use brisk_sys::cgroup::membership::Memberships;
use brisk_sys::sched::scheduling_group::SchedulingGroup;
use brisk_sys::sched::thread_facts::ThreadFacts;
use brisk_sys::sched::threads::Sample;

/// For so long before the trace the threads are assumed to have been as busy as in it: long enough to tell bulk threads.
const BEFORE: Duration = Duration::from_secs(3);

/// `facts` are of the threads that existed when the recording ended; without them only nice values can be lowered.
pub(super) fn estimate(
    case: &Case<'_>,
    config: &PlacementConfig,
    facts: Option<&[ThreadFacts]>,
) -> Result<Found, Unknown> {
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
    let machine = machine(case);
    let threads = KnownThreads::new(case, facts.unwrap_or_default(), machine.cpus());
    let (mut history, reason) = replay(case, config, machine, &threads);
    let nothing_because = nothing_because(&history, &reason);
    catch_up(case, &mut history);
    let mut removed_ns = vec![0; case.explanation.parts.len()];
    for (piece, step) in case.pieces.iter().zip(&case.explanation.path) {
        let What::Runnable { cpu, behind: Behind::Thread(behind) } = piece.what else { continue };
        let Some(&(part, _)) = step.shares.first() else { continue };
        let is_foreground = is_foreground(case, piece.thread);
        let left_ns = left_ns(&history, behind, (cpu, is_foreground), (piece.from_ns, piece.to_ns));
        removed_ns[part] += (piece.to_ns - piece.from_ns) - left_ns;
    }
    Ok(Found { removed_ns, nothing_because: Some(nothing_because), assumes: assumes(facts.is_some()) })
}

/// Why nothing of the path would have been removed, where that is so.
fn nothing_because(history: &[InForce], reason: &str) -> String {
    if history.iter().all(|in_force| in_force.is_nothing) {
        let why = reason.strip_prefix("nothing is done: ").unwrap_or(reason);
        return format!("it does nothing within the window: {why}");
    }
    match history.iter().all(InForce::is_without_effect) {
        true => format!("nice values do not apply between the groups of those threads and the process: {reason}"),
        false => format!("it acts too late for the path: {reason}"),
    }
}

fn assumes(knows_groups: bool) -> Vec<String> {
    let groups = match knows_groups {
        true => {
            "threads had the nice values with which they came to a CPU, and the control groups, sessions and masks of now"
        }
        false => {
            "threads had the nice values with which they came to a CPU, no reserved CPUs and no control groups: in one, all \
             deprioritised threads would share the weight of one, which removes more"
        }
    };
    vec![
        "threads from before the trace were as busy before it as in it".to_owned(),
        groups.to_owned(),
        "what a deprioritised thread then does later, it does beside the process as well".to_owned(),
        "the process is in the foreground from its program's or its own beginning, or else from that of the window"
            .to_owned(),
        "placement acts at once, and its own work takes no time".to_owned(),
    ]
}

fn is_behind_a_thread(what: What) -> bool {
    matches!(what, What::Runnable { behind: Behind::Thread(_), .. })
}

fn is_foreground(case: &Case<'_>, thread: Index) -> bool {
    case.timelines.threads[thread as usize].process == case.explanation.process
}

/// Replays the trace up to the end of the window: what is done to threads in the order of time, and what the policy says of itself.
fn replay(
    case: &Case<'_>,
    config: &PlacementConfig,
    machine: Machine,
    threads: &KnownThreads<'_>,
) -> (Vec<InForce>, String) {
    let Case { trace, timelines, window, .. } = case;
    let support = Support { state: SupportState::Active, ..Support::default() };
    let config = PlacementConfig { enabled: Enabled::On, storage: false, ..config.clone() };
    let sampling = Duration::from_millis(config.sampling_ms.max(1));
    let mut replay = Replay::new(PlacementPolicy::new(config, support, machine));
    let mut sampler = Sampler::new(trace, timelines);
    let mut history: Vec<InForce> = Vec::new();
    let born = sampler.first();
    tell(&mut replay, policy_time_before(BEFORE), born, &sampler, threads);
    let usual = sampler.before(sampling);
    let mut before = BEFORE;
    while !before.is_zero() {
        before -= sampling.min(before);
        tell(&mut replay, policy_time_before(before), usual.clone(), &sampler, threads);
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
            true => waited(case, &history, thread, cpu, (from_ns, to_ns)),
            false => to_ns - from_ns,
        });
        tell(&mut replay, now, sample, &sampler, threads);
        if replay.done.drain(..).count() > 0 {
            history.push(InForce::of(at_ns, replay.leases(), threads));
        }
    }
    (history, replay.policy.snapshot().reason)
}

/// When the explained process comes to the foreground: placement learns of an application that has begun its program.
fn foreground_since(case: &Case<'_>) -> u64 {
    let Case { trace, timelines, window, explanation, .. } = case;
    let (first, _) = timelines.threads[window.thread as usize].life(trace);
    let born_ns = trace.time_ns(first).clamp(window.from_ns, window.to_ns);
    let is_own = |exec: &&Exec| exec.tid == explanation.process && (born_ns..window.to_ns).contains(&exec.time_ns);
    trace.execs.iter().find(is_own).map_or(born_ns, |exec| exec.time_ns)
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
fn tell(
    replay: &mut Replay<PlacementPolicy>,
    now: BootTime,
    sample: Sample,
    sampler: &Sampler<'_>,
    threads: &KnownThreads<'_>,
) {
    let mut demand = ThreadDemand::default();
    replay.policy.demand_threads(&mut demand);
    let facts = demand.facts.iter().filter_map(|tid| {
        let thread = *sampler.living.get(tid)?;
        let told = threads.facts(thread);
        Some(ThreadFacts {
            tid: *tid,
            // Unlike a number, an index is used once.
            start_time_ticks: u64::from(thread),
            allowed: told.map_or_else(|| threads.cpus.clone(), |told| told.allowed.clone()),
            priority: threads.priority(thread, sampler.sampled_ns()),
            groups: told.map_or_else(Memberships::default, |told| told.groups.clone()),
            scheduling_group: told.map_or_else(SchedulingGroup::default, |told| told.scheduling_group.clone()),
            weighed: told.map_or_else(Vec::new, |told| told.weighed.clone()),
            children_ticks: 0,
        })
    });
    let facts = facts.collect();
    replay.tell(now, &Event::Threads { sample, facts, online: threads.cpus.clone() });
}

/// Raises what is left of the waits by what deprioritised threads catch up with.
fn catch_up(case: &Case<'_>, history: &mut [InForce]) {
    let ends: Vec<u64> = history.iter().skip(1).map(|next| next.since_ns).chain([case.window.to_ns]).collect();
    for (in_force, to_ns) in history.iter_mut().zip(ends) {
        let (mut ran_ns, mut waited_ns) = (0, vec![0; in_force.lowered.len()]);
        let first = case.pieces.partition_point(|piece| piece.to_ns <= in_force.since_ns);
        for piece in case.pieces[first..].iter().take_while(|piece| piece.from_ns < to_ns) {
            let ns = piece.to_ns.min(to_ns).saturating_sub(piece.from_ns.max(in_force.since_ns));
            match piece.what {
                What::Running { .. } => ran_ns += ns,
                What::Runnable { behind: Behind::Thread(behind), .. } => {
                    if let Some(lowered) = in_force.lowered_of(behind) {
                        waited_ns[lowered] += ns;
                    }
                }
                _ => {}
            }
        }
        for (lowered, waited_ns) in in_force.lowered.iter_mut().zip(waited_ns) {
            lowered.catch_up(ran_ns, waited_ns);
        }
    }
}

/// How long a foreground thread would have waited in the queue of a CPU, in which it waited in the trace.
fn waited(case: &Case<'_>, history: &[InForce], thread: Index, cpu: u16, (from_ns, to_ns): (u64, u64)) -> u64 {
    let time = |at: u32| case.trace.time_ns(at);
    let runners = case.timelines.cpus.get(cpu as usize).map_or(&[][..], |cpu| &cpu.runners);
    if history.is_empty() {
        return to_ns - from_ns;
    }
    let first = runners.partition_point(|(at, _)| time(*at) <= from_ns).saturating_sub(1);
    let mut left = to_ns - from_ns;
    for (place, (at, runner)) in runners.iter().enumerate().skip(first).take_while(|(_, (at, _))| time(*at) < to_ns) {
        let Runner::Thread(behind) = *runner else { continue };
        let begins = time(*at).max(from_ns);
        let ends = runners.get(place + 1).map_or(to_ns, |(next, _)| time(*next)).min(to_ns);
        if behind != thread && begins < ends {
            left -= (ends - begins) - left_ns(history, behind, (cpu, true), (begins, ends));
        }
    }
    left
}

/// What would have been left of a wait behind thread `behind` on a CPU.
fn left_ns(history: &[InForce], behind: Index, on: (u16, bool), (from_ns, to_ns): (u64, u64)) -> u64 {
    let first = history.partition_point(|in_force| in_force.since_ns <= from_ns).saturating_sub(1);
    let mut left = (to_ns - from_ns) as f64;
    for (place, in_force) in history.iter().enumerate().skip(first) {
        let begins = in_force.since_ns.max(from_ns);
        let ends = history.get(place + 1).map_or(to_ns, |next| next.since_ns).min(to_ns);
        if begins >= to_ns {
            break;
        }
        if begins < ends {
            left -= (ends - begins) as f64 * (1.0 - in_force.share_left(behind, on));
        }
    }
    left.max(0.0).round() as u64
}
