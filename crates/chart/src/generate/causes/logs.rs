//! What a recorder writes about the simulated machine: samples with jitter, counters in ticks, an absolute or relative clock.

use std::fmt::Write as _;

use super::machine::{STEP_MS, SimulatedMachine, SimulatedProcess};
use super::{GroundTruth, KnownBoot, SLOT_MS, Segment, Work};
use crate::model::Span;
use brisk_base::random::Random;

/// The highest frequency of the machine's CPUs.
const MAXIMUM_KHZ: f64 = 2_000_000.0;

/// Runs the machine to the end and records it. Times of segments are in the machine's time, which starts at 0.
pub fn record(
    mut machine: SimulatedMachine,
    random: &mut Random,
    mut segments: Vec<Segment>,
    sample_ms: u32,
    (done_ms, end_ms): (u32, u32),
) -> KnownBoot {
    // The kernel's uptime when the recorder starts, and the time of the logs' clock at that moment.
    let since_boot_ms = 1000 + 10 * random.below(800) as u32;
    let is_relative = random.unit() < 0.25;
    let clock_ms = if is_relative { 10 * random.below(30) as u32 } else { since_boot_ms };
    let speed = match random.below(10) {
        0 | 1 => Some(1.0),
        2 => Some(0.4 + 0.3 * random.unit()),
        _ => None,
    };
    let mut logs = Logs::new(machine.accounts.len(), sample_ms, since_boot_ms);
    let mut next_ms = 0;
    for now_ms in (0..end_ms).step_by(STEP_MS as usize) {
        if now_ms >= next_ms {
            logs.sample(&machine, now_ms, now_ms + clock_ms, speed);
            let jitter = 0.85 + 0.3 * random.unit() + if random.unit() < 0.03 { random.unit() } else { 0.0 };
            next_ms = now_ms + (f64::from(sample_ms) * jitter) as u32;
        }
        machine.step(now_ms);
    }
    logs.sample(&machine, end_ms, end_ms + clock_ms, speed);
    let shifted = |span: Span| Span::new(span.start_ms + clock_ms, span.end_ms + clock_ms);
    segments.iter_mut().for_each(|segment| segment.span = shifted(segment.span));
    let slots = machine.busy_slots.len();
    let work = |mut process: SimulatedProcess| {
        process.cpu_slots.resize(slots, 0);
        process.disk_slots.resize(slots, 0);
        Work { pid: process.pid, cpu_ms: process.cpu_slots, disk_ms: process.disk_slots }
    };
    let cpus = machine.accounts.len();
    let truth = GroundTruth {
        cpus,
        sample_ms,
        segments,
        done_ms: done_ms + clock_ms,
        speed,
        work: machine.processes.into_iter().map(work).collect(),
        busy_ms: machine.busy_slots,
        start_ms: clock_ms / SLOT_MS * SLOT_MS,
    };
    KnownBoot { files: logs.files(), truth }
}

struct Logs {
    header: String,
    stat: String,
    ps: String,
    disk: String,
    frequencies: String,
    since_boot_ms: u32,
}

impl Logs {
    fn new(cpus: usize, sample_ms: u32, since_boot_ms: u32) -> Self {
        let version = if sample_ms == 200 { "Android init 0.8" } else { "0.8" };
        let header = format!(
            "version = {version}\ntitle = Boot chart of known causes\nsystem.uname = Linux 6.1.0-generated #1 SMP\n\
             system.cpu = model name : simulated ({cpus})\nsystem.kernel.options = quiet\n"
        );
        let [stat, ps, disk, frequencies] = [const { String::new() }; 4];
        Self { header, stat, ps, disk, frequencies, since_boot_ms }
    }

    fn files(self) -> Vec<(&'static str, Vec<u8>)> {
        let files = [
            ("header", self.header),
            ("proc_stat.log", self.stat),
            ("proc_ps.log", self.ps),
            ("proc_diskstats.log", self.disk),
            ("cpufreq.log", self.frequencies),
        ];
        files.into_iter().filter(|(_, text)| !text.is_empty()).map(|(name, text)| (name, text.into_bytes())).collect()
    }

    // Writing to a string cannot fail.
    fn sample(&mut self, machine: &SimulatedMachine, now_ms: u32, shown_ms: u32, speed: Option<f64>) {
        let time = shown_ms / 10;
        let ticks = |ms: u64| ms / 10;
        let sum = |place: usize| ticks(machine.accounts.iter().map(|account| account[place]).sum());
        let line = |name: &str, of: &dyn Fn(usize) -> u64| {
            let [user, system, soft, idle, wait] = [of(0), of(1), of(2), of(3), of(4)];
            format!("{name} {user} 0 {system} {idle} {wait} 0 {soft} 0 0 0\n")
        };
        let _ = write!(self.stat, "{time}\n{}", line("cpu ", &sum));
        for (number, account) in machine.accounts.iter().enumerate() {
            self.stat.push_str(&line(&format!("cpu{number}"), &|place| ticks(account[place])));
        }
        let _ = writeln!(
            self.stat,
            "intr {}\nctxt {}\nbtime 1767225600\nprocesses {}\n",
            now_ms,
            now_ms * 3,
            machine.count()
        );
        let _ = writeln!(self.ps, "{time}");
        let lives =
            |process: &&SimulatedProcess| (process.born_ms..process.dies_ms).contains(&now_ms) || process.born_ms == 0;
        for process in machine.processes.iter().filter(lives) {
            let SimulatedProcess { pid, parent, name, user_ms, system_ms, threads, born_ms, .. } = process;
            let start =
                if *born_ms == 0 { 3 + u64::from(*pid) / 2 } else { ticks(u64::from(born_ms + self.since_boot_ms)) };
            let _ = writeln!(
                self.ps,
                "{pid} ({name}) {} {parent} {pid} 0 0 -1 4194560 90 0 0 0 {} {} 0 0 20 0 {threads} 0 {start} 4096 90 0 1 1 0",
                machine.letter(process),
                user_ms / 10,
                system_ms / 10,
            );
        }
        self.ps.push('\n');
        let (kib, busy_ms, requests) = (machine.disk_kib, machine.disk_busy_ms, machine.disk_requests);
        let _ = writeln!(
            self.disk,
            "{time}\n 179 0 mmcblk0 {requests} 0 {} {busy_ms} 5 0 400 20 0 {busy_ms} {}\n 179 1 mmcblk0p1 9 0 80 5 0 0 0 0 0 5 5\n",
            kib * 2,
            busy_ms * 2
        );
        if let Some(speed) = speed {
            let _ = writeln!(self.frequencies, "{time}");
            for cpu in 0..machine.accounts.len() {
                let _ = writeln!(self.frequencies, "cpu{cpu} {:.0} {MAXIMUM_KHZ:.0}", MAXIMUM_KHZ * speed);
            }
            self.frequencies.push('\n');
        }
    }
}
