//! The launches of a trace, found by themselves: by Android's slices, by first frames, by forks of the zygote, or by programs
//! that were executed. Only the first of these ways that finds any is used, as the later ones would find helpers too.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::explain::Window;
use crate::model::{Kind, Leaving, Marker, MarkerKind, Tid, Trace};
use crate::read::marker::FRAME;
use crate::target::{is_called, is_cut};
use crate::threads::{Index, State, Timelines, readable};

/// A program that waits this long for an event is ready: no other event ends the launch of a command.
const READY_NS: u64 = 200_000_000;
/// A second activity of the same process within this time belongs to the same launch.
const SAME_LAUNCH_NS: u64 = 5_000_000_000;

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
    let text = |marker: &Marker| trace.symbols.text(marker.name);
    let mut launches: Vec<Launch> = Vec::new();
    let mut intent: Option<u64> = None;
    for (number, begin) in trace.markers.iter().enumerate() {
        let name = text(begin);
        if begin.kind == MarkerKind::Begin && name.starts_with("MetricsLogger:launchObserverNotifyIntentStarted") {
            intent = Some(begin.time_ns);
        }
        if begin.kind != MarkerKind::AsyncBegin {
            continue;
        }
        let later = &trace.markers[number + 1..];
        let is_end =
            |it: &&Marker| it.kind == MarkerKind::AsyncEnd && it.name == begin.name && it.process == begin.process;
        let end = later.iter().find(is_end);
        let package = match name.strip_prefix("launching: ") {
            Some(package) => Some(package),
            None => completed(trace, later, name),
        };
        let since = intent.take();
        // One without an end was given up, or the trace ends before it.
        if let (Some(end), Some(package)) = (end, package) {
            let from_ns = since.unwrap_or(begin.time_ns);
            launches.push(of_package(trace, timelines, package, from_ns, end.time_ns));
        }
    }
    launches
}

/// The package of `launchingActivity#N`, where the launch was completed.
fn completed<'t>(trace: &'t Trace, later: &[Marker], name: &str) -> Option<&'t str> {
    later.iter().filter(|it| it.kind == MarkerKind::Instant).find_map(|it| {
        let (how, package) =
            trace.symbols.text(it.name).strip_prefix(name)?.strip_prefix(":completed")?.split_once(':')?;
        (how != "-same-process").then_some(package)
    })
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
    for (number, start) in trace.markers.iter().enumerate() {
        let is_known = launches.iter().any(|launch| {
            launch.pid == Some(start.process) && start.time_ns < launch.to_ns.saturating_add(SAME_LAUNCH_NS)
        });
        if start.tid != start.process || !is_start(trace, start) || is_known {
            continue;
        }
        let Some((thread, pid)) = mains(timelines).filter(|(_, pid)| *pid == start.process).last() else { continue };
        let is_frame = |it: &&Marker| {
            let name = trace.symbols.text(it.name);
            it.tid == start.tid && (name == FRAME || name.starts_with("reportFullyDrawn"))
        };
        let Some(frame) = trace.markers[number..].iter().find(is_frame) else { continue };
        let born = trace.time_ns(timelines.threads[thread as usize].life(trace).0);
        let is_cold = timelines.threads[thread as usize].parent.is_some();
        let from_ns = if is_cold { born.min(start.time_ns) } else { start.time_ns };
        let name = name(trace, pid, frame.time_ns);
        let to_ns = slice_end(trace, frame);
        launches.push(Launch { name, found: Found::FirstFrame, pid: Some(pid), from_ns, to_ns, thread: Some(thread) });
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
        let to_ns = ready_ns(trace, timelines, thread);
        Launch { name, found: Found::Zygote, pid: Some(pid), from_ns, to_ns, thread: Some(thread) }
    };
    born.map(launch).collect()
}

/// Processes that executed a program; the last one gives the name, as shells and wrappers execute others.
fn execs(trace: &Trace, timelines: &Timelines) -> Vec<Launch> {
    let mut launches: BTreeMap<Index, Launch> = BTreeMap::new();
    for exec in &trace.execs {
        let is_alive = |thread: &&Index| {
            let (born, died) = timelines.threads[**thread as usize].life(trace);
            (trace.time_ns(born)..=trace.time_ns(died)).contains(&exec.time_ns)
        };
        let Some(&thread) = timelines.by_tid.get(&exec.tid).and_then(|threads| threads.iter().find(is_alive)) else {
            continue;
        };
        let name = readable(trace.symbols.text(exec.name));
        let of = &timelines.threads[thread as usize];
        let from_ns = if of.parent.is_some() { trace.time_ns(of.life(trace).0) } else { exec.time_ns };
        let to_ns = ready_ns(trace, timelines, thread);
        let launch = Launch {
            name: name.clone(),
            found: Found::Exec,
            pid: Some(exec.tid),
            from_ns,
            to_ns,
            thread: Some(thread),
        };
        launches.entry(thread).or_insert(launch).name = name;
    }
    launches.into_values().collect()
}

/// When the thread first waits for long, or ends.
fn ready_ns(trace: &Trace, timelines: &Timelines, thread: Index) -> u64 {
    let thread = &timelines.threads[thread as usize];
    let ends = thread.transitions.iter().skip(1).map(|next| next.at).chain([trace.events.len() as u32]);
    let mut waits = thread.transitions.iter().zip(ends).filter_map(|(it, end)| {
        let State::Waiting { wait } = it.state else { return None };
        let is_idle = timelines.waits[wait as usize].leaving == Leaving::Sleeping;
        let (from_ns, to_ns) = (trace.time_ns(it.at), trace.time_ns(end));
        (is_idle && to_ns - from_ns >= READY_NS).then_some(from_ns)
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
