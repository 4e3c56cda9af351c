//! The contents of a recording in any format. Times are milliseconds since the kernel started.

use std::fmt;

/// One recorded boot.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Boot {
    /// What the recorder wrote about the system, in its order: `title`, `system.uname`, `system.cpu` and so on.
    pub header: Vec<(String, String)>,
    /// Which recorder wrote it.
    pub format: Format,
    /// Where the recording begins and ends.
    pub span: Span,
    /// CPU time by sample.
    pub cpu: Vec<CpuSample>,
    /// Each CPU separately; empty when the recording has totals only.
    pub cores: Vec<Core>,
    /// Whole disks, without partitions.
    pub disks: Vec<Disk>,
    /// How long tasks waited for CPU, memory and I/O; empty when it was not recorded.
    pub pressures: Vec<Pressure>,
    /// Every process and initcall, sorted by start; parents are indices into this list.
    pub processes: Vec<Process>,
    /// Parts of the recording that could not be used.
    pub omissions: Vec<Omission>,
}

/// Which recorder wrote a log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    /// Android's init.
    Android,
    /// bootchart 0.8 and its successors, with /proc/PID/stat.
    #[default]
    Bootchart,
    /// bootchart2, with taskstats.
    Bootchart2,
    /// `brisk boot record`.
    Brisk,
}

impl Format {
    /// Its name in reports.
    pub fn words(self) -> &'static str {
        match self {
            Self::Android => "Android",
            Self::Bootchart => "bootchart",
            Self::Bootchart2 => "bootchart2",
            Self::Brisk => "brisk",
        }
    }
}

/// A time span; `end_ms` is not before `start_ms`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Span {
    /// Where it begins.
    pub start_ms: u32,
    /// Where it ends.
    pub end_ms: u32,
}

impl Span {
    /// From `start_ms` to `end_ms`, or empty at `start_ms` when that is later.
    pub fn new(start_ms: u32, end_ms: u32) -> Self {
        Self { start_ms, end_ms: end_ms.max(start_ms) }
    }

    /// How long it is.
    pub fn length_ms(self) -> u32 {
        self.end_ms - self.start_ms
    }

    /// How much of it lies within `other`.
    pub fn overlap_ms(self, other: Self) -> u32 {
        self.end_ms.min(other.end_ms).saturating_sub(self.start_ms.max(other.start_ms))
    }
}

/// Shares of the time of all CPUs together, from 0 to 1; the rest is idle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CpuSample {
    /// When.
    pub span: Span,
    /// User space, nice included.
    pub user: f32,
    /// The kernel, interrupts included.
    pub system: f32,
    /// Idle with a task waiting for a disk.
    pub io_wait: f32,
}

impl CpuSample {
    /// The busy share.
    pub fn busy(&self) -> f32 {
        self.user + self.system
    }
}

/// One CPU. `busy` and `io_wait` have a value for each sample of [`Boot::cpu`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Core {
    /// The N of `cpuN`.
    pub number: u32,
    /// The busy share of the interval, in percent; [`OFFLINE`] where the CPU was offline.
    pub busy: Vec<u8>,
    /// The share that it was idle while a task waited for a disk, in percent.
    pub io_wait: Vec<u8>,
    /// Changes of its frequency: time in ms, and frequency in kHz from then on; empty when unknown.
    pub frequency: Vec<(u32, u32)>,
    /// Its highest frequency, in kHz; 0 when unknown.
    pub maximum_khz: u32,
}

/// In [`Core::busy`]: the CPU was offline.
pub const OFFLINE: u8 = u8::MAX;

impl Core {
    /// The frequency at `time_ms` as a share of the highest, when both are known.
    pub fn speed_at(&self, time_ms: u32) -> Option<f32> {
        let after = self.frequency.partition_point(|&(from_ms, _)| from_ms <= time_ms);
        let (_, khz) = self.frequency.get(after.checked_sub(1)?)?;
        (self.maximum_khz > 0).then(|| (*khz as f32 / self.maximum_khz as f32).min(1.0))
    }
}

/// A whole disk.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Disk {
    /// The kernel's name.
    pub name: String,
    /// Its activity by sample.
    pub samples: Vec<DiskSample>,
}

/// What a disk did in one interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DiskSample {
    /// When.
    pub span: Span,
    /// Read, in KiB.
    pub read_kib: u32,
    /// Written, in KiB.
    pub written_kib: u32,
    /// The share of the interval with a request under way, from 0 to 1.
    pub busy: f32,
}

/// How long tasks waited for a resource (pressure stall information).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pressure {
    /// `cpu`, `memory` or `io`.
    pub name: String,
    /// In order of time.
    pub samples: Vec<PressureSample>,
}

/// Waiting in one interval, as shares of it from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PressureSample {
    /// When.
    pub span: Span,
    /// Some task waited.
    pub some: f32,
    /// Every task that had something to do waited.
    pub full: f32,
}

/// A process, or an initcall of the kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct Process {
    /// Its PID; 0 for an initcall.
    pub pid: u32,
    /// Its parent, as an index into [`Boot::processes`].
    pub parent: Option<usize>,
    /// Its name when it was last seen.
    pub name: String,
    /// Its command line, when it was recorded.
    pub command: Option<String>,
    /// Its kind.
    pub kind: Kind,
    /// Its lifetime, as far as it is known.
    pub span: Span,
    /// The largest number of threads that was sampled; 0 when it was not recorded.
    pub threads: u32,
    /// CPU time that it took during the recording.
    pub cpu_ms: u32,
    /// Time that it was sampled in uninterruptible sleep, which is mostly waiting for a disk.
    pub disk_wait_ms: u32,
    /// Its activity in order of time, with gaps where nothing is known.
    pub activity: Vec<Activity>,
}

impl Process {
    /// Its name without the folders of a path.
    pub fn label(&self) -> &str {
        match self.name.trim_end_matches('/').rsplit('/').next() {
            Some(base) if self.name.starts_with('/') && !base.is_empty() => base,
            _ => &self.name,
        }
    }
}

/// The kind of a row of the process tree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A process of user space.
    #[default]
    Process,
    /// A thread of the kernel.
    KernelThread,
    /// An initcall, from the kernel's log.
    Initcall,
}

/// A part of a process's life during which nothing changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Activity {
    /// When.
    pub span: Span,
    /// CPU time per time, in thousandths of one CPU; several threads can exceed 1000.
    pub cpu_permille: u16,
    /// The state at the end of the span.
    pub state: State,
}

/// A task's state as the kernel reports it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum State {
    /// Running or runnable.
    Running,
    /// Waiting for an event.
    #[default]
    Sleeping,
    /// Waiting for a disk, mostly.
    DiskWait,
    /// Stopped or traced.
    Stopped,
    /// Exited, not yet reaped.
    Zombie,
}

impl State {
    /// From the letter of /proc/PID/stat (proc(5)).
    pub fn from_letter(letter: u8) -> Option<Self> {
        Some(match letter {
            b'R' => Self::Running,
            b'S' | b'I' | b'W' | b'P' | b'K' => Self::Sleeping,
            b'D' => Self::DiskWait,
            b'T' | b't' => Self::Stopped,
            b'Z' | b'X' | b'x' => Self::Zombie,
            _ => return None,
        })
    }

    /// The letter that `ps` shows.
    pub fn letter(self) -> char {
        match self {
            Self::Running => 'R',
            Self::Sleeping => 'S',
            Self::DiskWait => 'D',
            Self::Stopped => 'T',
            Self::Zombie => 'Z',
        }
    }
}

/// A part of the recording that could not be used: the chart shows the rest and reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Omission {
    /// The file of the recording.
    pub file: String,
    /// What happened.
    pub what: &'static str,
    /// How often.
    pub count: u64,
    /// The line of the first occurrence; 0 where lines have no meaning.
    pub line: u64,
}

impl fmt::Display for Omission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        write!(f, ": {}", self.what)?;
        if self.count > 1 { write!(f, " ({} times)", self.count) } else { Ok(()) }
    }
}

impl Boot {
    /// The value of a header line.
    pub fn header_value(&self, key: &str) -> Option<&str> {
        self.header.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str()).filter(|v| !v.is_empty())
    }

    /// The number of CPUs: as recorded individually, else as in the header (`system.cpu.num`, or the number in brackets at the
    /// end of `system.cpu`), else one.
    pub fn cpu_count(&self) -> usize {
        if !self.cores.is_empty() {
            return self.cores.len();
        }
        let number = self.header_value("system.cpu.num").or_else(|| {
            let model = self.header_value("system.cpu")?.trim_end().strip_suffix(')')?;
            model.rsplit_once('(').map(|(_, number)| number)
        });
        number.and_then(|number| number.trim().parse().ok()).unwrap_or(1).clamp(1, 4096)
    }

    /// True when a process other than kernel threads was sampled.
    pub fn has_processes(&self) -> bool {
        self.processes.iter().any(|process| process.kind == Kind::Process)
    }
}
