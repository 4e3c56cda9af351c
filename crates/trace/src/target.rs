//! Which thread, and which window.

use std::collections::{BTreeMap, BTreeSet};

use crate::explain::Window;
use crate::model::{Tid, Trace};
use crate::threads::{Index, State, Timelines, readable};

/// What the user asks about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// A process by number or by name: its main thread is followed.
    Process(String),
    Thread(Tid),
}

/// Why there is no window; each message says what to do.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TargetError {
    #[error("the trace has no process {wanted}; those that ran most: {}", candidates.join(", "))]
    NoProcess { wanted: String, candidates: Vec<String> },
    #[error("several processes are called {wanted}; give one by number: {}", candidates.join(", "))]
    SeveralProcesses { wanted: String, candidates: Vec<String> },
    #[error("the trace has no thread {tid}; those that ran most: {}", candidates.join(", "))]
    NoThread { tid: Tid, candidates: Vec<String> },
    #[error("the trace has no launch {wanted}; those found: {}", if launches.is_empty() { "none".to_owned() } else { launches.join(", ") })]
    NoLaunch { wanted: String, launches: Vec<String> },
    #[error("no thread of {launch} is in the trace, so its launch cannot be explained; name a process with --process")]
    NoThreadOfLaunch { launch: String },
    #[error(
        "the window from {from:.6} s to {to:.6} s is empty or outside of the trace, which is from {first:.6} s to {last:.6} s"
    )]
    NoWindow { from: f64, to: f64, first: f64, last: f64 },
}

/// How many processes an error lists.
const LISTED: usize = 8;

/// Finds the thread and the window; without limits that is the thread's life within the trace. The notes say what was chosen.
///
/// # Errors
/// When there is no such thread, or no such time.
pub fn find(
    trace: &Trace,
    timelines: &Timelines,
    wanted: &Wanted,
    from_ns: Option<u64>,
    to_ns: Option<u64>,
) -> Result<(Window, Vec<String>), TargetError> {
    let mut notes = Vec::new();
    let (first, last) = (trace.start_ns(), trace.end_ns());
    let (from, to) = (from_ns.unwrap_or(first).max(first), to_ns.unwrap_or(last).min(last));
    let seconds = |ns: u64| ns as f64 / 1e9;
    let no_window = |from: u64, to: u64| TargetError::NoWindow {
        from: seconds(from),
        to: seconds(to),
        first: seconds(first),
        last: seconds(last),
    };
    if from >= to {
        return Err(no_window(from_ns.unwrap_or(first), to_ns.unwrap_or(last)));
    }
    if from_ns.is_some_and(|wanted| wanted < from) || to_ns.is_some_and(|wanted| wanted > to) {
        notes.push("the window is longer than the trace and has been cut to it".to_owned());
    }
    let candidates = match wanted {
        Wanted::Thread(tid) => timelines.by_tid.get(tid).cloned().unwrap_or_default(),
        Wanted::Process(wanted) => threads_of(trace, timelines, process(trace, timelines, wanted)?, &mut notes),
    };
    let lived = |&thread: &Index| {
        let (born, died) = timelines.threads[thread as usize].life(trace);
        let (born, died) = (trace.time_ns(born).max(from), trace.time_ns(died).min(to));
        (born < died).then_some((died - born, thread, born, died))
    };
    let alive: Vec<_> = candidates.iter().filter_map(lived).collect();
    let Some(&(_, thread, born, died)) = alive.iter().max() else {
        return Err(match wanted {
            _ if !candidates.is_empty() => no_window(from, to),
            Wanted::Thread(tid) => TargetError::NoThread { tid: *tid, candidates: busiest(trace, timelines) },
            Wanted::Process(wanted) => {
                TargetError::NoProcess { wanted: readable(wanted), candidates: busiest(trace, timelines) }
            }
        });
    };
    if alive.len() > 1 {
        let tid = timelines.threads[thread as usize].tid;
        notes.push(format!(
            "{} threads had the number {tid} in this window; the one that lived longest is shown",
            alive.len()
        ));
    }
    let from_ns = if from_ns.is_some() { from } else { born };
    let to_ns = if to_ns.is_some() { to } else { died };
    Ok((Window { thread, from_ns, to_ns }, notes))
}

/// The process that a number or a name means.
fn process(trace: &Trace, timelines: &Timelines, wanted: &str) -> Result<Tid, TargetError> {
    if let Ok(number) = wanted.parse()
        && timelines.threads.iter().any(|thread| thread.process == number)
    {
        return Ok(number);
    }
    let processes: BTreeSet<Tid> = timelines.threads.iter().map(|thread| thread.process).collect();
    let mut found: Vec<Tid> = processes.into_iter().filter(|&process| is_called(trace, process, wanted)).collect();
    // A process that had the name until its exec is another program.
    let kept = |process: &Tid| trace.name_at(*process, u64::MAX).is_some_and(|name| is_cut(name, wanted));
    if found.iter().any(kept) {
        found.retain(kept);
    }
    match found[..] {
        [process] => Ok(process),
        [] => Err(TargetError::NoProcess { wanted: readable(wanted), candidates: busiest(trace, timelines) }),
        _ => Err(TargetError::SeveralProcesses {
            wanted: readable(wanted),
            candidates: found.iter().map(ToString::to_string).collect(),
        }),
    }
}

/// Whether a thread's name is `wanted`. Android's threads have the last 15 bytes of their package's name, others the first 15.
pub fn is_cut(name: &str, wanted: &str) -> bool {
    name == wanted || name.len() == 15 && (wanted.ends_with(name) || wanted.starts_with(name))
}

/// Whether a process had the name.
pub fn is_called(trace: &Trace, process: Tid, wanted: &str) -> bool {
    let names = trace.names.get(&process);
    let had = names.is_some_and(|names| names.iter().any(|it| is_cut(trace.symbols.text(it.name), wanted)));
    had || trace.commands.get(&process).is_some_and(|command| {
        let program = command.split(' ').next().unwrap_or(command);
        program == wanted || program.rsplit('/').next() == Some(wanted)
    })
}

/// The threads that were a process's main thread; without one the thread of it that ran most.
fn threads_of(trace: &Trace, timelines: &Timelines, process: Tid, notes: &mut Vec<String>) -> Vec<Index> {
    if let Some(main) = timelines.by_tid.get(&process) {
        return main.clone();
    }
    let all = 0..timelines.threads.len() as Index;
    let threads = all.filter(|&thread| timelines.threads[thread as usize].process == process);
    let busiest = threads.max_by_key(|&thread| ran_ns(trace, timelines, thread));
    if let Some(thread) = busiest {
        let name = timelines.name(trace, thread, trace.end_ns());
        notes.push(format!("the main thread of {process} is not in the trace; {name} is shown, which ran most"));
    }
    busiest.into_iter().collect()
}

/// How long a thread ran.
pub fn ran_ns(trace: &Trace, timelines: &Timelines, thread: Index) -> u64 {
    let transitions = &timelines.threads[thread as usize].transitions;
    let ends = transitions.iter().skip(1).map(|next| next.at).chain([trace.events.len() as u32]);
    let running = transitions.iter().zip(ends).filter(|(it, _)| matches!(it.state, State::Running { .. }));
    running.map(|(it, end)| trace.time_ns(end) - trace.time_ns(it.at)).sum()
}

/// The processes that ran most, each with its number.
pub fn busiest(trace: &Trace, timelines: &Timelines) -> Vec<String> {
    let mut ran: BTreeMap<Tid, u64> = BTreeMap::new();
    for (number, thread) in timelines.threads.iter().enumerate() {
        *ran.entry(thread.process).or_default() += ran_ns(trace, timelines, number as Index);
    }
    let mut ran: Vec<(Tid, u64)> = ran.into_iter().collect();
    ran.sort_by_key(|&(process, ns)| (std::cmp::Reverse(ns), process));
    let name = |process| trace.name_at(process, trace.end_ns()).map_or_else(|| "unnamed".to_owned(), readable);
    ran.iter().take(LISTED).map(|&(process, _)| format!("{} ({process})", name(process))).collect()
}

#[cfg(test)]
mod tests;
