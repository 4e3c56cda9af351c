//! The critical path of one thread: backwards from the end of a window; where the thread waited for another one, that one's path.

use crate::model::{Leaving, Symbol, Tid, Trace};
use crate::threads::{Index, Runner, State, Timelines, Wait, Waker};

/// For whom the thread was runnable only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Behind {
    Thread(Index),
    /// The CPU was idle: it had to leave its idle state.
    Idle,
    Unknown,
}

/// What happened in a piece of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// It ran; the frequency is `None` before the first event that names it.
    Running {
        cpu: u16,
        khz: Option<u32>,
    },
    Runnable {
        cpu: u16,
        behind: Behind,
    },
    /// It waited for storage; major << 20 | minor.
    Storage {
        device: Option<u32>,
        file: Option<Symbol>,
    },
    /// It waited for a page: of a file, or swapped out.
    PageFault {
        device: Option<u32>,
        file: Option<Symbol>,
        is_swap: bool,
    },
    /// It reclaimed memory for itself, or waited within that.
    Reclaim,
    /// It waited for a binder call, and the trace does not tell whom that waited for.
    Binder {
        process: Tid,
    },
    /// It waited for a lock, and the trace does not tell the holder.
    Lock,
    /// It waited in the kernel for an unknown reason.
    Uninterruptible {
        function: Option<Symbol>,
    },
    /// It waited for a timer, a device, or what the trace does not tell.
    Sleeping,
    Stopped,
    /// It did not exist.
    Absent,
    /// Events are missing.
    Unknown,
}

/// Why the path left the thread that was asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// A synchronous call to this process.
    Binder(Tid),
    /// A lock that the other thread held.
    Lock,
    /// The other thread woke it.
    Wake,
    /// The other thread forked it.
    Fork,
}

/// For whom the thread that was asked about waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Via {
    pub reason: Reason,
    /// The thread that ended the wait.
    pub by: Index,
    /// The position at which the wait ended, which identifies it.
    pub ended: u32,
}

/// A part of the window in which one thing happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    pub from_ns: u64,
    pub to_ns: u64,
    /// The thread on the path.
    pub thread: Index,
    /// `None` on the thread that was asked about.
    pub via: Option<Via>,
    pub what: What,
}

/// The path of `thread` in the window, in the order of time. The pieces cover the window without gap and overlap.
///
/// The window is within the trace and not empty.
pub fn walk(trace: &Trace, timelines: &Timelines, thread: Index, from_ns: u64, to_ns: u64) -> Vec<Piece> {
    let end = trace.events.partition_point(|event| event.time_ns < to_ns) as u32;
    let start = trace.events.partition_point(|event| event.time_ns <= from_ns).saturating_sub(1) as u32;
    let mut walk = Walk { trace, timelines, from_ns, to_ns, pieces: Vec::new() };
    let mut frames = vec![Frame { thread, limit: start, via: None }];
    let (mut at, mut followed) = (end, None);
    while at > start {
        while frames.len() > 1 && frames.last().is_some_and(|frame| at <= frame.limit) {
            frames.pop();
        }
        let frame = frames[frames.len() - 1];
        // An event ends at most one wait and begins at most one life, so that a second step without progress is impossible.
        match walk.other(frame, at).filter(|_| followed != Some(at)) {
            Some(next) => {
                followed = Some(at);
                frames.push(next);
            }
            None => at = walk.step(frame, at),
        }
    }
    walk.pieces.reverse();
    walk.pieces
}

/// A thread that the path follows down to a position.
#[derive(Debug, Clone, Copy)]
struct Frame {
    thread: Index,
    limit: u32,
    via: Option<Via>,
}

struct Walk<'t> {
    trace: &'t Trace,
    timelines: &'t Timelines,
    from_ns: u64,
    to_ns: u64,
    /// Backwards.
    pieces: Vec<Piece>,
}

impl Walk<'_> {
    /// The thread to follow instead of the wait, or of the time before its birth, that ends at `at`.
    fn other(&self, frame: Frame, at: u32) -> Option<Frame> {
        let thread = &self.timelines.threads[frame.thread as usize];
        let number = thread.before(at)?;
        let transition = thread.transitions[number];
        if thread.transitions.get(number + 1)?.at != at {
            return None;
        }
        let limit = transition.at.max(frame.limit);
        match transition.state {
            State::Waiting { wait } => {
                let wait = &self.timelines.waits[wait as usize];
                let (reason, by) = followed(wait, self.trace)?;
                let via = frame.via.or(Some(Via { reason, by, ended: at }));
                Some(Frame { thread: by, limit, via })
            }
            State::Absent => {
                let parent = thread.parent?;
                let via = frame.via.or(Some(Via { reason: Reason::Fork, by: parent, ended: at }));
                Some(Frame { thread: parent, limit, via })
            }
            _ => None,
        }
    }

    /// Takes the state before `at`, back to its beginning or to the limit, which is returned.
    fn step(&mut self, frame: Frame, at: u32) -> u32 {
        let thread = &self.timelines.threads[frame.thread as usize];
        let Some(number) = thread.before(at) else {
            self.push(frame, frame.limit, at, What::Unknown);
            return frame.limit;
        };
        let transition = thread.transitions[number];
        let start = transition.at.max(frame.limit);
        match transition.state {
            State::Running { is_reclaiming: true, .. } => self.push(frame, start, at, What::Reclaim),
            State::Running { cpu, .. } => self.running(frame, start, at, cpu),
            State::Runnable { cpu } => self.runnable(frame, start, at, cpu),
            State::Waiting { wait } => {
                let wait = &self.timelines.waits[wait as usize];
                self.push(frame, start, at, self.waited_for(wait));
            }
            State::Absent => self.push(frame, start, at, What::Absent),
            State::Unknown => self.push(frame, start, at, What::Unknown),
        }
        start
    }

    fn running(&mut self, frame: Frame, start: u32, mut at: u32, cpu: u16) {
        let frequencies = self.timelines.cpus.get(cpu as usize).map_or(&[][..], |cpu| &cpu.frequencies);
        let mut later = frequencies.partition_point(|(since, _)| *since < at);
        while at > start {
            let (since, khz) = match later.checked_sub(1) {
                Some(number) => (frequencies[number].0, Some(frequencies[number].1)),
                None => (start, None),
            };
            self.push(frame, since.max(start), at, What::Running { cpu, khz });
            at = since.max(start);
            later = later.saturating_sub(1);
        }
    }

    fn runnable(&mut self, frame: Frame, start: u32, mut at: u32, cpu: u16) {
        let runners = self.timelines.cpus.get(cpu as usize).map_or(&[][..], |cpu| &cpu.runners);
        let mut later = runners.partition_point(|(since, _)| *since < at);
        while at > start {
            let (since, runner) = match later.checked_sub(1) {
                Some(number) => runners[number],
                None => (start, Runner::Unknown),
            };
            let behind = match runner {
                Runner::Idle => Behind::Idle,
                Runner::Thread(thread) if thread != frame.thread => Behind::Thread(thread),
                _ => Behind::Unknown,
            };
            self.push(frame, since.max(start), at, What::Runnable { cpu, behind });
            at = since.max(start);
            later = later.saturating_sub(1);
        }
    }

    fn waited_for(&self, wait: &Wait) -> What {
        let function = wait.function_name(self.trace);
        let is_swap = function.contains("swap");
        let is_fault = wait.is_fault || is_swap || function.contains("fault");
        match wait.leaving {
            _ if wait.is_reclaiming || function.contains("reclaim") => What::Reclaim,
            Leaving::Uninterruptible if is_fault => What::PageFault { device: wait.device, file: wait.file, is_swap },
            _ if wait.is_io => What::Storage { device: wait.device, file: wait.file },
            Leaving::Stopped => What::Stopped,
            _ if wait.is_for_lock(self.trace) => What::Lock,
            Leaving::Uninterruptible => What::Uninterruptible { function: wait.function },
            _ => wait.called.map_or(What::Sleeping, |process| What::Binder { process }),
        }
    }

    fn push(&mut self, frame: Frame, start: u32, end: u32, what: What) {
        let clamped = |at: u32| self.trace.time_ns(at).clamp(self.from_ns, self.to_ns);
        let (from_ns, to_ns) = (clamped(start), clamped(end));
        if from_ns == to_ns {
            return;
        }
        let piece = Piece { from_ns, to_ns, thread: frame.thread, via: frame.via, what };
        match self.pieces.last_mut() {
            Some(last) if Piece { from_ns, to_ns, ..*last } == piece => last.from_ns = from_ns,
            _ => self.pieces.push(piece),
        }
    }
}

/// The thread whose path explains the wait. A wait for storage, for memory or for an interrupt explains itself.
fn followed(wait: &Wait, trace: &Trace) -> Option<(Reason, Index)> {
    let Waker::Thread(by) = wait.waker else { return None };
    let function = wait.function_name(trace);
    let is_memory =
        wait.is_reclaiming || wait.is_fault || ["reclaim", "fault", "swap"].iter().any(|it| function.contains(it));
    if wait.is_io || is_memory || wait.leaving == Leaving::Stopped {
        return None;
    }
    let reason = match wait.called {
        _ if wait.is_for_lock(trace) => Reason::Lock,
        Some(process) => Reason::Binder(process),
        None => Reason::Wake,
    };
    Some((reason, by))
}
