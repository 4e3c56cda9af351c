//! The launches of a trace, found by themselves: by Android's slices, by first frames, by forks of the zygote, or by programs
//! that were executed. Only the first of these ways that finds any is used, as the later ones would find helpers too.

use std::collections::HashMap;
use std::time::Duration;

use brisk_base::ready::{WAITS_FOR_EVENT, WAITS_FOR_LOCK};
use serde::Serialize;

use crate::explain::Window;
use crate::model::{Kind, Leaving, Marker, MarkerKind, Symbol, Tid, Trace};
use crate::read::marker::{FRAME, INTENT};
use crate::target::{is_called, is_cut};
use crate::threads::{Index, State, Timelines, readable};

/// A second activity of the same process within this time belongs to the same launch.
const SAME_LAUNCH_NS: u64 = 5_000_000_000;

/// More launches than a recording can have; it bounds what forged markers cost.
const MAX_LAUNCHES: usize = 1000;

/// How a launch was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Found {
    /// From the intent, or the slice `launching: ...` of system_server, to the slice's end.
    Launching,
    /// From the birth of the process, or its activity's start, to the end of its first frame.
    FirstFrame,
    /// From the fork by the zygote until it waits for events.
    Zygote,
    /// From the fork until the program exits or waits for events.
    Exec,
}

/// A launch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Launch {
    pub name: String,
    pub found: Found,
    /// The process, where the trace has it.
    pub pid: Option<Tid>,
    pub from_ns: u64,
    pub to_ns: u64,
    /// Its main thread.
    #[serde(skip)]
    pub thread: Option<Index>,
}

impl Found {
    /// For users.
    pub fn words(self) -> &'static str {
        match self {
            Self::Launching => "launch of Android",
            Self::FirstFrame => "until its first frame",
            Self::Zygote => "forked by the zygote",
            Self::Exec => "executed",
        }
    }
}

impl Launch {
    /// What to explain; `None` where the trace has no such thread.
    pub fn window(&self) -> Option<Window> {
        Some(Window { thread: self.thread?, from_ns: self.from_ns, to_ns: self.to_ns })
    }
}

/// The launches, in the order in which they begin.
pub fn find(trace: &Trace, timelines: &Timelines) -> Vec<Launch> {
    let ways = [launching, first_frames, forks_of_zygote, execs];
    let mut launches = ways.iter().map(|way| way(trace, timelines)).find(|found| !found.is_empty()).unwrap_or_default();
    for launch in &mut launches {
        launch.from_ns = launch.from_ns.max(trace.start_ns());
        launch.to_ns = launch.to_ns.min(trace.end_ns());
    }
    launches.retain(|launch| launch.from_ns < launch.to_ns);
    launches.sort_by_key(|launch| launch.from_ns);
    launches
}

/// The place of the launch with this number, from 1 on, or else the first one with this name.
pub fn choose(launches: &[Launch], wanted: &str) -> Option<usize> {
    if let Some(place) = wanted.parse::<usize>().ok().and_then(|number| number.checked_sub(1)) {
        return (place < launches.len()).then_some(place);
    }
    launches.iter().position(|launch| is_cut(&launch.name, wanted))
}

/// Slices of system_server: `launching: PACKAGE`, and since Android 13 `launchingActivity#N` with the package in an instant
/// `launchingActivity#N:completed-cold:PACKAGE`.
fn launching(trace: &Trace, timelines: &Timelines) -> Vec<Launch> {
    let completed = completed(trace);
    let mut launches: Vec<Launch> = Vec::new();
    let mut intent: Option<u64> = None;
    // Since when each slice is open. One that is never closed was given up, or the trace ends before.
    let mut open: HashMap<(Tid, Symbol), u64> = HashMap::new();
    for marker in &trace.markers {
        let name = trace.symbols.text(marker.name);
        match marker.kind {
            MarkerKind::Begin if name == INTENT => intent = Some(marker.time_ns),
            MarkerKind::AsyncBegin => {
                open.insert((marker.process, marker.name), intent.take().unwrap_or(marker.time_ns));
            }
            MarkerKind::AsyncEnd if launches.len() < MAX_LAUNCHES => {
                let from_ns = open.remove(&(marker.process, marker.name));
                let package = name.strip_prefix("launching: ").or_else(|| completed.get(name).copied());
                if let (Some(from_ns), Some(package)) = (from_ns, package) {
                    launches.push(of_package(trace, timelines, package, from_ns, marker.time_ns));
                }
            }
            _ => {}
        }
    }
    launches
}

/// The package of each `launchingActivity#N` that was completed.
fn completed(trace: &Trace) -> HashMap<&str, &str> {
    let instants = trace.markers.iter().filter(|it| it.kind == MarkerKind::Instant);
    let completed = instants.filter_map(|it| {
        let (launch, rest) = trace.symbols.text(it.name).split_once(':')?;
        let (how, package) = rest.strip_prefix("completed")?.split_once(':')?;
        (how != "-same-process").then_some((launch, package))
    });
    completed.collect()
}

fn of_package(trace: &Trace, timelines: &Timelines, package: &str, from_ns: u64, to_ns: u64) -> Launch {
    let is_within = |marker: &&Marker| (from_ns..=to_ns).contains(&marker.time_ns) && marker.tid == marker.process;
    let started = trace.markers.iter().filter(is_within).filter(|it| is_start(trace, it));
    let started: Vec<Tid> = started.map(|marker| marker.process).collect();
    let alive = |&&(thread, _): &&(Index, Tid)| {
        let (born, died) = timelines.threads[thread as usize].life(trace);
        trace.time_ns(born) < to_ns && trace.time_ns(died) > from_ns
    };
    let mains: Vec<(Index, Tid)> = mains(timelines).filter(|&(_, pid)| is_called(trace, pid, package)).collect();
    let main = mains.iter().filter(alive).max_by_key(|(thread, pid)| (started.contains(pid), *thread));
    // Names can be missing; a single process that began an activity is the one.
    let only = (started.iter().min() == started.iter().max()).then(|| started.first()).flatten();
    let main = main.copied().or_else(|| self::mains(timelines).filter(|(_, pid)| Some(pid) == only).last());
    let (thread, pid) = main.unzip();
    Launch { name: readable(package), found: Found::Launching, pid, from_ns, to_ns, thread }
}

/// Whether a marker is of the start of an application or an activity.
fn is_start(trace: &Trace, marker: &Marker) -> bool {
    let name = trace.symbols.text(marker.name);
    let starts = ["bindApplication", "activityStart", "activityResume", "performCreate:"];
    marker.kind == MarkerKind::Begin && starts.iter().any(|start| name.starts_with(start))
}

/// The main threads and their processes.
fn mains(timelines: &Timelines) -> impl Iterator<Item = (Index, Tid)> {
    let threads = timelines.threads.iter().enumerate();
    threads.filter(|(_, it)| it.process == it.tid).map(|(number, it)| (number as Index, it.tid))
}

/// An activity that starts, and the first frame after it.
fn first_frames(trace: &Trace, timelines: &Timelines) -> Vec<Launch> {
    let mut launches: Vec<Launch> = Vec::new();
    let mains: HashMap<Tid, Index> = mains(timelines).map(|(thread, pid)| (pid, thread)).collect();
    // By process: since when an activity starts, and when the last launch ended.
    let mut starts: HashMap<Tid, u64> = HashMap::new();
    let mut ended: HashMap<Tid, u64> = HashMap::new();
    for marker in trace.markers.iter().filter(|marker| marker.tid == marker.process) {
        let (name, pid) = (trace.symbols.text(marker.name), marker.process);
        if is_start(trace, marker) {
            let is_same = ended.get(&pid).is_some_and(|end| marker.time_ns < end.saturating_add(SAME_LAUNCH_NS));
            if !is_same {
                starts.entry(pid).or_insert(marker.time_ns);
            }
        } else if (name == FRAME || name.starts_with("reportFullyDrawn"))
            && launches.len() < MAX_LAUNCHES
            && let Some(start) = starts.remove(&pid)
            && let Some(&thread) = mains.get(&pid)
        {
            let of = &timelines.threads[thread as usize];
            let from_ns = if of.parent.is_some() { trace.time_ns(of.life(trace).0).min(start) } else { start };
            let (name, to_ns) = (self::name(trace, pid, marker.time_ns), slice_end(trace, marker));
            let (found, thread) = (Found::FirstFrame, Some(thread));
            launches.push(Launch { name, found, pid: Some(pid), from_ns, to_ns, thread });
            ended.insert(pid, to_ns);
        }
    }
    launches
}

/// The end of the slice that begins with a marker; its beginning where the trace has no end.
fn slice_end(trace: &Trace, begin: &Marker) -> u64 {
    let first = trace.events.partition_point(|event| event.time_ns < begin.time_ns);
    let mut depth = 0_u32;
    for event in trace.events[first..].iter().filter(|event| event.tid == begin.tid) {
        match event.kind {
            Kind::SliceBegin { .. } => depth += 1,
            Kind::SliceEnd if depth == 1 => return event.time_ns,
            Kind::SliceEnd => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    begin.time_ns
}

/// Processes that the zygote forked and that were then renamed, for traces without markers.
fn forks_of_zygote(trace: &Trace, timelines: &Timelines) -> Vec<Launch> {
    let born = timelines.forks.iter().filter_map(|&(at, thread)| {
        let child = &timelines.threads[thread as usize];
        let parent = &timelines.threads[child.parent? as usize];
        let name = name(trace, child.tid, u64::MAX);
        let of_parent =
            [trace.name_at(parent.tid, trace.time_ns(at)), trace.commands.get(&parent.tid).map(String::as_str)];
        let is_zygote = of_parent.iter().flatten().any(|name| name.starts_with("zygote") || name.starts_with("usap"));
        let is_launch = child.process == child.tid && is_zygote && of_parent.iter().flatten().all(|it| *it != name);
        is_launch.then(|| (thread, child.tid, name, trace.time_ns(at)))
    });
    let launch = |(thread, pid, name, from_ns)| {
        let to_ns = ready_ns(trace, timelines, thread, from_ns);
        Launch { name, found: Found::Zygote, pid: Some(pid), from_ns, to_ns, thread: Some(thread) }
    };
    born.take(MAX_LAUNCHES).map(launch).collect()
}

/// Processes that executed a program; the last one before it is ready gives the name, as shells and wrappers execute others.
fn execs(trace: &Trace, timelines: &Timelines) -> Vec<Launch> {
    let mut launches: Vec<Launch> = Vec::new();
    let mut last: HashMap<Index, usize> = HashMap::new();
    for exec in &trace.execs {
        let is_alive = |thread: &&Index| {
            let (born, died) = timelines.threads[**thread as usize].life(trace);
            (trace.time_ns(born)..=trace.time_ns(died)).contains(&exec.time_ns)
        };
        let Some(&thread) = timelines.by_tid.get(&exec.tid).and_then(|threads| threads.iter().find(is_alive)) else {
            continue;
        };
        let name = readable(trace.symbols.text(exec.name));
        if let Some(launch) = last.get(&thread).map(|&place| &mut launches[place])
            && exec.time_ns <= launch.to_ns
        {
            launch.name = name;
            continue;
        }
        let of = &timelines.threads[thread as usize];
        let born_ns = of.parent.map(|_| trace.time_ns(of.life(trace).0));
        // A shell that has waited for other commands is not in its launch any more.
        let since_birth = born_ns.map(|from_ns| (from_ns, ready_ns(trace, timelines, thread, from_ns)));
        let since_birth = since_birth.filter(|(_, to_ns)| exec.time_ns <= *to_ns);
        let since_exec = || (exec.time_ns, ready_ns(trace, timelines, thread, exec.time_ns));
        let (from_ns, to_ns) = since_birth.unwrap_or_else(since_exec);
        last.insert(thread, launches.len());
        launches.push(Launch { name, found: Found::Exec, pid: Some(exec.tid), from_ns, to_ns, thread: Some(thread) });
    }
    launches
}

/// When the thread first waits for long after `since_ns`, or ends.
fn ready_ns(trace: &Trace, timelines: &Timelines, thread: Index, since_ns: u64) -> u64 {
    let thread = &timelines.threads[thread as usize];
    let ends = thread.transitions.iter().skip(1).map(|next| next.at).chain([trace.events.len() as u32]);
    let mut waits = thread.transitions.iter().zip(ends).filter_map(|(it, end)| {
        let State::Waiting { wait } = it.state else { return None };
        let wait = &timelines.waits[wait as usize];
        let (from_ns, to_ns) = (trace.time_ns(it.at), trace.time_ns(end));
        // A lock or a service that it needs is what its launch waits for.
        let limit = match wait.is_for_lock(trace) || wait.called.is_some() {
            true if end < trace.events.len() as u32 => Duration::MAX,
            true => WAITS_FOR_LOCK,
            false => WAITS_FOR_EVENT,
        };
        let is_idle = wait.leaving == Leaving::Sleeping && Duration::from_nanos(to_ns - from_ns) >= limit;
        (is_idle && from_ns >= since_ns).then_some(from_ns)
    });
    waits.next().unwrap_or_else(|| trace.time_ns(thread.life(trace).1))
}

/// The command of a process, or its name at a time.
fn name(trace: &Trace, pid: Tid, time_ns: u64) -> String {
    let command = trace.commands.get(&pid).and_then(|command| command.split(' ').next());
    let name = command.or_else(|| trace.name_at(pid, time_ns));
    name.map_or_else(|| format!("process {pid}"), readable)
}

#[cfg(test)]
mod tests;
