//! What launch would have removed: its policy gets the forks, programs and loads of the trace, and the runs of the path take what
//! they take at the raised frequencies.

use super::cpufreq::{Boosts, Device};
use super::replay::{Replay, policy_time};
use super::{Case, Found, Unknown};
use crate::explain::Cause;
use crate::path::What;
use crate::threads::{Index, Runner, State, readable};
use crate::words::ms;
use brisk_mechanism::launch::prediction::DETECTION_DELAY_US;
use brisk_mechanism::launch::{LaunchConfig, LaunchDevice, LaunchPolicy, LearnedDurations, triggers};
use brisk_mechanism::{Enabled, Event, Policy as _, Process, ProcessEvent, ProcessEventKind};

/// From an event of a process to the daemon's write.
const DETECTION_NS: u64 = DETECTION_DELAY_US * 1000;

pub(super) fn estimate(case: &Case<'_>, config: &LaunchConfig, device: Option<&Device>) -> Result<Found, Unknown> {
    let parts = &case.explanation.parts;
    if !parts.iter().any(|part| part.cause == Cause::Frequency) {
        return match parts.iter().any(|part| part.cause == Cause::Running) {
            true => {
                Err("the trace does not tell the frequency of the CPUs that the path ran on (cpu_frequency)".to_owned())
            }
            false => Ok(Found::nothing("no run of the path was slowed by frequency")),
        };
    }
    let of_trace = LaunchDevice { process_events: true, ..LaunchDevice::default() };
    let triggers = triggers::effective(config, device.map_or(&of_trace, |device| &device.facts));
    let config = LaunchConfig { enabled: Enabled::On, triggers, ..config.clone() };
    let boosts = match device {
        Some(device) => Boosts::on(device, &config),
        None => Boosts::of_trace(case.timelines, &config),
    };
    if boosts.plan.choices.is_empty() {
        return Ok(Found::nothing(format!("launch does nothing on this device: {}", boosts.plan.support.reason)));
    }
    let (events, is_announced) = events(case);
    let boosts = replay(case, config, events, boosts);
    if boosts.floors.is_empty() {
        let why = boosts.uncounted.first().cloned();
        return why.map_or_else(|| Ok(Found::nothing("launch boosts nothing in this window")), Err);
    }
    let mut assumes = vec![when(case, &boosts, device)];
    if is_announced {
        assumes.push("the window is a launch, and launch is told of it at its beginning".to_owned());
    }
    assumes.push("the highest frequency in the trace is that of the CPU".to_owned());
    assumes.extend(boosts.uncounted.iter().map(|why| format!("nothing for some CPUs: {why}")));
    let nothing_because = Some("the frequency was raised by itself before launch would have acted".to_owned());
    Ok(Found { removed_ns: removed(case, &boosts), nothing_because, assumes })
}

/// The process events of the trace, as the daemon gets them. Where none tells of the explained process, its launch is announced.
fn events(case: &Case<'_>) -> (Vec<(u64, Event)>, bool) {
    let Case { trace, timelines, window, explanation, .. } = case;
    let process = |kind, pid, time_ns| {
        let thread = timelines.by_tid.get(&pid).and_then(|all| all.first());
        let parent = thread.and_then(|&thread| timelines.threads[thread as usize].parent);
        let parent = parent.map(|parent| timelines.threads[parent as usize].process);
        let name = |pid| trace.name_at(pid, time_ns).map(readable);
        let (command, parent_command) = (name(pid), parent.and_then(name));
        // Only a process whose start time is known gets a clamp.
        let start_time_ticks = Some(0);
        let process = Process { pid, parent, parent_command, command, start_time_ticks, ..Process::default() };
        ProcessEvent { kind, process }
    };
    let event = |kind, pid, time_ns| (time_ns, Event::Process(process(kind, pid, time_ns)));
    let mut events: Vec<(u64, Event)> = Vec::new();
    for &(at, child) in &timelines.forks {
        let thread = &timelines.threads[child as usize];
        if thread.tid != thread.process {
            continue;
        }
        events.push(event(ProcessEventKind::Fork, thread.tid, trace.time_ns(at)));
        if let Some(last) = thread.transitions.last().filter(|last| last.state == State::Absent) {
            events.push(event(ProcessEventKind::Exit, thread.tid, trace.time_ns(last.at)));
        }
    }
    events.extend(trace.execs.iter().map(|exec| event(ProcessEventKind::Exec, exec.tid, exec.time_ns)));
    let is_own = |(time_ns, event): &(u64, Event)| {
        let begins = |it: &ProcessEvent| it.kind != ProcessEventKind::Exit && it.process.pid == explanation.process;
        (window.from_ns..window.to_ns).contains(time_ns) && matches!(event, Event::Process(it) if begins(it))
    };
    let is_announced = !events.iter().any(is_own);
    if is_announced {
        let ProcessEvent { process, .. } = process(ProcessEventKind::Exec, explanation.process, window.from_ns);
        let application = explanation.thread.clone();
        events.push((window.from_ns, Event::LaunchAnnounced { process: Some(process), application }));
    }
    events.retain(|(time_ns, _)| *time_ns < window.to_ns);
    events.sort_by_key(|(time_ns, _)| *time_ns);
    (events, is_announced)
}

/// Tells the policy of the events and of the load, and takes what it does.
fn replay(case: &Case<'_>, config: LaunchConfig, events: Vec<(u64, Event)>, mut boosts: Boosts) -> Boosts {
    let Case { trace, timelines, window, .. } = case;
    let cpus = timelines.cpus.iter().filter(|cpu| !cpu.runners.is_empty()).count().max(1);
    let policy = LaunchPolicy::new(config, boosts.plan.clone(), cpus as u32, LearnedDurations::default());
    let mut replay = Replay::new(policy);
    let mut load_at: Option<u64> = None;
    let end = (window.to_ns, None);
    let events = events.into_iter().map(|(time_ns, event)| (time_ns.saturating_add(DETECTION_NS), Some(event)));
    for (time_ns, event) in events.chain([end]) {
        while let Some(due_ns) = load_at.filter(|due_ns| *due_ns < time_ns) {
            let period_ns = replay.policy.interest().load_period.map(|period| period.as_nanos() as u64);
            load_at = period_ns.map(|period_ns| due_ns.saturating_add(period_ns.max(1)));
            let Some(period_ns) = period_ns else { break };
            let busy_permille = busy_permille(case, due_ns.saturating_sub(period_ns), due_ns);
            replay.run_until(policy_time(trace, due_ns));
            replay.tell(policy_time(trace, due_ns), &Event::Load { busy_permille });
        }
        replay.run_until(policy_time(trace, time_ns));
        if let Some(event) = event {
            replay.tell(policy_time(trace, time_ns), &event);
        }
        let period = replay.policy.interest().load_period;
        load_at = period.and_then(|period| load_at.or(Some(time_ns.saturating_add(period.as_nanos() as u64))));
        let begins = policy_time(trace, trace.start_ns());
        for (moment, action) in replay.done.drain(..) {
            let moment_ns = trace.start_ns() + moment.since(begins).as_nanos() as u64;
            boosts.act(trace, timelines, moment_ns, &action);
        }
    }
    boosts
}

/// The share of all CPUs that was busy.
fn busy_permille(case: &Case<'_>, from_ns: u64, to_ns: u64) -> u16 {
    let trace = case.trace;
    let clamped = |at: u32| trace.time_ns(at).clamp(from_ns, to_ns);
    let (mut busy_ns, mut all_ns) = (0, 0);
    for cpu in case.timelines.cpus.iter().filter(|cpu| !cpu.runners.is_empty()) {
        let first = cpu.runners.partition_point(|(at, _)| trace.time_ns(*at) <= from_ns).saturating_sub(1);
        let runners = cpu.runners[first..].iter().take_while(|(at, _)| trace.time_ns(*at) < to_ns);
        for (place, (at, runner)) in runners.enumerate() {
            let next = cpu.runners.get(first + place + 1).map_or(trace.events.len() as u32, |next| next.0);
            busy_ns += if matches!(runner, Runner::Thread(_)) { clamped(next) - clamped(*at) } else { 0 };
        }
        all_ns += to_ns - from_ns;
    }
    (busy_ns * 1000 / all_ns.max(1)) as u16
}

/// What the raised frequencies remove of each part.
fn removed(case: &Case<'_>, boosts: &Boosts) -> Vec<u64> {
    let mut removed_ns = vec![0; case.explanation.parts.len()];
    for (piece, step) in case.pieces.iter().zip(&case.explanation.path) {
        let What::Running { cpu, khz: Some(khz) } = piece.what else { continue };
        let is_slowed = |(part, _): &&(usize, u64)| case.explanation.parts[*part].cause == Cause::Frequency;
        let Some(&(part, share_ns)) = step.shares.iter().find(is_slowed) else { continue };
        let highest_khz = case.timelines.cpus[cpu as usize].highest_khz;
        let process = process_of(case, piece.thread);
        let taken_ns = boosts.run_ns((piece.from_ns, piece.to_ns), process, cpu, (khz, highest_khz));
        removed_ns[part] += (piece.to_ns - piece.from_ns).saturating_sub(taken_ns).min(share_ns);
    }
    removed_ns
}

fn process_of(case: &Case<'_>, thread: Index) -> u32 {
    case.timelines.threads[thread as usize].process
}

/// With what, and during which part of the window the frequency is raised.
fn when(case: &Case<'_>, boosts: &Boosts, device: Option<&Device>) -> String {
    let window = case.window;
    let from_ns = boosts.floors.iter().map(|floor| floor.from_ns).min().unwrap_or(window.from_ns);
    let to_ns = boosts.floors.iter().map(|floor| floor.to_ns.min(window.to_ns)).max().unwrap_or(window.to_ns);
    let what = match (device, boosts.plan.choices.first()) {
        (Some(_), Some(choice)) => format!("launch acts by {}, as on this device,", choice.kind),
        _ => "launch holds the frequency up (scaling_min_freq)".to_owned(),
    };
    let at = |ns: u64| ms(ns.saturating_sub(window.from_ns));
    let until = if to_ns == window.to_ns { "its end".to_owned() } else { at(to_ns) };
    format!("{what} from {} of the window to {until}", at(from_ns))
}
