//! Thread samples from files: each thread's `schedstat` stays open, so that a sample of it is one system call.
//!
//! Threads that sleep are sampled once a second at first, then up to every four seconds, and up to once a minute while the CPUs
//! are idle. New ones are found by their numbers: /proc/loadavg shows the last number assigned, so while it is unchanged /proc
//! need not be listed. The kernel assigns a number before its thread is visible, and other tasks may run in between, so a
//! number without a thread is checked again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::{Errno, pread};

use super::tracked_thread::{TrackedThread, first_usage};
use super::{Excluded, Sample, Thread, ThreadUsage};
use crate::cpu::idle_time::IdleTime;
use crate::cpu::loadavg;
use crate::process::schedstat::{self, Schedstat};
use crate::{BootTime, DeviceError, Root, descriptors, process};

/// New threads whose files are read per sample; the rest wait for the next sample.
const NEW_IN_ONE_SAMPLE: usize = 512;
/// When more numbers were assigned than this, /proc is listed instead of checking each.
const MAX_TIDS_TO_CHECK: u32 = 4096;
/// A number without a thread in two samples is checked once more after this long: the process that forks has run by then.
const RECHECK_DELAY: Duration = Duration::from_secs(1);

/// The open files of /proc.
#[derive(Debug)]
pub(super) struct Files {
    root: Root,
    /// Numbers that may be new threads.
    pub(super) candidates: VecDeque<u32>,
    /// Numbers without a thread in the last sample.
    missing: Vec<u32>,
    /// Numbers without a thread in the sample after that as well, and when they are checked once more.
    late: VecDeque<(BootTime, u32)>,
    last_tid: Option<u32>,
    idle_time: IdleTime,
    /// Descriptors that may still be opened.
    descriptors_left: u64,
}

impl Files {
    /// For the system below `root`, where every thread may be new.
    pub(super) fn new(root: &Root) -> Self {
        Self {
            root: root.clone(),
            candidates: VecDeque::new(),
            missing: Vec::new(),
            late: VecDeque::new(),
            last_tid: None,
            idle_time: IdleTime::default(),
            descriptors_left: descriptors::raise_limit(),
        }
    }

    /// Samples the threads that are `known`, and finds new ones, at `now`, after a sample at `sampled_at`.
    ///
    /// # Errors
    /// When /proc cannot be read at all.
    pub(super) fn sample(
        &mut self,
        known: &mut BTreeMap<u32, TrackedThread>,
        (sampled_at, now): (Option<BootTime>, BootTime),
        excluded: Excluded,
        sample: &mut Sample,
    ) -> Result<(), DeviceError> {
        let has_added_all = self.candidates.is_empty();
        let are_new = self.find_candidates(known)?;
        let created_since = sampled_at.filter(|_| has_added_all && are_new);
        self.read_known(known, now, sample);
        for tid in &sample.ended {
            if known.remove(tid).is_some_and(|known| known.file.is_some()) {
                self.descriptors_left += 1;
            }
        }
        self.add_candidates(known, (created_since, now), excluded, sample);
        Ok(())
    }

    fn read_known(&mut self, known: &mut BTreeMap<u32, TrackedThread>, now: BootTime, sample: &mut Sample) {
        let are_cpus_idle = self.idle_time.are_cpus_idle(&self.root, now);
        for (&tid, known) in known.iter_mut().filter(|(_, known)| known.is_due(now, are_cpus_idle)) {
            let present = match &known.file {
                Some(file) => read(file),
                // Descriptors have run out: the file is opened for each sample of this thread, and those are rare.
                None => self.open(tid).and_then(|file| {
                    let present = read(&file);
                    known.file = self.keep(file);
                    present
                }),
            };
            match present {
                Some(present) => sample.used.extend(known.take(now, present).map(|usage| ThreadUsage { tid, usage })),
                None => sample.ended.push(tid),
            }
        }
    }

    fn open(&self, tid: u32) -> Option<OwnedFd> {
        // Threads other than the leader are not listed in /proc, but can be opened.
        File::open(self.root.path(format!("/proc/{tid}/schedstat"))).ok().map(OwnedFd::from)
    }

    /// `file`, unless descriptors have run out.
    fn keep(&mut self, file: OwnedFd) -> Option<OwnedFd> {
        let is_kept = self.descriptors_left > 0;
        self.descriptors_left -= u64::from(is_kept);
        is_kept.then_some(file)
    }

    /// Adds the numbers that were assigned since the last sample. False when older threads may be among them.
    fn find_candidates(&mut self, known: &BTreeMap<u32, TrackedThread>) -> Result<bool, DeviceError> {
        let text = self.root.read("/proc/loadavg").unwrap_or_default();
        let number = loadavg::parse(text.as_bytes()).map(|task_counts| task_counts.last_tid);
        let are_new = match (self.last_tid, number) {
            (Some(before), Some(number)) if number >= before && number - before <= MAX_TIDS_TO_CHECK => {
                self.candidates.extend(before + 1..=number);
                true
            }
            _ => {
                self.list_all(known)?;
                false
            }
        };
        self.last_tid = number;
        Ok(are_new)
    }

    fn list_all(&mut self, known: &BTreeMap<u32, TrackedThread>) -> Result<(), DeviceError> {
        let waiting: BTreeSet<u32> = self.candidates.iter().copied().collect();
        for pid in self.root.list("/proc")?.iter().filter_map(|name| name.parse::<u32>().ok()) {
            // A process that has exited has none.
            let tids = self.root.list(format!("/proc/{pid}/task")).unwrap_or_default();
            let new = |tid: &u32| !known.contains_key(tid) && !waiting.contains(tid);
            self.candidates.extend(tids.iter().filter_map(|name| name.parse().ok()).filter(new));
        }
        Ok(())
    }

    /// The usage of a thread that was certainly created after `created_since` is known from its creation on.
    fn add_candidates(
        &mut self,
        known: &mut BTreeMap<u32, TrackedThread>,
        (created_since, now): (Option<BootTime>, BootTime),
        excluded: Excluded,
        sample: &mut Sample,
    ) {
        let count = self.candidates.len().min(NEW_IN_ONE_SAMPLE);
        let new: Vec<u32> = self.candidates.drain(..count).collect();
        let missing = self.add_existing(new, known, (created_since, now), excluded, sample);
        // A thread that did not exist in the last sample has used nothing before it.
        let missing_before = std::mem::replace(&mut self.missing, missing);
        let missing = self.add_existing(missing_before, known, (created_since, now), excluded, sample);
        self.late.extend(missing.into_iter().map(|tid| (now + RECHECK_DELAY, tid)));
        let due = self.late.partition_point(|(due, _)| *due <= now);
        let late: Vec<u32> = self.late.drain(..due).map(|(_, tid)| tid).collect();
        self.add_existing(late, known, (None, now), excluded, sample);
    }

    /// Adds those of `tids` that exist and are not yet known; returns the numbers without a thread.
    fn add_existing(
        &mut self,
        tids: Vec<u32>,
        known: &mut BTreeMap<u32, TrackedThread>,
        (created_since, now): (Option<BootTime>, BootTime),
        excluded: Excluded,
        sample: &mut Sample,
    ) -> Vec<u32> {
        let mut missing = Vec::new();
        for tid in tids {
            if known.contains_key(&tid) {
                continue;
            }
            let status = self.root.read(format!("/proc/{tid}/status")).ok();
            let Some(thread) = status.and_then(|status| parse_status(tid, &status)) else {
                missing.push(tid);
                continue;
            };
            if excluded.has(thread.pid, thread.parent) {
                continue;
            }
            let Some((has, file)) = self.open_and_read(tid) else {
                missing.push(tid);
                continue;
            };
            let file = self.keep(file);
            // A new thread is awake.
            let tracked = TrackedThread::new(now, has).with_file(file);
            known.insert(tid, if created_since.is_some() { tracked.awake() } else { tracked });
            sample.born.push(thread);
            let usage = created_since.and_then(|since| first_usage(has, (since, now), || self.born_at(tid)));
            sample.used.extend(usage.map(|usage| ThreadUsage { tid, usage }));
        }
        missing
    }

    /// When thread `tid` was created; zero where that cannot be read.
    fn born_at(&self, tid: u32) -> BootTime {
        let ticks = process::start_time_ticks(&self.root, tid).unwrap_or_default();
        BootTime::from_milliseconds(ticks * process::TICK_MS)
    }

    /// The usage of thread `tid`, and its open file, if it exists.
    fn open_and_read(&self, tid: u32) -> Option<(Schedstat, OwnedFd)> {
        let file = self.open(tid)?;
        Some((read(&file)?, file))
    }
}

/// `None` when the thread has exited.
fn read(file: &OwnedFd) -> Option<Schedstat> {
    let mut text = [0u8; 80];
    loop {
        match pread(file, &mut text, 0) {
            Ok(length) => return schedstat::parse(&text[..length]),
            Err(Errno::INTR) => {}
            Err(_) => return None,
        }
    }
}

/// Parses /proc/TID/status; its lines vary by kernel.
pub fn parse_status(tid: u32, status: &str) -> Option<Thread> {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let number = |name: &str| field(name)?.parse().ok();
    let command = field("Name:").unwrap_or_default().to_owned();
    Some(Thread { tid, pid: number("Tgid:")?, parent: number("PPid:")?, command })
}
