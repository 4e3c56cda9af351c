//! Finds the states from the events, in one pass.

use std::collections::HashMap;

use super::waits::{Doing, Replies};
use super::{Cpu, Index, Runner, State, Thread, Timelines, Transition, Wait, Waker};
use crate::model::{Context, Event, Kind, Leaving, NO_TID, Tid, Trace};

/// A CPU's or a thread's first event tells what was before since the trace began, unless that is this long: then earlier events
/// were probably overwritten.
const FIRST_NS: u64 = 100_000_000;
/// A wait that ends this soon after a request of storage completed on the same CPU was for the request.
const COMPLETION_NS: u64 = 1_000_000;

/// Finds what each thread did at each moment.
pub fn resolve(trace: &Trace) -> Timelines {
    let mut resolver = Resolver {
        trace,
        has_wakings: trace.counts.wakings > 0,
        has_wakes: trace.counts.wakings + trace.counts.wakeups > 0,
        ..Resolver::new(trace)
    };
    for (at, event) in trace.events.iter().enumerate() {
        resolver.take(at as u32, event);
    }
    resolver.finish()
}

/// Neither a CPU's idle task nor unknown.
fn is_thread(tid: Tid) -> bool {
    tid != 0 && tid != NO_TID
}

struct Resolver<'t> {
    trace: &'t Trace,
    found: Timelines,
    /// Beside `found.threads`.
    doing: Vec<Doing>,
    /// The living thread of each number.
    living: HashMap<Tid, Index>,
    /// Beside `found.cpus`.
    seen: Vec<Seen>,
    replies: Replies,
    /// Where events of a CPU were lost: from a position to a position, in the order of ends.
    losses: Vec<(u32, u32)>,
    has_wakings: bool,
    has_wakes: bool,
    contradictions: u64,
    missing_wakes: u64,
}

/// What is known about a CPU at the current position.
#[derive(Debug, Clone, Copy)]
struct Seen {
    runner: Runner,
    /// Its last event, and its last switch.
    last: u32,
    switched: u32,
    has_begun: bool,
    completed: Option<(u32, u32)>,
}

impl<'t> Resolver<'t> {
    fn new(trace: &'t Trace) -> Self {
        Self {
            trace,
            found: Timelines::default(),
            doing: Vec::new(),
            living: HashMap::new(),
            seen: Vec::new(),
            replies: Replies::default(),
            losses: Vec::new(),
            has_wakings: false,
            has_wakes: false,
            contradictions: 0,
            missing_wakes: 0,
        }
    }

    fn take(&mut self, at: u32, event: &Event) {
        self.make_cpu(event.cpu);
        match event.kind {
            Kind::Lost => self.lose(at, event.cpu),
            Kind::Switch { next, leaving } => self.switch(at, event, next, leaving),
            _ => {
                if self.seen[event.cpu as usize].runner == Runner::Unknown && event.tid != NO_TID {
                    self.show(at, event);
                }
                self.note(at, event);
            }
        }
        let seen = &mut self.seen[event.cpu as usize];
        (seen.last, seen.has_begun) = (at, true);
    }

    /// Events that are no switches.
    fn note(&mut self, at: u32, event: &Event) {
        match event.kind {
            Kind::Waking { target, cpu } => self.wake(at, event, target, cpu),
            Kind::Woken { target, cpu, is_new } => self.woken(at, event, target, cpu, is_new),
            Kind::Migrated { target, cpu } => {
                let thread = self.thread(target);
                if matches!(self.state(thread), Some(State::Runnable { .. })) {
                    self.set(thread, at, State::Runnable { cpu });
                }
            }
            Kind::Frequency { cpu, khz } | Kind::FrequencyAtStart { cpu, khz } => {
                self.make_cpu(cpu);
                let cpu = &mut self.found.cpus[cpu as usize];
                // A change since the start is newer than what was read.
                if matches!(event.kind, Kind::Frequency { .. }) || cpu.frequencies.is_empty() {
                    cpu.frequencies.push((at, khz));
                }
                cpu.highest_khz = cpu.highest_khz.max(khz);
            }
            Kind::FrequencyLimit { cpu, khz } => {
                self.make_cpu(cpu);
                let highest = &mut self.found.cpus[cpu as usize].highest_khz;
                *highest = (*highest).max(khz);
            }
            Kind::BlockedReason { target, is_io, function } => {
                let thread = self.thread(target);
                let device = self.device(at, event.cpu).or(self.doing[thread as usize].issued);
                // The wait that a recorder has seen may be over when it notes it.
                let is_running = matches!(self.state(thread), Some(State::Running { .. }));
                if let Some(wait) = self.doing[thread as usize].wait.filter(|_| !is_running) {
                    let wait = &mut self.found.waits[wait as usize];
                    (wait.is_io, wait.function) = (wait.is_io | is_io, function);
                    wait.device = wait.device.or(device.filter(|_| is_io));
                }
            }
            Kind::BlockComplete { device } => self.seen[event.cpu as usize].completed = Some((at, device)),
            Kind::Fork { child } => self.fork(at, event, child),
            _ if is_thread(event.tid) => self.note_own(at, event),
            _ => {}
        }
    }

    /// Events that tell about the thread that recorded them.
    fn note_own(&mut self, at: u32, event: &Event) {
        let thread = self.thread(event.tid);
        let doing = &mut self.doing[thread as usize];
        match event.kind {
            Kind::ReclaimBegin | Kind::ReclaimEnd => {
                doing.is_reclaiming = event.kind == Kind::ReclaimBegin;
                let is_reclaiming = doing.is_reclaiming;
                if let Some(State::Running { cpu, .. }) = self.state(thread) {
                    self.set(thread, at, State::Running { cpu, is_reclaiming });
                }
            }
            Kind::PageFault => doing.has_faulted = true,
            Kind::LockBegin => doing.is_locking = true,
            Kind::LockEnd => doing.is_locking = false,
            Kind::BlockIssue { device } => doing.issued = Some(device),
            Kind::Reads { file, is_brief } => doing.reads(file, is_brief),
            Kind::BinderCall(call) => self.replies.sent(call, doing),
            Kind::BinderReceived { id } => self.replies.received(id, doing),
            Kind::SliceBegin { is_lock } => doing.begin_slice(is_lock),
            Kind::SliceEnd => doing.end_slice(),

            _ => {}
        }
    }

    fn switch(&mut self, at: u32, event: &Event, next: Tid, leaving: Leaving) {
        let cpu = event.cpu;
        let seen = self.seen[cpu as usize];
        let before = match event.tid {
            0 => Runner::Idle,
            NO_TID => Runner::Unknown,
            tid => Runner::Thread(self.thread(tid)),
        };
        match (before, seen.runner) {
            (Runner::Unknown, Runner::Thread(thread)) => self.lose_sight(thread, seen.last),
            (Runner::Unknown, _) => {}
            _ if seen.runner != before => self.show(at, event),
            _ => {}
        }
        if let Runner::Thread(thread) = before {
            self.leave(thread, at, cpu, leaving);
        }
        let after = if next == 0 { Runner::Idle } else { Runner::Thread(self.thread(next)) };
        if let Runner::Thread(thread) = after {
            self.enter(thread, at, cpu);
        }
        self.found.cpus[cpu as usize].runners.push((at, after));
        let seen = &mut self.seen[cpu as usize];
        (seen.runner, seen.switched) = (after, at);
    }

    /// An event shows that its thread runs on its CPU, which was not known.
    fn show(&mut self, at: u32, event: &Event) {
        let cpu = event.cpu;
        let seen = self.seen[cpu as usize];
        if let Runner::Thread(other) = seen.runner {
            self.lose_sight(other, seen.last);
            self.contradictions += 1;
        }
        let runs_since_start = !seen.has_begun && self.is_soon(at);
        let since = if runs_since_start { 0 } else { at };
        let runner = if event.tid == 0 { Runner::Idle } else { Runner::Thread(self.thread(event.tid)) };
        if let Runner::Thread(thread) = runner {
            let running = State::Running { cpu, is_reclaiming: false };
            match self.state(thread) {
                None if runs_since_start => self.set(thread, 0, running),
                None => {
                    self.set(thread, 0, State::Unknown);
                    self.set(thread, at, running);
                }
                Some(State::Absent) => self.set(thread, at, running),
                Some(State::Running { cpu: other, .. }) if other == cpu => {}
                Some(_) => {
                    self.lose_sight(thread, seen.last);
                    self.contradictions += u64::from(seen.has_begun && seen.runner != Runner::Unknown);
                    self.set(thread, at, running);
                }
            }
        }
        let runners = &mut self.found.cpus[cpu as usize].runners;
        if seen.has_begun && seen.runner != Runner::Unknown {
            runners.push((seen.last, Runner::Unknown));
        }
        runners.push((since, runner));
        self.seen[cpu as usize].runner = runner;
    }

    fn leave(&mut self, thread: Index, at: u32, cpu: u16, leaving: Leaving) {
        match leaving {
            Leaving::Runnable => self.set(thread, at, State::Runnable { cpu }),
            Leaving::Dead | Leaving::DeadOrParked => self.end(thread, at),
            _ => {
                let wait = self.doing[thread as usize].wait(leaving);
                self.wait(thread, at, wait);
            }
        }
    }

    fn enter(&mut self, thread: Index, at: u32, cpu: u16) {
        match self.state(thread) {
            // Later it was probably forked.
            None if self.has_wakes && self.is_soon(at) => self.set(thread, 0, State::Runnable { cpu }),
            None => self.set(thread, 0, State::Unknown),
            // Without sched_migrate_task only this tells the queue.
            Some(State::Runnable { .. }) => self.correct(thread, State::Runnable { cpu }),
            // It was woken between its decision to wait and the switch.
            Some(State::Waiting { .. }) if self.doing[thread as usize].is_woken => {
                self.correct(thread, State::Runnable { cpu });
            }
            Some(State::Waiting { .. }) if self.has_wakes => {
                self.missing_wakes += 1;
                let since = self.found.threads[thread as usize].transitions.last().map_or(0, |last| last.at);
                let first = self.losses.partition_point(|(_, end)| *end <= since);
                if let Some(&(from, _)) = self.losses.get(first) {
                    self.lose_sight(thread, from);
                }
            }
            Some(State::Running { cpu: other, .. }) => {
                let last = self.seen.get(other as usize).map_or(at, |seen| seen.last);
                self.contradictions += 1;
                self.lose_sight(thread, last);
                if other != cpu && self.seen[other as usize].runner == Runner::Thread(thread) {
                    self.seen[other as usize].runner = Runner::Unknown;
                    self.found.cpus[other as usize].runners.push((last, Runner::Unknown));
                }
            }
            _ => {}
        }
        let doing = &mut self.doing[thread as usize];
        doing.enter();
        let is_reclaiming = doing.is_reclaiming;
        self.set(thread, at, State::Running { cpu, is_reclaiming });
    }

    fn wake(&mut self, at: u32, event: &Event, target: Tid, cpu: Option<u16>) {
        if target == 0 {
            return;
        }
        let thread = self.thread(target);
        let state = self.state(thread);
        if state.is_none() {
            let wait = self.doing[thread as usize].wait(Leaving::Sleeping);
            self.wait(thread, 0, wait);
        }
        match self.state(thread) {
            Some(State::Waiting { wait }) => {
                let waker = match event.context {
                    Context::Interrupt => Waker::Interrupt,
                    _ if event.tid == 0 => Waker::Interrupt,
                    _ if event.tid == NO_TID => Waker::Unknown,
                    _ => Waker::Thread(self.thread(event.tid)),
                };
                let device = self.device(at, event.cpu);
                let wait = &mut self.found.waits[wait as usize];
                wait.waker = waker;
                if wait.leaving == Leaving::Uninterruptible && device.is_some() {
                    (wait.is_io, wait.device) = (true, device);
                }
            }
            Some(State::Running { .. }) => {
                self.doing[thread as usize].is_woken = true;
                return;
            }
            Some(State::Runnable { .. }) => return,
            _ => {}
        }
        self.set(thread, at, State::Runnable { cpu: cpu.unwrap_or(event.cpu) });
    }

    /// sched_wakeup follows sched_waking and may be recorded by another CPU: it tells the queue, and the waker only where
    /// there is no sched_waking.
    fn woken(&mut self, at: u32, event: &Event, target: Tid, cpu: Option<u16>, is_new: bool) {
        let thread = self.thread(target);
        match self.state(thread) {
            Some(State::Runnable { .. }) => {
                if let Some(cpu) = cpu {
                    self.correct(thread, State::Runnable { cpu });
                }
            }
            Some(State::Running { .. }) if self.has_wakings => {}
            None if is_new => {
                self.set(thread, 0, State::Absent);
                self.set(thread, at, State::Runnable { cpu: cpu.unwrap_or(event.cpu) });
            }
            _ if !self.has_wakings => self.wake(at, event, target, cpu),
            _ => self.wake(at, &Event { tid: 0, ..*event }, target, cpu),
        }
    }

    fn fork(&mut self, at: u32, event: &Event, child: Tid) {
        let parent = is_thread(event.tid).then(|| self.thread(event.tid));
        if let Some(&before) = self.living.get(&child) {
            let is_told_twice = self.found.forks.iter().rev().take(4).any(|&(_, thread)| thread == before)
                && self.found.threads[before as usize].transitions.len() <= 2;
            if is_told_twice || child == event.tid {
                return;
            }
            self.end(before, at);
        }
        let thread = self.thread(child);
        self.set(thread, 0, State::Absent);
        self.set(thread, at, State::Runnable { cpu: event.cpu });
        self.found.threads[thread as usize].parent = parent;
        self.found.forks.push((at, thread));
    }

    fn lose(&mut self, at: u32, cpu: u16) {
        let seen = self.seen[cpu as usize];
        if let Runner::Thread(thread) = seen.runner {
            self.lose_sight(thread, seen.last);
        }
        let from = if seen.has_begun { seen.last } else { 0 };
        self.found.cpus[cpu as usize].runners.push((from, Runner::Unknown));
        self.seen[cpu as usize].runner = Runner::Unknown;
        self.losses.push((from, at));
    }

    /// The device of the request that has just completed on `cpu`.
    fn device(&self, at: u32, cpu: u16) -> Option<u32> {
        let seen = &self.seen[cpu as usize];
        let (completed, device) = seen.completed?;
        let age_ns = self.trace.time_ns(at).saturating_sub(self.trace.time_ns(completed));
        (completed >= seen.switched && age_ns <= COMPLETION_NS).then_some(device)
    }

    fn is_soon(&self, at: u32) -> bool {
        self.trace.time_ns(at) - self.trace.start_ns() <= FIRST_NS
    }

    fn end(&mut self, thread: Index, at: u32) {
        self.set(thread, at, State::Absent);
        let tid = self.found.threads[thread as usize].tid;
        self.living.remove(&tid);
    }

    fn wait(&mut self, thread: Index, at: u32, wait: Wait) {
        let number = self.found.waits.len() as u32;
        self.found.waits.push(wait);
        self.doing[thread as usize].wait = Some(number);
        self.set(thread, at, State::Waiting { wait: number });
    }

    /// What a thread does is unknown from a position on, or from its last transition if that is later.
    fn lose_sight(&mut self, thread: Index, since: u32) {
        let last = self.found.threads[thread as usize].transitions.last().map_or(0, |last| last.at);
        self.set(thread, since.max(last), State::Unknown);
    }

    fn state(&self, thread: Index) -> Option<State> {
        self.found.threads[thread as usize].transitions.last().map(|last| last.state)
    }

    /// A state from `at` on, which is never before the last one's.
    fn set(&mut self, thread: Index, at: u32, state: State) {
        let transitions = &mut self.found.threads[thread as usize].transitions;
        match transitions.last_mut() {
            Some(last) if last.at >= at => last.state = state,
            Some(last) if last.state == state => {}
            _ => transitions.push(Transition { at, state }),
        }
    }

    /// Replaces the current state.
    fn correct(&mut self, thread: Index, state: State) {
        if let Some(last) = self.found.threads[thread as usize].transitions.last_mut() {
            last.state = state;
        }
    }

    /// The living thread of a number; a new one if there is none.
    fn thread(&mut self, tid: Tid) -> Index {
        if let Some(&thread) = self.living.get(&tid) {
            return thread;
        }
        let thread = self.found.threads.len() as Index;
        let process = self.trace.processes.get(&tid).copied().unwrap_or(tid);
        self.found.threads.push(Thread { tid, process, ..Thread::default() });
        self.doing.push(Doing::default());
        self.living.insert(tid, thread);
        let earlier = self.found.by_tid.entry(tid).or_default();
        if !earlier.is_empty() {
            // The number is used again: until now it was another thread.
            self.found.threads[thread as usize].transitions.push(Transition { at: 0, state: State::Absent });
        }
        earlier.push(thread);
        thread
    }

    fn make_cpu(&mut self, cpu: u16) {
        let needed = cpu as usize + 1;
        if self.seen.len() < needed {
            let none = Seen { runner: Runner::Unknown, last: 0, switched: 0, has_begun: false, completed: None };
            self.seen.resize(needed, none);
            self.found.cpus.resize_with(needed, Cpu::default);
        }
    }

    fn finish(mut self) -> Timelines {
        for thread in &mut self.found.threads {
            if thread.transitions.first().is_none_or(|first| first.at > 0) {
                thread.transitions.insert(0, Transition { at: 0, state: State::Unknown });
            }
        }
        if self.contradictions > 0 {
            self.found.faults.push(format!(
                "{} switches contradict those before them, so events are missing: the time between is unknown",
                self.contradictions
            ));
        }
        if self.missing_wakes > 0 {
            self.found.faults.push(format!("{} wake-ups are missing: their wakers are unknown", self.missing_wakes));
        }
        let reused = self.found.by_tid.values().filter(|threads| threads.len() > 1).count();
        if reused > 0 {
            self.found.faults.push(format!("{reused} thread numbers were used again by other threads"));
        }
        self.found
    }
}
