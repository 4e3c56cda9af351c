//! Generated recordings: logs of any size in the format of Android's init, for tests and benchmarks.
//!
//! They model a phone's boot: the kernel and init read from the flash, zygote preloads on one CPU, the system server and its
//! services use all CPUs, every process waits for a slow device, applications start. The seed determines all random choices.

pub mod causes;

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use brisk_base::random::Random;

/// What to write.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// How long the boot takes.
    pub seconds: u32,
    /// Samples a second.
    pub hertz: u32,
    /// Processes in all.
    pub processes: u32,
    /// Processes at any time.
    pub alive: u32,
    pub cpus: u32,
    /// With `cpufreq.log`: zygote preloads below the highest frequency.
    pub frequencies: bool,
    /// Factor on the time of preloading, for two boots that differ: 1.0 is the usual time.
    pub preload_factor: f64,
    /// Determines all random choices.
    pub seed: u64,
}

impl Shape {
    /// A boot of 30 seconds on four CPUs.
    pub const SMALL: Self = Self {
        seconds: 30,
        hertz: 5,
        processes: 160,
        alive: 60,
        cpus: 4,
        frequencies: true,
        preload_factor: 1.0,
        seed: 1,
    };

    /// Ten minutes and some 48 MB.
    pub const LARGE: Self = Self { seconds: 600, processes: 5000, alive: 100, frequencies: false, ..Self::SMALL };
}

/// What a boot does in one part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Segment {
    Reading,
    Preload,
    Services,
    Waiting,
    Applications,
    Idle,
}

/// Segments and their shares of the boot.
const SEGMENTS: [(Segment, f64); 6] = [
    (Segment::Reading, 0.10),
    (Segment::Preload, 0.25),
    (Segment::Services, 0.25),
    (Segment::Waiting, 0.12),
    (Segment::Applications, 0.20),
    (Segment::Idle, 0.08),
];

const SERVICES: [&str; 16] = [
    "/system/bin/ueventd",
    "/system/bin/logd",
    "/system/bin/servicemanager",
    "/system/bin/vold",
    "/system/bin/netd",
    "/system/bin/surfaceflinger",
    "/system/bin/installd",
    "/system/bin/keystore2",
    "/system/bin/mediaserver",
    "/system/bin/audioserver",
    "/system/bin/cameraserver",
    "/system/bin/bootanimation",
    "com.android.systemui",
    "com.android.phone",
    "com.android.launcher3",
    "com.android.bluetooth",
];

const SHORT_LIVED: [&str; 8] = [
    "/system/bin/sh",
    "/system/bin/toybox",
    "/vendor/bin/modprobe",
    "/system/bin/dex2oat64",
    "/system/bin/idmap2",
    "com.android.providers.media",
    "android.process.acore",
    "/system/bin/app_process64",
];

const KERNEL_THREADS: [&str; 6] = ["ksoftirqd/0", "kworker/0:1", "rcu_preempt", "kswapd0", "mmcqd/0", "migration/1"];

const KTHREADD: u32 = 2;
const ZYGOTE: u32 = 300;
const SYSTEM_SERVER: u32 = 900;

struct Task {
    pid: u32,
    parent: u32,
    name: String,
    state: char,
    ticks: u64,
    start: u64,
    end: u64,
    is_service: bool,
}

/// Writes `header`, `proc_stat.log`, `proc_ps.log`, `proc_diskstats.log` and, when wanted, `cpufreq.log` into `folder`.
///
/// # Errors
/// Write errors.
pub fn android(shape: &Shape, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let create = |name: &str| File::create(folder.join(name)).map(|file| BufWriter::with_capacity(1 << 20, file));
    writeln!(
        create("header")?,
        "version = Android init 0.8\ntitle = Boot chart for Android (2026-01-01 00:00:00)\n\
         system.uname = Linux 5.10.0-generated #1 SMP PREEMPT aarch64\n\
         system.release = brisk/generated/seed-{}:14/BR1/1:userdebug/test-keys\nsystem.cpu = aarch64\n\
         system.kernel.options = androidboot.hardware=generated",
        shape.seed
    )?;
    let mut simulation = Simulation::new(shape);
    let (mut stat, mut ps, mut disk) =
        (create("proc_stat.log")?, create("proc_ps.log")?, create("proc_diskstats.log")?);
    let mut frequencies = if shape.frequencies { Some(create("cpufreq.log")?) } else { None };
    for sample in 0..u64::from(shape.seconds) * u64::from(shape.hertz) {
        let now = FIRST_TICK + sample * 100 / u64::from(shape.hertz);
        simulation.step(now);
        simulation.write_stat(now, &mut stat)?;
        simulation.write_ps(now, &mut ps)?;
        simulation.write_disk(now, &mut disk)?;
        if let Some(frequencies) = &mut frequencies {
            simulation.write_frequencies(now, frequencies)?;
        }
    }
    stat.flush()?;
    ps.flush()?;
    disk.flush()?;
    frequencies.map_or(Ok(()), |mut frequencies| frequencies.flush())
}

/// Android's init starts to record some 2 s after the kernel.
const FIRST_TICK: u64 = 200;

struct Simulation<'a> {
    shape: &'a Shape,
    random: Random,
    tasks: Vec<Task>,
    before: u64,
    length: u64,
    next_pid: u32,
    begun: u32,
    /// user, system, idle, I/O wait of each CPU.
    cpus: Vec<[u64; 4]>,
    sectors: [u64; 2],
    disk_ms: u64,
}

impl<'a> Simulation<'a> {
    fn new(shape: &'a Shape) -> Self {
        let mut simulation = Self {
            shape,
            random: Random::new(shape.seed),
            tasks: Vec::new(),
            before: FIRST_TICK,
            length: u64::from(shape.seconds) * 100,
            next_pid: 1000,
            begun: 0,
            cpus: vec![[10, 40, 100, 20]; shape.cpus as usize],
            sectors: [2000, 100],
            disk_ms: 300,
        };
        simulation.begin(1, 0, "/init", 4, u64::MAX, true);
        simulation.begin(KTHREADD, 0, "kthreadd", 4, u64::MAX, true);
        for (index, name) in (3..).zip(KERNEL_THREADS) {
            simulation.begin(index, KTHREADD, name, 5 + u64::from(index), u64::MAX, true);
        }
        simulation
    }

    fn begin(&mut self, pid: u32, parent: u32, name: &str, start: u64, end: u64, is_service: bool) {
        self.begun += 1;
        self.tasks.push(Task { pid, parent, name: name.to_owned(), state: 'S', ticks: 0, start, end, is_service });
    }

    fn segment(&self, now: u64) -> Segment {
        let stretched = |(segment, share): (Segment, f64)| {
            if segment == Segment::Preload { share * self.shape.preload_factor } else { share }
        };
        let mut end = FIRST_TICK as f64;
        for part in SEGMENTS {
            end += stretched(part) * self.length as f64;
            if (now as f64) < end {
                return part.0;
            }
        }
        Segment::Idle
    }

    fn step(&mut self, now: u64) {
        let segment = self.segment(now);
        self.tasks.retain(|task| task.end > now);
        self.begin_services(segment, now);
        self.begin_short_lived(now);
        self.spend(segment, now);
        self.before = now;
    }

    fn begin_services(&mut self, segment: Segment, now: u64) {
        let known = |simulation: &Self, pid: u32| simulation.tasks.iter().any(|task| task.pid == pid);
        if segment != Segment::Reading && !known(self, ZYGOTE) {
            self.begin(ZYGOTE, 1, "zygote64", self.before + 1, u64::MAX, true);
        }
        if matches!(segment, Segment::Services) && !known(self, SYSTEM_SERVER) {
            self.begin(SYSTEM_SERVER, ZYGOTE, "system_server", self.before + 2, u64::MAX, true);
        }
        let services = self.tasks.iter().filter(|task| task.is_service).count();
        let wanted = match segment {
            Segment::Reading => 12,
            Segment::Preload => 16,
            _ => self.shape.alive as usize * 6 / 10,
        };
        let room = (self.shape.alive as usize).saturating_sub(self.tasks.len());
        for _ in 0..wanted.saturating_sub(services).min(room).min(4) {
            let name = SERVICES[self.random.below(SERVICES.len())];
            let parent = if name.starts_with('/') { 1 } else { ZYGOTE };
            let start = self.before + 1 + self.random.below((now - self.before).max(2) as usize - 1) as u64;
            self.next_pid += 1;
            self.begin(self.next_pid, parent, name, start, u64::MAX, true);
        }
    }

    /// Starts as many short-lived processes as are due for all of them to have run by the end.
    fn begin_short_lived(&mut self, now: u64) {
        let due = (f64::from(self.shape.processes) * ((now - FIRST_TICK) as f64 / self.length as f64)) as u32;
        while self.begun < due {
            let name = SHORT_LIVED[self.random.below(SHORT_LIVED.len())];
            let parents = [1, ZYGOTE, SYSTEM_SERVER];
            let alive = |pid: &&u32| self.tasks.iter().any(|task| task.pid == **pid);
            let parent = parents.iter().rfind(alive).copied().unwrap_or(1);
            let parent = if name.starts_with('/') { 1 } else { parent };
            let start = self.before + 1;
            // Little's law: the number alive is the rate of starts times the mean lifetime.
            let services = self.tasks.iter().filter(|task| task.is_service).count() as u64;
            let room = u64::from(self.shape.alive).saturating_sub(services);
            let mean = room * self.length / u64::from(self.shape.processes).max(1);
            let lives = mean / 5 + self.random.below((mean * 8 / 5).max(1) as usize) as u64;
            self.next_pid += 1 + self.random.below(3) as u32;
            self.begin(self.next_pid, parent, name, start, start + lives, false);
        }
    }

    /// Distributes CPU time to tasks according to the segment.
    fn spend(&mut self, segment: Segment, now: u64) {
        let period = now - self.before;
        let cpus = self.cpus.len() as u64;
        let (busy, wait, share) = match segment {
            Segment::Reading => (cpus * period / 8, period, 1.0),
            Segment::Preload => (period, 0, 1.0),
            Segment::Services => (cpus * period * 9 / 10, period / 10, 0.1),
            Segment::Waiting => (period / 20, 0, 0.5),
            Segment::Applications => (cpus * period / 2, period / 5, 0.15),
            Segment::Idle => (period / 50, 0, 0.5),
        };
        for task in &mut self.tasks {
            task.state = 'S';
        }
        let mut left = busy;
        for _ in 0..64 {
            let favourite = match segment {
                Segment::Preload => Some(ZYGOTE),
                Segment::Services if left == busy => Some(SYSTEM_SERVER),
                _ => None,
            };
            let index = favourite.and_then(|pid| self.tasks.iter().position(|task| task.pid == pid));
            let index = index.unwrap_or_else(|| self.random.below(self.tasks.len()));
            let ticks = ((period as f64 * share) as u64).clamp(1, left.max(1)).min(left);
            let task = &mut self.tasks[index];
            task.ticks += ticks;
            task.state = if segment == Segment::Reading { 'D' } else { 'R' };
            left -= ticks;
            if left == 0 {
                break;
            }
        }
        let first = self.random.below(self.cpus.len());
        let (mut busy, mut wait_left) = (busy - left, wait);
        for index in 0..self.cpus.len() {
            let place = (first + index) % self.cpus.len();
            let cpu = &mut self.cpus[place];
            let worked = busy.min(period);
            let waited = wait_left.min(period - worked);
            busy -= worked;
            wait_left -= waited;
            cpu[0] += worked * 7 / 10;
            cpu[1] += worked - worked * 7 / 10;
            cpu[2] += period - worked - waited;
            cpu[3] += waited;
        }
        let sectors = wait * 40_000 / 100;
        self.sectors[0] += sectors;
        self.sectors[1] += sectors / 10;
        self.disk_ms += wait * 10;
    }

    fn write_stat(&self, now: u64, out: &mut impl Write) -> io::Result<()> {
        let sum = |place: usize| self.cpus.iter().map(|cpu| cpu[place]).sum::<u64>();
        writeln!(out, "{now}\ncpu  {} 0 {} {} {} 0 0 0 0 0", sum(0), sum(1), sum(2), sum(3))?;
        for (number, [user, system, idle, wait]) in self.cpus.iter().enumerate() {
            writeln!(out, "cpu{number} {user} 0 {system} {idle} {wait} 0 0 0 0 0")?;
        }
        write!(out, "intr {}", now * 31)?;
        for irq in 0..200u64 {
            write!(out, " {}", if irq % 17 == 0 { now * irq } else { 0 })?;
        }
        let running = self.tasks.iter().filter(|task| task.state == 'R').count();
        writeln!(
            out,
            "\nctxt {}\nbtime 1767225600\nprocesses {}\nprocs_running {running}\nprocs_blocked 0\n",
            now * 97,
            self.begun
        )
    }

    fn write_ps(&self, now: u64, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "{now}")?;
        for task in &self.tasks {
            let Task { pid, parent, name, state, ticks, start, .. } = task;
            let (user, system) = (ticks * 7 / 10, ticks - ticks * 7 / 10);
            let pages = 900 + pid % 977;
            writeln!(
                out,
                "{pid} ({name}) {state} {parent} {pid} 0 0 -1 4194560 {pages} 0 0 0 {user} {system} 0 0 20 0 1 0 {start} \
                 {} {pages} 18446744073709551615 1 1 0 0 0 0 4612 0 1073775864 0 0 0 17 {}",
                u64::from(pages) * 40_960,
                pid % self.shape.cpus,
            )?;
        }
        writeln!(out)
    }

    fn write_disk(&self, now: u64, out: &mut impl Write) -> io::Result<()> {
        let [read, written] = self.sectors;
        writeln!(
            out,
            "{now}\n 179       0 mmcblk0 {} 0 {read} {} {} 0 {written} {} 0 {} {}",
            read / 32,
            self.disk_ms,
            written / 16,
            self.disk_ms / 2,
            self.disk_ms,
            self.disk_ms * 2
        )?;
        writeln!(out, " 179       1 mmcblk0p1 10 0 80 5 0 0 0 0 0 5 5\n")
    }

    fn write_frequencies(&self, now: u64, out: &mut impl Write) -> io::Result<()> {
        let khz = match self.segment(now) {
            Segment::Preload => 1_200_000,
            Segment::Services | Segment::Applications => 1_800_000,
            _ => 600_000,
        };
        writeln!(out, "{now}")?;
        for cpu in 0..self.cpus.len() {
            writeln!(out, "cpu{cpu} {khz} 1800000")?;
        }
        writeln!(out)
    }
}
