//! A simulated machine: CPUs that run threads in turn, a disk that serves one request at a time, and time accounts as the
//! kernel keeps them. Time advances in steps of two milliseconds.

use std::collections::VecDeque;

use super::SLOT_MS;
use crate::model::Span;
use brisk_base::random::Random;

/// The length of a simulation step.
pub const STEP_MS: u32 = 2;
/// A thread's time slice while other threads are runnable on its CPU.
const SLICE_MS: u32 = 6;
/// The kernel's tick.
const TICK_MS: u32 = 10;
/// The disk's throughput in KiB per millisecond.
const DISK_KIB_PER_MS: u64 = 40;

/// What a thread does within a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workload {
    /// Nothing.
    Sleep,
    /// Compute without end.
    Compute,
    /// Compute, then sleep, for about these times.
    Pulse { run_ms: u32, sleep_ms: u32 },
    /// Compute, then wait for a request to the disk.
    Read { compute_ms: u32, request_ms: u32 },
    /// Wait for a request to the disk, then sleep.
    Write { request_ms: u32, sleep_ms: u32 },
    /// Compute when it is this thread's turn, of `of` threads.
    Turns { run_ms: u32, turn: u32, of: u32 },
}

/// A workload within a span, and sleep outside.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    span: Span,
    workload: Workload,
}

impl Part {
    /// From the start of the recording to its end.
    pub fn always(workload: Workload) -> Self {
        Self { span: Span::new(0, u32::MAX), workload }
    }

    /// Within `span`.
    pub fn within(span: Span, workload: Workload) -> Self {
        Self { span, workload }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Asleep { until_ms: u32 },
    Ready,
    Running { left_ms: u32 },
    Blocked,
}

struct Thread {
    /// `None` for interrupts.
    process: Option<usize>,
    part: Part,
    state: State,
    cpu: usize,
    slice_ms: u32,
    /// The share of its CPU time that is system time.
    system: f64,
    migrations_a_second: f64,
    is_pinned: bool,
}

/// A process and its time accounts.
pub struct SimulatedProcess {
    pub pid: u32,
    pub parent: u32,
    pub name: String,
    pub born_ms: u32,
    pub dies_ms: u32,
    pub user_ms: u32,
    pub system_ms: u32,
    pub threads: u32,
    leader: Option<usize>,
    pub cpu_slots: Vec<u16>,
    pub disk_slots: Vec<u16>,
}

/// user, system, soft interrupts, idle, I/O wait of one CPU, in milliseconds.
pub type Account = [u64; 5];

/// The machine with its processes.
pub struct SimulatedMachine {
    random: Random,
    /// True when CPU time is accounted at ticks, false when it is accounted exactly.
    counts_ticks: bool,
    pub processes: Vec<SimulatedProcess>,
    threads: Vec<Thread>,
    running: Vec<Option<usize>>,
    ready: VecDeque<usize>,
    pub accounts: Vec<Account>,
    disk: VecDeque<(usize, u32)>,
    pub disk_busy_ms: u64,
    pub disk_kib: u64,
    pub disk_requests: u64,
    pub busy_slots: Vec<u16>,
    turns: u32,
    next_pid: u32,
}

impl SimulatedMachine {
    pub fn new(cpus: usize, mut random: Random) -> Self {
        Self {
            counts_ticks: random.unit() < 0.5,
            random,
            processes: Vec::new(),
            threads: Vec::new(),
            running: vec![None; cpus],
            ready: VecDeque::new(),
            accounts: vec![[2100, 1400, 10, 5000, 600]; cpus],
            disk: VecDeque::new(),
            disk_busy_ms: 700,
            disk_kib: 9000,
            disk_requests: 300,
            busy_slots: Vec::new(),
            turns: 0,
            next_pid: 5000,
        }
    }

    /// The number of processes that were created.
    pub fn count(&self) -> usize {
        self.processes.len()
    }

    /// A new process without threads.
    pub fn process(&mut self, pid: u32, parent: u32, name: &str, born_ms: u32) -> usize {
        self.processes.push(SimulatedProcess {
            pid,
            parent,
            name: name.to_owned(),
            born_ms,
            dies_ms: u32::MAX,
            user_ms: 0,
            system_ms: 0,
            threads: 0,
            leader: None,
            cpu_slots: Vec::new(),
            disk_slots: Vec::new(),
        });
        self.processes.len() - 1
    }

    /// A thread of `process`; the first one is its leader.
    pub fn thread(&mut self, process: usize, part: Part) {
        let owner = &mut self.processes[process];
        owner.threads += 1;
        owner.leader.get_or_insert(self.threads.len());
        let is_kernels = owner.pid == 2 || owner.parent == 2;
        let until_ms = owner.born_ms.max(part.span.start_ms);
        let system = if is_kernels { 1.0 } else { 0.05 + 0.3 * self.random.unit() };
        self.add(Some(process), part, until_ms, system);
    }

    /// A thread of `process` that stays on `cpu`.
    pub fn pinned_thread(&mut self, process: usize, part: Part, cpu: usize) {
        self.thread(process, part);
        let thread = self.threads.last_mut().expect("it was added");
        (thread.cpu, thread.migrations_a_second, thread.is_pinned) = (cpu, 0.0, true);
    }

    /// Adds work outside of any process.
    pub fn interrupts(&mut self, part: Part) {
        self.add(None, part, part.span.start_ms, 1.0);
    }

    fn add(&mut self, process: Option<usize>, part: Part, until_ms: u32, system: f64) {
        let migrations_a_second = if process.is_none() { 0.0 } else { 6.0 * self.random.unit().powi(2) };
        let jitter_ms = match part.workload {
            Workload::Pulse { sleep_ms, .. } | Workload::Write { sleep_ms, .. } => {
                self.random.below(sleep_ms as usize + 1) as u32
            }
            _ => 0,
        };
        let cpu = self.threads.len() % self.running.len();
        let state = State::Asleep { until_ms: until_ms + jitter_ms };
        self.threads.push(Thread {
            process,
            part,
            state,
            cpu,
            slice_ms: 0,
            system,
            migrations_a_second,
            is_pinned: false,
        });
    }

    /// The state letter of a process, which is that of its leader.
    pub fn letter(&self, process: &SimulatedProcess) -> char {
        match process.leader.map(|leader| self.threads[leader].state) {
            Some(State::Ready | State::Running { .. }) => 'R',
            Some(State::Blocked) => 'D',
            _ => 'S',
        }
    }

    /// Simulates the step that begins at `now_ms`.
    pub fn step(&mut self, now_ms: u32) {
        self.short_lived(now_ms);
        self.serve_disk(now_ms);
        for index in 0..self.threads.len() {
            if let State::Asleep { until_ms } = self.threads[index].state
                && until_ms <= now_ms
            {
                self.wake(index, now_ms);
            }
        }
        self.schedule(now_ms);
        self.run(now_ms);
    }

    /// Starts short-lived processes, as scripts do.
    fn short_lived(&mut self, now_ms: u32) {
        if self.random.unit() * 1000.0 > 3.0 * f64::from(STEP_MS) {
            return;
        }
        self.next_pid += 1;
        let process = self.process(self.next_pid, 1, "sh", now_ms);
        let lives_ms = 6 + self.random.below(150) as u32;
        self.processes[process].dies_ms = now_ms + lives_ms;
        let span = Span::new(now_ms, now_ms + lives_ms - 4);
        self.thread(process, Part::within(span, Workload::Pulse { run_ms: 2, sleep_ms: 40 }));
    }

    fn workload(&self, index: usize, now_ms: u32) -> Workload {
        let part = &self.threads[index].part;
        if (part.span.start_ms..part.span.end_ms).contains(&now_ms) { part.workload } else { Workload::Sleep }
    }

    fn about(&mut self, ms: u32) -> u32 {
        let exact = f64::from(ms) * (0.5 + self.random.unit());
        (exact / f64::from(STEP_MS)).round().max(1.0) as u32 * STEP_MS
    }

    /// Starts the next activity of a thread that has slept.
    fn wake(&mut self, index: usize, now_ms: u32) {
        let state = match self.workload(index, now_ms) {
            Workload::Sleep => State::Asleep { until_ms: self.threads[index].part.span.start_ms.max(now_ms + 50) },
            Workload::Compute | Workload::Pulse { .. } | Workload::Read { .. } => State::Ready,
            Workload::Write { request_ms, .. } => {
                self.request(index, request_ms);
                State::Blocked
            }
            Workload::Turns { turn, of, .. } if self.turns % of == turn => State::Ready,
            Workload::Turns { .. } => State::Asleep { until_ms: now_ms + STEP_MS },
        };
        if state == State::Ready {
            self.ready.push_back(index);
        }
        self.threads[index].state = state;
    }

    fn request(&mut self, index: usize, request_ms: u32) {
        let takes_ms = self.about(request_ms);
        self.disk.push_back((index, takes_ms));
        self.disk_requests += 1;
    }

    fn serve_disk(&mut self, now_ms: u32) {
        let Some((index, left_ms)) = self.disk.front_mut() else { return };
        *left_ms -= STEP_MS;
        self.disk_busy_ms += u64::from(STEP_MS);
        self.disk_kib += u64::from(STEP_MS) * DISK_KIB_PER_MS;
        if *left_ms == 0 {
            let index = *index;
            self.disk.pop_front();
            let until_ms = match self.threads[index].part.workload {
                Workload::Write { sleep_ms, .. } => now_ms + self.about(sleep_ms),
                _ => now_ms,
            };
            self.threads[index].state = State::Asleep { until_ms };
        }
    }

    fn schedule(&mut self, now_ms: u32) {
        for cpu in 0..self.running.len() {
            let Some(index) = self.running[cpu] else { continue };
            let is_over = self.threads[index].slice_ms >= SLICE_MS;
            let is_wanted = self.ready.iter().any(|&other| self.find_idle_cpu(other).is_none_or(|place| place == cpu));
            if is_over && is_wanted {
                self.running[cpu] = None;
                self.threads[index].state = State::Ready;
                self.ready.push_back(index);
            } else if self.random.unit() * 1000.0 < self.threads[index].migrations_a_second * f64::from(STEP_MS) {
                self.migrate(index);
            }
        }
        for _ in 0..self.ready.len() {
            let Some(index) = self.ready.pop_front() else { break };
            let Some(cpu) = self.find_idle_cpu(index) else {
                self.ready.push_back(index);
                continue;
            };
            let left_ms = match self.workload(index, now_ms) {
                Workload::Pulse { run_ms, .. } | Workload::Turns { run_ms, .. } => self.about(run_ms),
                Workload::Read { compute_ms, .. } => self.about(compute_ms),
                _ => 40,
            };
            self.running[cpu] = Some(index);
            let thread = &mut self.threads[index];
            (thread.state, thread.cpu, thread.slice_ms) = (State::Running { left_ms }, cpu, 0);
        }
    }

    /// An idle CPU for a thread: its own, or any other if it is not pinned.
    fn find_idle_cpu(&self, index: usize) -> Option<usize> {
        let Thread { cpu, is_pinned, .. } = self.threads[index];
        let others = (1..self.running.len()).map(|place| (cpu + place) % self.running.len());
        let others = others.filter(|_| !is_pinned);
        std::iter::once(cpu).chain(others).find(|&cpu| self.running[cpu].is_none())
    }

    fn migrate(&mut self, index: usize) {
        let to = self.random.below(self.running.len());
        if self.running[to].is_none() {
            self.running[self.threads[index].cpu] = None;
            self.running[to] = Some(index);
            self.threads[index].cpu = to;
        }
    }

    fn run(&mut self, now_ms: u32) {
        let slot = (now_ms / SLOT_MS) as usize;
        if self.busy_slots.len() <= slot {
            self.busy_slots.resize(slot + 1, 0);
        }
        let mut waits = vec![false; self.running.len()];
        for thread in self.threads.iter().filter(|thread| thread.state == State::Blocked) {
            waits[thread.cpu] = true;
            let process = &mut self.processes[thread.process.expect("interrupts do not read")];
            let waited = slot_mut(&mut process.disk_slots, slot);
            *waited = (*waited + STEP_MS as u16).min(SLOT_MS as u16);
        }
        for (cpu, waits) in waits.into_iter().enumerate() {
            let place = match self.running[cpu] {
                Some(index) => self.account_step(index, slot),
                None if waits => 4,
                None => 3,
            };
            // CPUs do not tick at the same moment.
            let is_tick = (now_ms + 4 * cpu as u32) % TICK_MS < STEP_MS;
            match self.counts_ticks {
                true if is_tick => self.accounts[cpu][place] += u64::from(TICK_MS),
                true => {}
                false => self.accounts[cpu][place] += u64::from(STEP_MS),
            }
            self.advance_thread(cpu, now_ms);
        }
    }

    /// Accounts a step of a running thread. Returns the index in [`Account`].
    fn account_step(&mut self, index: usize, slot: usize) -> usize {
        let is_system = self.random.unit() < self.threads[index].system;
        let thread = &mut self.threads[index];
        thread.slice_ms += STEP_MS;
        self.busy_slots[slot] += STEP_MS as u16;
        let Some(process) = thread.process else { return 2 };
        let process = &mut self.processes[process];
        *slot_mut(&mut process.cpu_slots, slot) += STEP_MS as u16;
        *(if is_system { &mut process.system_ms } else { &mut process.user_ms }) += STEP_MS;
        usize::from(is_system)
    }

    /// Moves the thread on `cpu` to its next state after a step.
    fn advance_thread(&mut self, cpu: usize, now_ms: u32) {
        let Some(index) = self.running[cpu] else { return };
        let workload = self.workload(index, now_ms + STEP_MS);
        let State::Running { left_ms } = &mut self.threads[index].state else { return };
        *left_ms = left_ms.saturating_sub(STEP_MS);
        let is_over = *left_ms == 0;
        let next = match workload {
            Workload::Sleep => State::Asleep { until_ms: now_ms + STEP_MS },
            Workload::Compute => return,
            _ if !is_over => return,
            Workload::Pulse { sleep_ms, .. } | Workload::Write { sleep_ms, .. } => {
                State::Asleep { until_ms: now_ms + STEP_MS + self.about(sleep_ms) }
            }
            Workload::Read { request_ms, .. } => {
                self.request(index, request_ms);
                State::Blocked
            }
            Workload::Turns { .. } => {
                self.turns += 1;
                State::Asleep { until_ms: now_ms + STEP_MS }
            }
        };
        self.threads[index].state = next;
        self.running[cpu] = None;
    }
}

fn slot_mut(slots: &mut Vec<u16>, slot: usize) -> &mut u16 {
    if slots.len() <= slot {
        slots.resize(slot + 1, 0);
    }
    &mut slots[slot]
}
