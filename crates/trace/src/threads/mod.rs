//! What each thread did at each moment, and what ran on each CPU.
//!
//! A position is the index of an event; a state holds from its position's event up to the next one's. Positions, unlike times,
//! are never equal, so that following waits backwards always ends.

#[cfg(test)]
mod oracle;
mod resolve;
mod waits;

use std::collections::HashMap;

use crate::model::{Leaving, Symbol, Tid, Trace};

pub use resolve::resolve;

/// A thread of [`Timelines::threads`]. A number that is used again is another thread.
pub type Index = u32;

/// What a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Not forked yet, or dead.
    Absent,
    Running {
        cpu: u16,
        is_reclaiming: bool,
    },
    /// Wants the CPU whose queue it is in.
    Runnable {
        cpu: u16,
    },
    /// Waits; an index of [`Timelines::waits`].
    Waiting {
        wait: u32,
    },
    /// Events are missing.
    Unknown,
}

/// A state from a position on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transition {
    pub at: u32,
    pub state: State,
}

/// What woke a waiting thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waker {
    /// It still waits, or the trace does not tell.
    Unknown,
    /// A timer or a device.
    Interrupt,
    Thread(Index),
}

/// One wait, and all that events tell about its cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    pub leaving: Leaving,
    pub waker: Waker,
    /// Within direct reclaim.
    pub is_reclaiming: bool,
    /// Right after a page fault.
    pub is_fault: bool,
    /// In futex(2), in a monitor of ART, or for a lock of the kernel.
    pub is_lock: bool,
    /// The process that a synchronous call of binder went to.
    pub called: Option<Tid>,
    /// Storage, by sched_blocked_reason or because a request's completion ended the wait.
    pub is_io: bool,
    pub device: Option<u32>,
    /// What the thread read meanwhile: `file NAME` or `inode NUMBER`.
    pub file: Option<Symbol>,
    /// The function of the kernel that waited.
    pub function: Option<Symbol>,
}

impl Wait {
    /// The function of the kernel that waited; empty where the trace does not tell.
    pub fn function_name<'t>(&self, trace: &'t Trace) -> &'t str {
        self.function.map_or("", |function| trace.symbols.text(function))
    }

    /// Whether it was for a lock, by its events or its function.
    pub fn is_for_lock(&self, trace: &Trace) -> bool {
        let function = self.function_name(trace);
        self.is_lock || brisk_base::ready::is_lock(function)
    }
}

/// One thread.
#[derive(Debug, Clone, Default)]
pub struct Thread {
    pub tid: Tid,
    /// The process; the thread's own number where the trace does not tell.
    pub process: Tid,
    /// The thread that forked it, if the trace has that.
    pub parent: Option<Index>,
    /// In the order of positions; the first is at 0.
    pub transitions: Vec<Transition>,
}

/// What ran on a CPU from a position on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runner {
    Idle,
    Thread(Index),
    Unknown,
}

/// One CPU.
#[derive(Debug, Clone, Default)]
pub struct Cpu {
    /// In the order of positions.
    pub runners: Vec<(u32, Runner)>,
    /// cpu_frequency: kHz from a position on.
    pub frequencies: Vec<(u32, u32)>,
    /// The highest frequency that an event names; 0 for none.
    pub highest_khz: u32,
}

/// All threads and CPUs of a trace.
#[derive(Debug, Clone, Default)]
pub struct Timelines {
    pub threads: Vec<Thread>,
    pub waits: Vec<Wait>,
    /// By number.
    pub cpus: Vec<Cpu>,
    /// The threads that had a number, in the order of time.
    pub by_tid: HashMap<Tid, Vec<Index>>,

    /// Each fork, by position: the child.
    pub forks: Vec<(u32, Index)>,
    /// What is missing, in words.
    pub faults: Vec<String>,
}

impl Thread {
    /// The index of the transition that holds just before position `at`.
    pub fn before(&self, at: u32) -> Option<usize> {
        self.transitions.partition_point(|transition| transition.at < at).checked_sub(1)
    }

    /// The first position at which it is known to exist, and the last one.
    pub fn life(&self, trace: &Trace) -> (u32, u32) {
        let is_alive = |transition: &&Transition| !matches!(transition.state, State::Absent | State::Unknown);
        let first = self.transitions.iter().find(is_alive).map_or(0, |transition| transition.at);
        let last = match self.transitions.last() {
            Some(Transition { at, state: State::Absent }) => *at,
            _ => trace.events.len() as u32,
        };
        (first, last.max(first))
    }
}

impl Timelines {
    /// The thread's name at a time; its number where it has none.
    pub fn name(&self, trace: &Trace, thread: Index, time_ns: u64) -> String {
        let tid = self.threads[thread as usize].tid;
        trace.name_at(tid, time_ns).map_or_else(|| format!("thread {tid}"), readable)
    }
}

/// A name without control characters, which a terminal would obey.
pub fn readable(name: &str) -> String {
    name.chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect()
}

#[cfg(test)]
mod tests;
