//! The parts of a window: how long each cause took, exactly.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::model::{NICE_0, REAL_TIME_BELOW, Symbol, Tid, Trace};
use crate::path::{self, Behind, Piece, Reason, What};
use crate::threads::{Timelines, readable};

/// What the time went into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// Running: what the work takes at the highest frequency of the fastest CPU.
    FullSpeed,
    /// Running: what a lower frequency than the CPU's highest adds.
    Frequency,
    /// Running: what a CPU with a lower highest frequency than the fastest one's adds.
    SmallerCore,
    /// Running at a frequency that the trace does not tell.
    Running,
    /// Runnable, while another thread ran.
    Runnable,
    /// Runnable, while the CPU was idle.
    IdleExit,
    Storage,
    PageFault,
    SwapIn,
    Reclaim,
    Binder,
    Lock,
    Uninterruptible,
    Sleeping,
    Stopped,
    Absent,
    Unknown,
}

/// On whose behalf another thread is on the path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct OnBehalf {
    /// `binder`, `service-lookup`, `lock`, `wake`, or `fork` for the time before its birth.
    pub wait: &'static str,
    /// The process that was called, or the thread that held the lock, ended the wait or forked it.
    pub of: String,
}

impl OnBehalf {
    /// Whether servicemanager was asked for a service.
    pub fn is_service_lookup(&self) -> bool {
        self.wait == SERVICE_LOOKUP
    }
}

/// [`OnBehalf::wait`] of a service lookup.
const SERVICE_LOOKUP: &str = "service-lookup";

/// A part of the window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Part {
    pub cause: Cause,
    /// The thread that ran, the device with the file where it is known, the CPU, or the function of the kernel.
    pub subject: Option<String>,
    /// The scheduling class of a thread that ran meanwhile, where it is not the usual one: `real-time` or `nice 10`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// `None` for the thread that was asked about.
    pub on_behalf: Option<OnBehalf>,
    pub ns: u64,
    /// How many separate pieces of the path it has.
    pub times: u64,
}

impl Part {
    /// The subject with its class.
    pub fn full_subject(&self) -> Option<String> {
        let subject = self.subject.as_deref()?;
        Some(self.class.as_ref().map_or_else(|| subject.to_owned(), |class| format!("{subject} ({class})")))
    }
}

/// A window of one thread, explained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    pub thread: String,
    pub tid: Tid,
    pub process: Tid,
    pub from_ns: u64,
    pub to_ns: u64,
    /// The longest first. Their sum is the window.
    pub parts: Vec<Part>,
    /// In the order of time.
    pub path: Vec<Step>,
    /// How many waits of the thread each [`OnBehalf`] has.
    pub waits: BTreeMap<OnBehalf, u64>,
}

/// A step of the path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub from_ns: u64,
    pub to_ns: u64,
    pub thread: String,
    pub tid: Tid,
    /// Where it ran or was runnable.
    pub cpu: Option<u16>,
    pub khz: Option<u32>,
    /// Indices of [`Explanation::parts`] with nanoseconds: a slowed run has several.
    pub shares: Vec<(usize, u64)>,
}

/// What is asked about: a thread of [`Timelines::threads`], within the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    pub thread: u32,
    pub from_ns: u64,
    pub to_ns: u64,
}

/// The subject of a part, and its class.
type Subject = (Option<String>, Option<String>);
type Key = (Option<OnBehalf>, Cause, Subject);

/// Splits the window into its parts.
pub fn explain(trace: &Trace, timelines: &Timelines, window: Window) -> Explanation {
    let pieces = path::walk(trace, timelines, window.thread, window.from_ns, window.to_ns);
    let mut sums =
        Sums { trace, timelines, fastest_khz: fastest_khz(timelines), parts: Vec::new(), by_key: BTreeMap::new() };
    let mut waits: BTreeMap<OnBehalf, u64> = BTreeMap::new();
    let (mut steps, mut last_wait) = (Vec::with_capacity(pieces.len()), None);
    for piece in &pieces {
        let on_behalf = sums.on_behalf(piece);
        let shares = sums.shares(piece, on_behalf.as_ref());
        let wait = piece.via.map(|via| via.ended);
        if let Some(on_behalf) = on_behalf.filter(|_| wait != last_wait) {
            *waits.entry(on_behalf).or_default() += 1;
        }
        last_wait = wait;
        steps.push(sums.step(piece, shares));
    }
    let thread = &timelines.threads[window.thread as usize];
    let mut explanation = Explanation {
        thread: timelines.name(trace, window.thread, window.to_ns),
        tid: thread.tid,
        process: thread.process,
        from_ns: window.from_ns,
        to_ns: window.to_ns,
        parts: sums.parts,
        path: steps,
        waits,
    };
    sort(&mut explanation);
    explanation
}

/// The longest part first; the steps keep naming theirs.
fn sort(explanation: &mut Explanation) {
    let mut order: Vec<usize> = (0..explanation.parts.len()).collect();
    order.sort_by_key(|&number| std::cmp::Reverse(explanation.parts[number].ns));
    let mut places = vec![0; order.len()];
    for (place, &number) in order.iter().enumerate() {
        places[number] = place;
    }
    explanation.parts = order.iter().map(|&number| explanation.parts[number].clone()).collect();
    for step in &mut explanation.path {
        step.shares.iter_mut().for_each(|(number, _)| *number = places[*number]);
    }
}

fn fastest_khz(timelines: &Timelines) -> u32 {
    timelines.cpus.iter().map(|cpu| cpu.highest_khz).max().unwrap_or(0)
}

struct Sums<'t> {
    trace: &'t Trace,
    timelines: &'t Timelines,
    fastest_khz: u32,
    parts: Vec<Part>,
    by_key: BTreeMap<Key, usize>,
}

impl Sums<'_> {
    fn on_behalf(&self, piece: &Piece) -> Option<OnBehalf> {
        let via = piece.via?;
        let name = |thread| self.timelines.name(self.trace, thread, piece.to_ns);
        Some(match via.reason {
            Reason::Binder(process) => {
                let of = self.process(process, piece.to_ns);
                OnBehalf { wait: if is_service_manager(&of) { SERVICE_LOOKUP } else { "binder" }, of }
            }
            Reason::Lock => OnBehalf { wait: "lock", of: name(via.by) },
            Reason::Wake => OnBehalf { wait: "wake", of: name(via.by) },
            Reason::Fork => OnBehalf { wait: "fork", of: name(via.by) },
        })
    }

    fn class(&self, thread: u32, time_ns: u64) -> Option<String> {
        match self.trace.priority_at(self.timelines.threads[thread as usize].tid, time_ns) {
            NICE_0 => None,
            ..REAL_TIME_BELOW => Some("real-time".to_owned()),
            priority => Some(format!("nice {}", i32::from(priority) - i32::from(NICE_0))),
        }
    }

    fn process(&self, process: Tid, time_ns: u64) -> String {
        let name = self.trace.name_at(process, time_ns).map(readable);
        name.unwrap_or_else(|| format!("process {process}"))
    }

    /// Adds the piece to its parts.
    fn shares(&mut self, piece: &Piece, on_behalf: Option<&OnBehalf>) -> Vec<(usize, u64)> {
        let ns = piece.to_ns - piece.from_ns;
        let device = |device: Option<u32>, file: Option<Symbol>| {
            let device = device.map(|device| format!("{},{}", device >> 20, device & 0xf_ffff));
            let Some(file) = file.map(|file| readable(self.trace.symbols.text(file))) else { return device };
            Some(format!("{}, {file}", device.as_deref().unwrap_or("unknown")))
        };
        let (cause, subject) = match piece.what {
            What::Running { cpu, khz } => return self.running(ns, cpu, khz, on_behalf),
            What::Runnable { behind: Behind::Idle, .. } => (Cause::IdleExit, None),
            What::Runnable { behind: Behind::Thread(thread), .. } => {
                let subject = Some(self.timelines.name(self.trace, thread, piece.from_ns));
                let subject = (subject, self.class(thread, piece.from_ns));
                return vec![(self.add(Cause::Runnable, subject, on_behalf, ns), ns)];
            }
            What::Runnable { behind: Behind::Unknown, .. } => (Cause::Runnable, None),
            What::Storage { device: number, file } => (Cause::Storage, device(number, file)),
            What::PageFault { device: number, file, is_swap: false } => (Cause::PageFault, device(number, file)),
            What::PageFault { device: number, is_swap: true, .. } => (Cause::SwapIn, device(number, None)),
            What::Reclaim => (Cause::Reclaim, None),
            What::Binder { process } => (Cause::Binder, Some(self.process(process, piece.to_ns))),
            What::Lock => (Cause::Lock, None),
            What::Uninterruptible { function } => {
                (Cause::Uninterruptible, function.map(|function| readable(self.trace.symbols.text(function))))
            }
            What::Sleeping => (Cause::Sleeping, None),
            What::Stopped => (Cause::Stopped, None),
            What::Absent => (Cause::Absent, None),
            What::Unknown => (Cause::Unknown, None),
        };
        vec![(self.add(cause, (subject, None), on_behalf, ns), ns)]
    }

    /// Splits a run by its speed. Each share is a difference of rounded times, so that they add up to the run.
    fn running(&mut self, ns: u64, cpu: u16, khz: Option<u32>, on_behalf: Option<&OnBehalf>) -> Vec<(usize, u64)> {
        let highest_khz = self.timelines.cpus.get(cpu as usize).map_or(0, |cpu| cpu.highest_khz);
        let Some(khz) = khz.filter(|_| highest_khz > 0) else {
            return vec![(self.add(Cause::Running, (None, None), on_behalf, ns), ns)];
        };
        let at = |highest_khz: u32| (u128::from(ns) * u128::from(khz) / u128::from(highest_khz)) as u64;
        let (own, fastest) = (at(highest_khz), at(self.fastest_khz));
        let name = Some(format!("CPU {cpu}"));
        let shares = [
            (Cause::FullSpeed, None, fastest),
            (Cause::Frequency, name.clone(), ns - own),
            (Cause::SmallerCore, name, own - fastest),
        ];
        let shares = shares.into_iter().filter(|(_, _, ns)| *ns > 0);
        shares.map(|(cause, subject, ns)| (self.add(cause, (subject, None), on_behalf, ns), ns)).collect()
    }

    fn add(&mut self, cause: Cause, subject: Subject, on_behalf: Option<&OnBehalf>, ns: u64) -> usize {
        let key = (on_behalf.cloned(), cause, subject);
        let number = match self.by_key.get(&key) {
            Some(&number) => number,
            None => {
                let number = self.parts.len();
                let (on_behalf, cause, (subject, class)) = key.clone();
                self.parts.push(Part { cause, subject, class, on_behalf, ns: 0, times: 0 });
                self.by_key.insert(key, number);
                number
            }
        };
        self.parts[number].ns += ns;
        self.parts[number].times += 1;
        number
    }

    fn step(&self, piece: &Piece, shares: Vec<(usize, u64)>) -> Step {
        let (cpu, khz) = match piece.what {
            What::Running { cpu, khz } => (Some(cpu), khz),
            What::Runnable { cpu, .. } => (Some(cpu), None),
            _ => (None, None),
        };
        Step {
            from_ns: piece.from_ns,
            to_ns: piece.to_ns,
            thread: self.timelines.name(self.trace, piece.thread, piece.to_ns),
            tid: self.timelines.threads[piece.thread as usize].tid,
            cpu,
            khz,
            shares,
        }
    }
}

/// Calls to these are lookups of services: Android's, and rsbinder's for Linux.
fn is_service_manager(name: &str) -> bool {
    ["servicemanager", "hwservicemanager", "vndservicemanager", "vndservicemanag", "rsb_hub"].contains(&name)
}

#[cfg(test)]
mod tests;
