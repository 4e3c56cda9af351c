//! What `proc_ps.log` and `taskstats.log` have in common: lives of processes, distinguished although PIDs are reused.

use std::collections::HashMap;

use crate::model::{Activity, Span, State};
use crate::read::{Limits, Notes, ReadError, lines};

/// The processes of one log, and when it was sampled.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct ProcessLog {
    /// In order of their first sample.
    pub lives: Vec<ProcessLifetime>,
    /// The time of each block.
    pub times_ms: Vec<u32>,
}

/// One life of a PID.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct ProcessLifetime {
    /// Its PID.
    pub pid: u32,
    /// The parent's PID in the first sample; a later one is that of a process that adopted it.
    pub parent_pid: u32,
    /// Its name, without brackets.
    pub name: String,
    /// When it began.
    pub start_ms: u32,
    /// When it was last seen.
    pub end_ms: u32,
    /// CPU time in the recording, in microseconds.
    pub cpu_us: u64,
    /// The largest number of threads sampled; 0 when the log does not have it.
    pub threads: u32,
    /// Its activity.
    pub activity: Vec<Activity>,
}

/// One sample of a process.
#[derive(Debug, Clone, Copy)]
pub struct ProcessSample<'a> {
    /// Its PID.
    pub pid: u32,
    /// Its parent's PID.
    pub parent_pid: u32,
    pub name: &'a [u8],
    /// CPU time since it began, in microseconds.
    pub cpu_us: u64,
    /// Its state.
    pub state: State,
    /// The number of its threads; 0 where the log does not have it.
    pub threads: u32,
    /// When it began, where the log has that. It is by the kernel's clock, which may differ from the log's.
    pub start_ms: Option<u32>,
}

/// What is needed to extend a life, and to compute its start at the end of the log.
struct LatestSample {
    first: FirstSample,
    cpu_us: u64,
    start_ms: Option<u32>,
    seen_ms: u32,
    name: Vec<u8>,
}

/// The first sample of a process.
#[derive(Clone, Copy)]
struct FirstSample {
    cpu_us: u64,
    state: State,
    seen_ms: u32,
    /// The time of the previous block, which does not contain the process; `None` in the first block.
    before_ms: Option<u32>,
}

/// Groups samples of processes into lives.
pub struct ProcessLogBuilder {
    file: String,
    limits: Limits,
    log: ProcessLog,
    latest: Vec<LatestSample>,
    by_pid: HashMap<u32, usize>,
    /// The order of processes in a block, which the next one mostly repeats.
    order: Vec<usize>,
    before: Vec<usize>,
    place: usize,
    activities: usize,
    now_ms: u32,
    before_ms: Option<u32>,
}

impl ProcessLogBuilder {
    /// An empty builder for the file of `notes`.
    pub fn new(notes: &Notes<'_>) -> Self {
        Self {
            file: notes.file.to_owned(),
            limits: *notes.limits,
            log: ProcessLog::default(),
            latest: Vec::new(),
            by_pid: HashMap::new(),
            order: Vec::new(),
            before: Vec::new(),
            place: 0,
            activities: 0,
            now_ms: 0,
            before_ms: None,
        }
    }

    /// Begins the next block.
    ///
    /// # Errors
    /// Too many blocks.
    pub fn begin_block(&mut self, time_ms: u32) -> Result<(), ReadError> {
        if self.log.times_ms.len() >= self.limits.samples {
            return Err(self.too_many("samples", self.limits.samples));
        }
        self.before_ms = self.log.times_ms.last().copied();
        self.now_ms = time_ms;
        self.log.times_ms.push(time_ms);
        std::mem::swap(&mut self.before, &mut self.order);
        self.order.clear();
        self.place = 0;
        Ok(())
    }

    /// Adds a sample of a process.
    ///
    /// # Errors
    /// Too many processes.
    pub fn add(&mut self, sample: ProcessSample<'_>) -> Result<(), ReadError> {
        let known = self.find(sample.pid);
        if let Some(index) = known {
            let latest = &self.latest[index];
            // A clock that is corrected early in a boot may shift the start by a tick.
            let is_reused_pid = match (sample.start_ms, latest.start_ms) {
                (Some(now), Some(then)) => now.abs_diff(then) > 20,
                _ => sample.cpu_us < latest.cpu_us,
            };
            if !is_reused_pid {
                // A listing of /proc may contain a process twice while other processes start and exit.
                if latest.seen_ms == self.now_ms {
                    return Ok(());
                }
                self.extend_lifetime(index, sample);
                self.order.push(index);
                self.check_activities()?;
                return Ok(());
            }
        }
        if self.log.lives.len() >= self.limits.processes {
            return Err(self.too_many("processes", self.limits.processes));
        }
        self.begin(sample);
        self.check_activities()?;
        Ok(())
    }

    /// Returns the lives.
    pub fn finish(mut self) -> ProcessLog {
        let offset_ms = clock_offset_ms(&self.latest);
        for (life, latest) in self.log.lives.iter_mut().zip(&self.latest) {
            set_start(life, latest, offset_ms);
        }
        self.log
    }

    fn too_many(&self, what: &'static str, limit: usize) -> ReadError {
        ReadError::too_many(&self.file, what, limit)
    }

    fn check_activities(&self) -> Result<(), ReadError> {
        if self.activities > self.limits.activities {
            return Err(self.too_many("changes of what processes do", self.limits.activities));
        }
        Ok(())
    }

    fn find(&mut self, pid: u32) -> Option<usize> {
        // Processes may end between two blocks, so a few entries may be skipped.
        for skip in 0..3 {
            if let Some(&index) = self.before.get(self.place + skip)
                && self.log.lives[index].pid == pid
            {
                self.place += skip + 1;
                return Some(index);
            }
        }
        self.by_pid.get(&pid).copied()
    }

    fn begin(&mut self, sample: ProcessSample<'_>) {
        let index = self.log.lives.len();
        self.log.lives.push(ProcessLifetime {
            pid: sample.pid,
            parent_pid: sample.parent_pid,
            name: text(sample.name),
            start_ms: self.now_ms,
            end_ms: self.now_ms,
            threads: sample.threads,
            ..ProcessLifetime::default()
        });
        self.extend_parent(sample);
        let ProcessSample { cpu_us, state, .. } = sample;
        let first = FirstSample { cpu_us, state, seen_ms: self.now_ms, before_ms: self.before_ms };
        let (start_ms, name) = (sample.start_ms, sample.name.to_vec());
        self.latest.push(LatestSample { first, cpu_us, start_ms, seen_ms: self.now_ms, name });
        self.by_pid.insert(sample.pid, index);
        self.order.push(index);
        self.activities += 1;
    }

    /// `taskstats.log` omits idle processes: there, a child's sample shows that its parent is alive.
    fn extend_parent(&mut self, sample: ProcessSample<'_>) {
        if sample.start_ms.is_none()
            && let Some(&parent) = self.by_pid.get(&sample.parent_pid)
        {
            self.log.lives[parent].end_ms = self.now_ms;
        }
    }

    fn extend_lifetime(&mut self, index: usize, sample: ProcessSample<'_>) {
        self.extend_parent(sample);
        let (life, latest) = (&mut self.log.lives[index], &mut self.latest[index]);
        life.threads = life.threads.max(sample.threads);
        let spent_us = sample.cpu_us.saturating_sub(latest.cpu_us);
        life.cpu_us = life.cpu_us.saturating_add(spent_us);
        life.end_ms = self.now_ms;
        let from_ms = self.before_ms.unwrap_or(self.now_ms).max(latest.seen_ms);
        push(&mut life.activity, &mut self.activities, Span::new(from_ms, self.now_ms), spent_us, sample.state);
        latest.cpu_us = sample.cpu_us;
        latest.seen_ms = self.now_ms;
        // After an exec(2), the last name is the process's.
        if latest.name != sample.name {
            latest.name.clear();
            latest.name.extend_from_slice(sample.name);
            life.name = text(sample.name);
        }
    }
}

fn push(activity: &mut Vec<Activity>, count: &mut usize, span: Span, cpu_us: u64, state: State) {
    if span.length_ms() == 0 {
        return;
    }
    let cpu_permille = permille(cpu_us, span);
    match activity.last_mut() {
        Some(last) if last.span.end_ms == span.start_ms && last.state == state && last.cpu_permille == cpu_permille => {
            last.span.end_ms = span.end_ms;
        }
        _ => {
            activity.push(Activity { span, cpu_permille, state });
            *count += 1;
        }
    }
}

/// How far the kernel's clock of starts is ahead of the log's: 0, unless the recorder wrote times since its own start. A
/// process first sampled in a block began after the previous block, by either clock.
fn clock_offset_ms(latest: &[LatestSample]) -> i64 {
    const NEAR_MS: i64 = 50;
    let began = latest.iter().filter_map(|one| Some((i64::from(one.start_ms?), one.first)));
    let mut between: Vec<(i64, i64)> = began
        .clone()
        .filter_map(|(start_ms, first)| {
            Some((start_ms - i64::from(first.seen_ms), start_ms - i64::from(first.before_ms?)))
        })
        .collect();
    let agree = |offset_ms: i64, between: &[(i64, i64)]| {
        let near = |(least_ms, most_ms): &&(i64, i64)| (least_ms - NEAR_MS..=most_ms + NEAR_MS).contains(&offset_ms);
        2 * between.iter().filter(near).count() >= between.len()
    };
    let first_block = began.filter(|(_, first)| first.before_ms.is_none());
    let in_the_future_ms = first_block.map(|(start_ms, first)| start_ms - i64::from(first.seen_ms)).max().unwrap_or(0);
    if between.is_empty() || in_the_future_ms <= NEAR_MS && agree(0, &between) {
        return if in_the_future_ms > NEAR_MS { in_the_future_ms } else { 0 };
    }
    between.sort_unstable_by_key(|(least_ms, most_ms)| least_ms + most_ms);
    let (least_ms, most_ms) = between[between.len() / 2];
    let middle_ms = least_ms.midpoint(most_ms);
    if !agree(middle_ms, &between) {
        return in_the_future_ms.max(0);
    }
    // The intersection of the intervals that agree is more exact.
    let close = between.iter().filter(|(least_ms, most_ms)| (*least_ms..=*most_ms).contains(&middle_ms));
    let (least_ms, most_ms) = close.fold((least_ms, most_ms), |(a, b), (c, d)| (a.max(*c), b.min(*d)));
    least_ms.midpoint(most_ms)
}

/// Sets when a life began, by the log's clock, and its activity until its first sample.
fn set_start(life: &mut ProcessLifetime, latest: &LatestSample, offset_ms: i64) {
    const TICK_MS: u32 = 10;
    let FirstSample { cpu_us, state, seen_ms, before_ms } = latest.first;
    let by_log = |start_ms: u32| u32::try_from((i64::from(start_ms) - offset_ms).max(0)).unwrap_or(u32::MAX);
    let start_ms = latest.start_ms.map_or(before_ms.unwrap_or(seen_ms), by_log).min(seen_ms);
    life.start_ms = start_ms;
    // The CPU time of a process from before the recording has no known time; that of a new process has.
    let Some(before_ms) = before_ms else { return };
    // An estimated offset is not exact.
    let tolerance_ms = if offset_ms == 0 { 2 * TICK_MS } else { seen_ms - before_ms };
    if start_ms + tolerance_ms < before_ms {
        return;
    }
    life.cpu_us = life.cpu_us.saturating_add(cpu_us);
    let from_ms = start_ms.max(before_ms).min(seen_ms.saturating_sub(TICK_MS)).max(before_ms);
    life.start_ms = start_ms.min(from_ms);
    let span = Span::new(from_ms, seen_ms);
    if span.length_ms() == 0 {
        return;
    }
    let cpu_permille = permille(cpu_us, span);
    match life.activity.first_mut() {
        Some(next) if next.span.start_ms == seen_ms && next.state == state && next.cpu_permille == cpu_permille => {
            next.span.start_ms = from_ms;
        }
        _ => life.activity.insert(0, Activity { span, cpu_permille, state }),
    }
}

fn permille(cpu_us: u64, span: Span) -> u16 {
    u16::try_from(cpu_us / u64::from(span.length_ms())).unwrap_or(u16::MAX)
}

/// A process's name as printable text.
fn text(name: &[u8]) -> String {
    const NAME_LIMIT_BYTES: usize = 256;
    lines::text(&name[..name.len().min(NAME_LIMIT_BYTES)])
}
