//! What `proc_ps.log` and `taskstats.log` have in common: lives of processes, told apart though PIDs come again.

use std::collections::HashMap;

use super::{Limits, Notes, ReadError};
use crate::chart::model::{Activity, Span, State};

/// The processes of one log, and when it was sampled.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct ProcessLog {
    /// In the order of their first sight.
    pub lives: Vec<Life>,
    /// The time of each block.
    pub times_ms: Vec<u32>,
}

/// One life of a PID.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Life {
    /// Its number.
    pub pid: u32,
    /// Its parent's at first sight; later ones are only who has adopted it.
    pub parent_pid: u32,
    /// Its name, without brackets.
    pub name: String,
    /// When it began.
    pub start_ms: u32,
    /// When it was last seen.
    pub end_ms: u32,
    /// CPU time in the recording, in microseconds.
    pub cpu_us: u64,
    /// What it did.
    pub activity: Vec<Activity>,
}

/// One sight of a process.
#[derive(Debug, Clone, Copy)]
pub struct Sight<'a> {
    /// Its number.
    pub pid: u32,
    /// Its parent's.
    pub parent_pid: u32,
    /// Its name.
    pub name: &'a [u8],
    /// CPU time since it began, in microseconds.
    pub cpu_us: u64,
    /// What it does.
    pub state: State,
    /// When it began, where the log says so.
    pub start_ms: Option<u32>,
}

/// What is needed of a life to add to it.
struct Latest {
    cpu_us: u64,
    start_ms: Option<u32>,
    seen_ms: u32,
    name: Vec<u8>,
}

/// Gathers sights into lives.
pub struct Gatherer {
    file: String,
    limits: Limits,
    log: ProcessLog,
    latest: Vec<Latest>,
    by_pid: HashMap<u32, usize>,
    /// The order of the last block, which the next one mostly repeats.
    order: Vec<usize>,
    before: Vec<usize>,
    place: usize,
    activities: usize,
    now_ms: u32,
    before_ms: Option<u32>,
}

impl Gatherer {
    /// With nothing yet of the file that `notes` are about.
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

    /// The next block.
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

    /// Adds a sight.
    ///
    /// # Errors
    /// Too many processes.
    pub fn add(&mut self, sight: Sight<'_>) -> Result<(), ReadError> {
        let known = self.find(sight.pid);
        if let Some(index) = known {
            let latest = &self.latest[index];
            // A clock that is corrected early in a boot may shift the start by a tick.
            let began_again = match (sight.start_ms, latest.start_ms) {
                (Some(now), Some(then)) => now.abs_diff(then) > 20,
                _ => sight.cpu_us < latest.cpu_us,
            };
            if !began_again {
                // A listing of /proc while processes come and go may show one twice.
                if latest.seen_ms == self.now_ms {
                    return Ok(());
                }
                self.go_on(index, sight);
                self.order.push(index);
                self.check_activities()?;
                return Ok(());
            }
        }
        if self.log.lives.len() >= self.limits.processes {
            return Err(self.too_many("processes", self.limits.processes));
        }
        self.begin(sight);
        self.check_activities()?;
        Ok(())
    }

    /// The lives.
    pub fn finish(self) -> ProcessLog {
        self.log
    }

    fn too_many(&self, what: &'static str, limit: usize) -> ReadError {
        ReadError::TooMany { file: self.file.clone(), what, limit }
    }

    fn check_activities(&self) -> Result<(), ReadError> {
        if self.activities > self.limits.activities {
            return Err(self.too_many("changes of what processes do", self.limits.activities));
        }
        Ok(())
    }

    fn find(&mut self, pid: u32) -> Option<usize> {
        // Processes end between two blocks, so a few places may be passed over.
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

    fn begin(&mut self, sight: Sight<'_>) {
        let index = self.log.lives.len();
        let first_ms = self.log.times_ms[0];
        // With a recorder's relative clock a start may lie in the future.
        let start_ms = sight.start_ms.map_or(self.now_ms, |start_ms| start_ms.min(self.now_ms));
        let mut life = Life {
            pid: sight.pid,
            parent_pid: sight.parent_pid,
            name: text(sight.name),
            start_ms,
            end_ms: self.now_ms,
            ..Life::default()
        };
        // What a process took before the recording is not known by time; what a newcomer took is.
        let is_new = self.before_ms.is_some_and(|before_ms| sight.start_ms.is_none_or(|_| start_ms + 20 >= before_ms));
        let from_ms =
            if sight.start_ms.is_some() { start_ms.max(first_ms) } else { self.before_ms.unwrap_or(start_ms) };
        if is_new {
            life.start_ms = life.start_ms.min(from_ms.max(first_ms));
            life.cpu_us = sight.cpu_us;
            push(&mut life.activity, &mut self.activities, Span::new(from_ms, self.now_ms), sight.cpu_us, sight.state);
        }
        self.log.lives.push(life);
        self.latest.push(Latest {
            cpu_us: sight.cpu_us,
            start_ms: sight.start_ms,
            seen_ms: self.now_ms,
            name: sight.name.to_vec(),
        });
        self.by_pid.insert(sight.pid, index);
        self.order.push(index);
    }

    fn go_on(&mut self, index: usize, sight: Sight<'_>) {
        let (life, latest) = (&mut self.log.lives[index], &mut self.latest[index]);
        let spent_us = sight.cpu_us.saturating_sub(latest.cpu_us);
        life.cpu_us = life.cpu_us.saturating_add(spent_us);
        life.end_ms = self.now_ms;
        let from_ms = self.before_ms.unwrap_or(self.now_ms).max(latest.seen_ms).max(life.start_ms);
        push(&mut life.activity, &mut self.activities, Span::new(from_ms, self.now_ms), spent_us, sight.state);
        latest.cpu_us = sight.cpu_us;
        latest.seen_ms = self.now_ms;
        // The last name is what a process has become by exec(2).
        if latest.name != sight.name {
            latest.name.clear();
            latest.name.extend_from_slice(sight.name);
            life.name = text(sight.name);
        }
    }
}

fn push(activity: &mut Vec<Activity>, count: &mut usize, span: Span, cpu_us: u64, state: State) {
    if span.length_ms() == 0 {
        return;
    }
    let permille = cpu_us / u64::from(span.length_ms());
    let cpu_permille = u16::try_from(permille).unwrap_or(u16::MAX);
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

/// A name as text, however a process has called itself.
fn text(name: &[u8]) -> String {
    const NAME_LIMIT_BYTES: usize = 256;
    String::from_utf8_lossy(&name[..name.len().min(NAME_LIMIT_BYTES)]).into_owned()
}
