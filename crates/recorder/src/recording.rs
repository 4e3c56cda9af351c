//! One recording: an instance of the kernel's tracing, read into a file.

use std::fs;
use std::io::{self, BufRead as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use brisk_sys::cpu::cpufreq::Policies;
use brisk_sys::system::trace_events::{TraceInstance, tracefs};
use brisk_sys::system::trace_pages::{self, CpuPages, PageLayout};
use brisk_sys::{BootTime, DeviceError, Root};

use crate::file::TraceFile;
use crate::header::{self, Parts};
use crate::memory_counts::MemoryCounts;
use crate::memory_facts;
use crate::programs::LockWait;

/// What explanations need. System calls and page faults are left out: their events cost too much.
pub const EVENTS: [&str; 22] = [
    "sched/sched_switch",
    "sched/sched_waking",
    "sched/sched_wakeup_new",
    "sched/sched_migrate_task",
    "sched/sched_blocked_reason",
    "sched/sched_process_fork",
    "sched/sched_process_exec",
    "sched/sched_process_exit",
    "task/task_newtask",
    "task/task_rename",
    "power/cpu_frequency",
    "power/cpu_frequency_limits",
    "power/cpu_idle",
    "binder/binder_transaction",
    "binder/binder_transaction_received",
    "vmscan/mm_vmscan_direct_reclaim_begin",
    "vmscan/mm_vmscan_direct_reclaim_end",
    "block/block_rq_insert",
    "block/block_rq_issue",
    "block/block_rq_complete",
    "lock/contention_begin",
    "lock/contention_end",
];
/// Without it a trace explains nothing.
const NEEDED: &str = EVENTS[0];
/// Its events name functions by their addresses.
const BLOCKED_REASON: &str = EVENTS[4];
/// The best first: time since boot goes on during a suspend, as brisk's other times do.
const CLOCKS: [&str; 3] = ["boot", "mono", "global"];
const BUFFER_PAGES: usize = 16;

/// Why nothing, or no more, is recorded.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// There is no tracefs.
    #[error(
        "there is no tracefs at {place}: mount it (mount -t tracefs tracefs {place}); where that is refused, the kernel lacks \
         CONFIG_TRACING"
    )]
    NoTracefs {
        /// Where it should be.
        place: &'static str,
    },
    /// The kernel refused.
    #[error("{}", .0.with_advice())]
    Device(#[from] DeviceError),
    /// An event that the user named, or sched_switch, is missing.
    #[error("this kernel has no event {event}: /sys/kernel/tracing/available_events lists those that it has")]
    NoEvent {
        /// As `SUBSYSTEM/EVENT`.
        event: String,
    },
    /// The file cannot be written.
    #[error("cannot write {}: {cause}; {}", path.display(), advice(cause))]
    File {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        cause: io::Error,
    },
}

impl RecordError {
    /// Why no instance of tracing can be made below `root`: it was refused with `error`.
    pub fn of_instance(root: &Root, error: DeviceError) -> Self {
        let place = tracefs(root);
        if error.is_missing() && !root.is_folder(format!("{place}/instances")) {
            return Self::NoTracefs { place };
        }
        error.into()
    }
}

fn advice(cause: &io::Error) -> &'static str {
    match Errno::from_io_error(cause) {
        Some(Errno::NOSPC | Errno::DQUOT) => "free space there; what was recorded until then can be read",
        _ => "name another place by --output",
    }
}

/// What is recorded, and where.
#[derive(Debug, Clone)]
pub struct Options {
    pub output: PathBuf,
    /// The kernel's buffer for each CPU; it is smaller where the kernel lacks memory.
    pub buffer_kib: u32,
    /// The largest size of all events in the file.
    pub limit_mib: u32,
    /// Events besides [`EVENTS`].
    pub events: Vec<String>,
}

/// What was recorded.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    pub file: PathBuf,
    pub file_bytes: u64,
    pub seconds: f64,
    pub cpus: usize,
    /// The clock of the events' times, as the kernel calls it.
    pub clock: String,
    /// The kernel's buffer for each CPU.
    pub buffer_kib: u32,
    pub events: u64,
    /// Overwritten in the kernel's buffer, or dropped, before they were read.
    pub lost_events: u64,
    /// Events that this kernel does not have.
    pub missing: Vec<String>,
    /// True when the file's limit ended the recording.
    pub is_full: bool,
    /// The CPU time of this process while it recorded, in seconds; not what the events cost other processes.
    pub own_cpu_seconds: f64,
}

/// A recording that runs; it ends when this value is dropped, and the instance is removed.
#[derive(Debug)]
pub struct Recording {
    // The kernel removes no instance whose pages are open: these are dropped first.
    pages: Vec<CpuPages>,
    instance: TraceInstance,
    root: Root,
    layout: PageLayout,
    file: TraceFile,
    buffer: Vec<u8>,
    path: PathBuf,
    clock: String,
    missing: Vec<String>,
    memory: MemoryCounts,
    began: BootTime,
    cpu_time_before: Duration,
}

impl Recording {
    /// Removes what a killed recorder left, and begins.
    ///
    /// # Errors
    /// Without tracefs, without the right to it, without sched_switch or an event of `options`, and when the file cannot be created.
    pub fn start(root: &Root, options: &Options) -> Result<Self, RecordError> {
        trace_pages::remove_stale(root);
        let name = trace_pages::own_instance(root);
        let instance = TraceInstance::make(root, &name, &CLOCKS, options.buffer_kib)
            .map_err(|error| RecordError::of_instance(root, error))?;
        instance.switch(false)?;
        let (enabled, missing) = enable(&instance, &options.events)?;
        let folder = instance.folder();
        let parts = parts(root, folder, &enabled)?;
        let layout = trace_pages::page_layout(&parts.page)
            .ok_or_else(|| DeviceError::malformed(&root.path(folder), "the layout of a page", &parts.page))?;
        let pages = trace_pages::open(root, folder)?;
        // The file has CPUs without gaps.
        let cpus = pages.last().map_or(0, |last| last.cpu + 1);
        let path = options.output.clone();
        let header = header::lay_out(&parts, layout, cpus);
        let limit_bytes = u64::from(options.limit_mib) << 20;
        let file = TraceFile::create(&path, header, cpus, layout.page_bytes, limit_bytes)
            .map_err(|cause| RecordError::File { path: path.clone(), cause })?;
        let clock = chosen_clock(&parts.clock).to_owned();
        let buffer = vec![0; layout.page_bytes * BUFFER_PAGES];
        // Reading all processes is not recorded.
        let memory_facts = memory_facts::notes(root);
        instance.switch(true)?;
        memory_facts.iter().for_each(|text| note(root, instance.folder(), text));
        note_frequencies(root, instance.folder());
        let (began, cpu_time_before) = (BootTime::now(), own_cpu_time());
        let (root, memory) = (root.clone(), MemoryCounts::default());
        Ok(Self { pages, instance, root, layout, file, buffer, path, clock, missing, memory, began, cpu_time_before })
    }

    /// Writes what the kernel has recorded since the last call; false when the file is full. The more seldom it is called, the
    /// less it costs, and the more the kernel's buffer must hold.
    ///
    /// # Errors
    /// When the kernel's pages cannot be read or the file not be written.
    pub fn drain(&mut self) -> Result<bool, RecordError> {
        self.note_memory();
        for pages in &mut self.pages {
            loop {
                let read = pages.read(&mut self.buffer, self.layout.page_bytes)?;
                if read > 0 {
                    let written = self.file.append(pages.cpu, &self.buffer[..read]);
                    written.map_err(|cause| RecordError::File { path: self.path.clone(), cause })?;
                }
                // What this process itself causes meanwhile waits for the next time.
                if read < self.buffer.len() || self.file.is_full() {
                    break;
                }
            }
        }
        Ok(!self.file.is_full())
    }

    /// Notes what a thread waits for, in the words of Android's event `sched_blocked_reason`, which tells of uninterruptible waits
    /// only.
    pub(crate) fn note_lock_wait(&self, wait: &LockWait) {
        let LockWait { pid, function } = wait;
        note(
            &self.root,
            self.instance.folder(),
            &format!("sched_blocked_reason: pid={pid} iowait=0 caller={function}"),
        );
    }

    fn note_memory(&mut self) {
        for text in self.memory.changes(&self.root) {
            note(&self.root, self.instance.folder(), &text);
        }
    }

    /// Ends the recording, and completes the file.
    ///
    /// # Errors
    /// As [`Recording::drain`].
    pub fn finish(mut self) -> Result<Summary, RecordError> {
        self.note_memory();
        memory_facts::notes(&self.root).iter().for_each(|text| note(&self.root, self.instance.folder(), text));
        self.instance.switch(false)?;
        let seconds = BootTime::now().since(self.began).as_secs_f64();
        let is_full = !self.drain()?;
        let own_cpu_seconds = own_cpu_time().saturating_sub(self.cpu_time_before).as_secs_f64();
        let Self { pages, instance, root, file, path, clock, missing, .. } = self;
        let numbers: Vec<u16> = pages.iter().map(|pages| pages.cpu).collect();
        let tally = trace_pages::tally(&root, instance.folder(), numbers);
        let names = root.read(format!("{}/saved_cmdlines", tracefs(&root))).unwrap_or_default() + "\n";
        let (cpus, buffer_kib) = (pages.len(), instance.buffer_kib());
        drop(pages);
        drop(instance);
        let file_bytes = file.finish(&names).map_err(|cause| RecordError::File { path: path.clone(), cause })?;
        Ok(Summary {
            file: path,
            file_bytes,
            seconds,
            cpus,
            clock,
            buffer_kib,
            events: tally.read,
            lost_events: tally.lost,
            missing,
            is_full,
            own_cpu_seconds,
        })
    }
}

/// Notes each CPU's frequency and its limits in the recording, in the words of the kernel's events, which come with changes only. It
/// must record already: of a change meanwhile there is an event before the note, which then does not count.
fn note_frequencies(root: &Root, folder: &str) {
    let note = |text: &str| note(root, folder, text);
    for policy in Policies::read(root).list {
        let now = root.read(policy.folder.join("scaling_cur_freq"));
        for cpu in &policy.cpus {
            if let (Some(min), Some(max)) = (policy.minimum_khz, policy.maximum_khz) {
                note(&format!("cpu_frequency_limits: min={min} max={max} cpu_id={cpu}"));
            }
            if let Ok(khz) = &now {
                note(&format!("cpu_frequency: state={khz} cpu_id={cpu}"));
            }
        }
    }
}

/// Writes a marker; without it there is only less to explain.
fn note(root: &Root, folder: &str, text: &str) {
    let _ = root.write(format!("{folder}/trace_marker"), text);
}

fn own_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Enables [`EVENTS`] and `more`; returns those that are enabled, and those that this kernel does not have.
fn enable(instance: &TraceInstance, more: &[String]) -> Result<(Vec<String>, Vec<String>), RecordError> {
    let (mut enabled, mut missing) = (Vec::new(), Vec::new());
    let events = EVENTS.into_iter().map(|event| (event, event == NEEDED));
    for (event, is_needed) in events.chain(more.iter().map(|event| (event.as_str(), true))) {
        match instance.enable(event, "") {
            Ok(()) => enabled.push(event.to_owned()),
            Err(error) if error.is_missing() && is_needed => {
                return Err(RecordError::NoEvent { event: event.to_owned() });
            }
            Err(error) if error.is_missing() => missing.push(event.to_owned()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok((enabled, missing))
}

/// What readers need to know of the instance `folder` with these events.
fn parts(root: &Root, folder: &str, enabled: &[String]) -> Result<Parts, DeviceError> {
    // Reading drops the last line's end.
    let text = |file: &str| root.read(format!("{folder}/{file}")).map(|text| text + "\n");
    let mut formats: Vec<(String, Vec<String>)> = Vec::new();
    for event in enabled {
        let format = text(&format!("events/{event}/format"))?;
        let subsystem = event.split('/').next().unwrap_or_default();
        match formats.iter_mut().find(|(name, _)| name == subsystem) {
            Some((_, formats)) => formats.push(format),
            None => formats.push((subsystem.to_owned(), vec![format])),
        }
    }
    let functions = match enabled.iter().any(|event| event == BLOCKED_REASON) {
        true => functions(&root.path("/proc/kallsyms")),
        false => Vec::new(),
    };
    Ok(Parts {
        page: text("events/header_page")?,
        event: text("events/header_event")?,
        print: root.read(format!("{}/events/ftrace/print/format", tracefs(root))).unwrap_or_default(),
        formats,
        functions,
        clock: root.read(format!("{folder}/trace_clock"))?,
    })
}

/// The lines of functions in `/proc/kallsyms`, without those of data; nothing where this user may not see addresses.
fn functions(path: &Path) -> Vec<u8> {
    let mut functions = Vec::new();
    let Ok(file) = fs::File::open(path) else { return functions };
    for line in io::BufReader::new(file).split(b'\n').map_while(Result::ok) {
        let mut words = line.split(|byte| *byte == b' ');
        let (address, kind) = (words.next().unwrap_or_default(), words.next());
        let is_hidden = address.iter().all(|digit| *digit == b'0');
        if !is_hidden && matches!(kind, Some(b"t" | b"T" | b"w" | b"W")) {
            functions.extend(line);
            functions.push(b'\n');
        }
    }
    functions
}

/// The word in brackets.
fn chosen_clock(text: &str) -> &str {
    text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or(text, |(clock, _)| clock)
}

#[cfg(test)]
mod tests;
