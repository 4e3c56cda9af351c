//! Boots whose causes are known: a small machine is simulated, thread by thread, and its logs are written as a recorder on a
//! device writes them. The simulation is the ground truth; this module does not depend on the diagnosis.
//!
//! A boot is a series of [`Segment`]s of one [`Cause`] each, then idle time. The background activity is that of a device: other
//! processes that wake up, kernel threads, a logger that writes, short-lived processes, the recorder itself.

mod logs;
mod machine;

use std::ops::Range;

use crate::model::Span;
use brisk_base::random::Random;
use machine::{Part, SimulatedMachine, Workload};

/// Why a segment took as long as it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// Readers keep the disk busy all the time.
    Disk,
    /// One thread computes.
    OneCpu,
    /// This many threads compute, fewer than there are CPUs.
    SeveralCpus(usize),
    /// More threads want to compute than there are CPUs; on one CPU one is enough.
    Contention,
    /// Threads of one process pass a lock on: one of them computes at any time, on its own CPU.
    Lock,
    /// Threads compute a part of the time and sleep in between; no CPU is busy all the time.
    PartTime,
    /// A process waits for a device; CPUs and disk are idle.
    Device,
    /// This many CPUs run kernel threads.
    KernelThreads(usize),
    /// This many CPUs handle interrupts, outside of any process.
    Interrupts(usize),
}

/// A part of a boot with one cause.
#[derive(Debug, Clone, PartialEq)]
pub struct Segment {
    /// Why it took so long.
    pub cause: Cause,
    /// When, by the clock of the logs.
    pub span: Span,
    /// The PIDs of the processes that compute, read, or wait for the device.
    pub about: Vec<u32>,
}

/// What one process did in each slot of [`SLOT_MS`].
#[derive(Debug, Clone, PartialEq)]
pub struct Work {
    /// Its PID.
    pub pid: u32,
    /// Milliseconds of CPU time in each slot.
    cpu_ms: Vec<u16>,
    /// Milliseconds in which one of its threads waited for the disk, in each slot.
    disk_ms: Vec<u16>,
}

/// The resolution of the ground truth.
pub const SLOT_MS: u32 = 10;

/// What really happened in a boot.
#[derive(Debug, Clone, PartialEq)]
pub struct GroundTruth {
    /// How many CPUs there are.
    pub cpus: usize,
    /// The recorder's average sampling period.
    pub sample_ms: u32,
    /// In order of time.
    pub segments: Vec<Segment>,
    /// When the last segment's work ended, by the clock of the logs.
    pub done_ms: u32,
    /// The frequency that all CPUs had, as a share of the highest, where it was recorded.
    pub speed: Option<f64>,
    /// Each process; CPU time outside of any process is not included.
    pub work: Vec<Work>,
    /// Milliseconds of CPU time of all CPUs in each slot.
    busy_ms: Vec<u16>,
    /// The time of the first slot on the logs' clock.
    start_ms: u32,
}

/// A recording and what really happened.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownBoot {
    /// The recording's files by name.
    pub files: Vec<(&'static str, Vec<u8>)>,
    pub truth: GroundTruth,
}

impl GroundTruth {
    fn slots(&self, span: Span) -> Range<usize> {
        let slot = |ms: u32| (ms.saturating_sub(self.start_ms) / SLOT_MS) as usize;
        let last = self.busy_ms.len();
        slot(span.start_ms).min(last)..slot(span.end_ms).min(last)
    }

    /// CPU time of all CPUs in `span`, in milliseconds.
    pub fn busy_ms(&self, span: Span) -> u32 {
        self.busy_ms[self.slots(span)].iter().copied().map(u32::from).sum()
    }

    /// CPU time of the process `pid` in `span`, in milliseconds.
    pub fn cpu_ms(&self, pid: u32, span: Span) -> u32 {
        self.sum(pid, span, |work| &work.cpu_ms)
    }

    /// How long the process `pid` waited for the disk in `span`, in milliseconds.
    pub fn disk_wait_ms(&self, pid: u32, span: Span) -> u32 {
        self.sum(pid, span, |work| &work.disk_ms)
    }

    fn sum(&self, pid: u32, span: Span, values: impl Fn(&Work) -> &Vec<u16>) -> u32 {
        let slots = self.slots(span);
        let of_pid = self.work.iter().filter(|work| work.pid == pid);
        of_pid.flat_map(|work| &values(work)[slots.clone()]).copied().map(u32::from).sum()
    }
}

/// What is decided before the first segment.
struct Plan {
    cpus: usize,
    sample_ms: u32,
    /// Each cause and its length.
    segments: Vec<(Cause, u32)>,
    idle_ms: u32,
}

/// A boot of random causes that `seed` determines.
pub fn any(seed: u64) -> KnownBoot {
    let mut random = Random::stream(seed, 1);
    let cpus = [1, 2, 2, 3, 4, 4, 4, 6, 8, 8][random.below(10)];
    let segments = if random.unit() < 0.4 { 1 } else { 2 + random.below(4) };
    let mut causes: Vec<Cause> = Vec::new();
    while causes.len() < segments {
        let cause = random_cause(&mut random, cpus);
        let waits_last = cause == Cause::Device && causes.len() + 1 == segments;
        if !waits_last && causes.last() != Some(&cause) {
            causes.push(cause);
        }
    }
    known(seed, cpus, &causes)
}

/// A boot of these causes, one after the other, on this many CPUs. A device cannot come last.
pub fn known(seed: u64, cpus: usize, causes: &[Cause]) -> KnownBoot {
    let mut random = Random::stream(seed, 2);
    let sample_ms = [40, 40, 100, 200, 200, 200, 500][random.below(7)];
    // A segment is at least eight samples, and a twelfth of the boot.
    let mut length = || ((1200.0 + 4800.0 * random.unit()) as u32).max(8 * sample_ms) / SLOT_MS * SLOT_MS;
    let mut segments: Vec<(Cause, u32)> = causes.iter().map(|&cause| (cause, length())).collect();
    let least_ms = segments.iter().map(|(_, ms)| ms).sum::<u32>() / 12 / SLOT_MS * SLOT_MS;
    segments.iter_mut().for_each(|(_, ms)| *ms = (*ms).max(least_ms));
    let idle_ms = if random.unit() < 0.6 { 500 + 10 * random.below(600) as u32 } else { 0 };
    Boot::new(seed, &Plan { cpus, sample_ms, segments, idle_ms }).run()
}

fn random_cause(random: &mut Random, cpus: usize) -> Cause {
    loop {
        let up_to = |random: &mut Random, most: usize| 1 + random.below(most);
        match random.below(9) {
            0 | 1 => return Cause::Disk,
            2 if cpus > 1 => return Cause::OneCpu,
            3 if cpus > 2 => return Cause::SeveralCpus(2 + random.below(cpus - 2)),
            4 => return Cause::Contention,
            5 if cpus > 1 => return Cause::Lock,
            6 => return Cause::PartTime,
            7 => return Cause::Device,
            8 if random.unit() < 0.5 => return Cause::KernelThreads(up_to(random, cpus)),
            8 => return Cause::Interrupts(up_to(random, cpus)),
            _ => {}
        }
    }
}

const NAMES: [&str; 24] = [
    "zygote64",
    "system_server",
    "surfaceflinger",
    "dex2oat64",
    "vold",
    "mediaserver",
    "keystore2",
    "netd",
    "systemd",
    "udevd",
    "Xorg",
    "gdm",
    "nautilus",
    "mkinitramfs",
    "ldconfig",
    "fsck.ext4",
    "python3",
    "java",
    "node",
    "NetworkManager",
    "wpa_supplicant",
    "bluetoothd",
    "kiosk",
    "navigation",
];

/// A boot being built.
struct Boot<'a> {
    plan: &'a Plan,
    random: Random,
    machine: SimulatedMachine,
    segments: Vec<Segment>,
    names: Vec<&'static str>,
}

impl<'a> Boot<'a> {
    fn new(seed: u64, plan: &'a Plan) -> Self {
        let mut random = Random::stream(seed, 3);
        let machine = SimulatedMachine::new(plan.cpus, Random::stream(seed, 4));
        let mut names = NAMES.to_vec();
        random.shuffle(&mut names);
        Self { plan, random, machine, segments: Vec::new(), names }
    }

    fn run(mut self) -> KnownBoot {
        let init = self.machine.process(1, 0, "init", 0);
        self.machine.thread(init, Part::always(Workload::Pulse { run_ms: 2, sleep_ms: 900 }));
        self.add_background_processes();
        let mut start_ms = 0;
        let mut device_since = None;
        for (cause, length_ms) in self.plan.segments.clone() {
            let span = Span::new(start_ms, start_ms + length_ms);
            self.segment(cause, span, &mut device_since);
            start_ms = span.end_ms;
        }
        let end_ms = start_ms + self.plan.idle_ms;
        logs::record(self.machine, &mut self.random, self.segments, self.plan.sample_ms, (start_ms, end_ms))
    }

    /// Adds processes that are unrelated to the causes.
    fn add_background_processes(&mut self) {
        let kthreadd = self.machine.process(2, 0, "kthreadd", 0);
        self.machine.thread(kthreadd, Part::always(Workload::Sleep));
        for (pid, name) in (3..).zip(["rcu_preempt", "ksoftirqd/0", "kswapd0", "migration/0", "kworker/0:1"]) {
            let process = self.machine.process(pid, 2, name, 0);
            let sleep_ms = 100 + self.random.below(900) as u32;
            self.machine.thread(process, Part::always(Workload::Pulse { run_ms: 2, sleep_ms }));
        }
        for number in 0..8 + self.random.below(10) as u32 {
            let process = self.machine.process(100 + number, 1, "daemon", 0);
            let sleep_ms = 300 + self.random.below(900) as u32;
            self.machine.thread(process, Part::always(Workload::Pulse { run_ms: 2, sleep_ms }));
        }
        let recorder = self.machine.process(90, 1, "bootchartd", 0);
        let sleep_ms = self.plan.sample_ms;
        self.machine.thread(recorder, Part::always(Workload::Pulse { run_ms: 2 + sleep_ms / 100, sleep_ms }));
        let log = self.machine.process(91, 1, "logd", 0);
        let compute_ms = 300 + self.random.below(600) as u32;
        self.machine.thread(log, Part::always(Workload::Write { request_ms: 4, sleep_ms: compute_ms }));
    }

    fn segment(&mut self, cause: Cause, span: Span, device_since: &mut Option<u32>) {
        if cause == Cause::Device {
            device_since.get_or_insert(span.start_ms);
            self.segments.push(Segment { cause, span, about: Vec::new() });
            return;
        }
        // A process that waits for a device exists before the wait begins.
        let born_ms = match *device_since {
            Some(since_ms) => since_ms / 2,
            None if self.random.unit() < 0.5 => span.start_ms,
            None => span.start_ms / 2,
        };
        let about = self.workers(cause, span, born_ms / 2 * 2);
        if device_since.take().is_some() {
            let waits = self.segments.iter_mut().rev().take_while(|segment| segment.cause == Cause::Device);
            waits.for_each(|segment| segment.about.clone_from(&about));
        }
        self.segments.push(Segment { cause, span, about });
    }

    /// Adds the processes of a segment. Returns their PIDs.
    fn workers(&mut self, cause: Cause, span: Span, born_ms: u32) -> Vec<u32> {
        let cpus = self.plan.cpus;
        match cause {
            Cause::Device => Vec::new(),
            Cause::Disk => self.readers(span, born_ms),
            Cause::OneCpu => vec![self.computing(1, span, born_ms)],
            Cause::SeveralCpus(threads) => self.spread(threads, span, born_ms),
            Cause::Contention if cpus == 1 && self.random.unit() < 0.4 => vec![self.computing(1, span, born_ms)],
            Cause::Contention => {
                let threads = cpus + 1 + self.random.below(2 * cpus);
                self.spread(threads, span, born_ms)
            }
            Cause::Lock => {
                let (pid, process) = self.begin(1, born_ms);
                let run_ms = 4 + self.random.below(12) as u32;
                for turn in 0..cpus.max(4) as u32 {
                    let workload = Workload::Turns { run_ms, turn, of: cpus.max(4) as u32 };
                    self.machine.pinned_thread(process, Part::within(span, workload), turn as usize % cpus);
                }
                vec![pid]
            }
            Cause::PartTime => {
                let (pid, process) = self.begin(1, born_ms);
                let threads = if cpus == 1 { 1 } else { 2 + self.random.below(cpus - 1) };
                let share = 0.35 + 0.2 * self.random.unit();
                let run_ms = 4 + self.random.below(12) as u32;
                let sleep_ms = (f64::from(run_ms) * (1.0 / share - 1.0)) as u32;
                for cpu in 0..threads {
                    let workload = Workload::Pulse { run_ms, sleep_ms };
                    self.machine.pinned_thread(process, Part::within(span, workload), cpu);
                }
                vec![pid]
            }
            Cause::KernelThreads(threads) => {
                let thread = |boot: &mut Self, number: usize| {
                    let pid = 40 + number as u32 + 8 * boot.segments.len() as u32;
                    let process = boot.machine.process(pid, 2, &format!("kworker/u{number}:2"), born_ms);
                    boot.machine.thread(process, Part::within(span, Workload::Compute));
                    pid
                };
                (0..threads).map(|number| thread(self, number)).collect()
            }
            Cause::Interrupts(cpus) => {
                (0..cpus).for_each(|_| self.machine.interrupts(Part::within(span, Workload::Compute)));
                Vec::new()
            }
        }
    }

    fn begin(&mut self, parent: u32, born_ms: u32) -> (u32, usize) {
        let pid = 300 + 7 * self.machine.count() as u32;
        let name = self.names.pop().unwrap_or("worker");
        (pid, self.machine.process(pid, parent, name, born_ms))
    }

    /// One process with this many computing threads, and a few that mostly sleep.
    fn computing(&mut self, threads: usize, span: Span, born_ms: u32) -> u32 {
        let (pid, process) = self.begin(1, born_ms);
        let sleepers = if self.random.unit() < 0.5 { 0 } else { 1 + self.random.below(6) };
        let leader_sleeps = sleepers > 0 && self.random.unit() < 0.5;
        let pulse = Workload::Pulse { run_ms: 2, sleep_ms: 600 };
        if leader_sleeps {
            self.machine.thread(process, Part::always(pulse));
        }
        (0..threads).for_each(|_| self.machine.thread(process, Part::within(span, Workload::Compute)));
        (usize::from(leader_sleeps)..sleepers).for_each(|_| self.machine.thread(process, Part::always(pulse)));
        pid
    }

    /// This many computing threads: in one process, half in one and the rest in one each, or in a process each.
    fn spread(&mut self, threads: usize, span: Span, born_ms: u32) -> Vec<u32> {
        match self.random.below(3) {
            0 => vec![self.computing(threads, span, born_ms)],
            1 => {
                let first = threads.div_ceil(2);
                let mut pids = vec![self.computing(first, span, born_ms)];
                pids.extend((first..threads).map(|_| self.computing(1, span, born_ms)));
                pids
            }
            _ => (0..threads).map(|_| self.computing(1, span, born_ms)).collect(),
        }
    }

    /// Readers that keep the disk busy, and compute between requests.
    fn readers(&mut self, span: Span, born_ms: u32) -> Vec<u32> {
        let cpus = self.plan.cpus;
        let readers = 1 + self.random.below(if cpus == 1 { 3 } else { 2 * cpus });
        let request_ms = 4 + 2 * self.random.below(7) as u32;
        // The disk serves one request at a time: readers together compute for at most this share of one CPU.
        let most = if cpus == 1 || readers == 1 { 0.45 } else { 0.9 };
        let compute_ms = ((f64::from(request_ms) * most * self.random.unit()) as u32).max(1);
        let workload = Workload::Read { compute_ms, request_ms };
        if self.random.unit() < 0.3 {
            let (pid, process) = self.begin(1, born_ms);
            (0..readers).for_each(|_| self.machine.thread(process, Part::within(span, workload)));
            return vec![pid];
        }
        let reader = |boot: &mut Self| {
            let (pid, process) = boot.begin(1, born_ms);
            boot.machine.thread(process, Part::within(span, workload));
            pid
        };
        (0..readers).map(|_| reader(self)).collect()
    }
}
