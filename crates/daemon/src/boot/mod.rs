//! Watches a boot from start to end: takes samples onto a tape, holds governors, and writes a recording at the end.

mod archive;
pub mod first_process;
pub mod governor_hold;
mod gzip;
mod sampler;
mod signs;

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level::pipe;

pub use archive::DEFAULT_OUTPUTS;
use governor_hold::GovernorHold;
use sampler::Sampler;
use signs::Signs;

use brisk_mechanism::boot::{CompletionSign, RecordingEnd};
use brisk_sys::process::first_process as view;
use brisk_sys::{BootTime, Root};

/// How often writing the recording is retried while no place takes it.
const WRITE_RETRY_PERIOD: Duration = Duration::from_millis(500);
/// Without samples, how often the signs are checked.
const WATCH_PERIOD: Duration = Duration::from_millis(100);

/// What to record and hold.
#[derive(Debug, Clone)]
pub struct HoldOptions {
    /// The system.
    pub root: Root,
    /// True for the child of the first process: nothing is mounted yet, and later mounts are in another mount namespace.
    pub first_process: bool,
    /// The recording, if any.
    pub recording: Option<Recording>,
    /// How governors are held, if they are.
    pub hold: Option<Hold>,
    /// The signs that the boot has completed; empty for those that the system provides.
    pub signs: Vec<CompletionSign>,
    /// The watch ends after this time even without a sign.
    pub timeout: Duration,
}

/// The options of a recording.
#[derive(Debug, Clone)]
pub struct Recording {
    /// The time between two samples.
    pub period: Duration,
    /// The most memory for samples.
    pub limit_bytes: usize,
    /// The files to try in this order; the first one that can be written is used.
    pub outputs: Vec<PathBuf>,
    /// How long writing is retried while no place takes the recording.
    pub patience: Duration,
}

/// How governors are held.
#[derive(Debug, Clone)]
pub struct Hold {
    /// The governor for policies that boot under `performance` already.
    pub then: Option<String>,
}

/// The result of a watch.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Why it ended.
    pub ended: String,
    /// When it began, in milliseconds since boot.
    pub began_ms: u64,
    /// When it ended, in milliseconds since boot.
    pub ended_ms: u64,
    /// The CPU time of this process until then, in milliseconds.
    pub cpu_ms: f64,
    /// The recording, if any.
    pub recording: Option<Recorded>,
    /// The policies whose governors were restored, if governors were to be held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handed_back: Option<Vec<String>>,
    /// The faults, in sentences.
    pub faults: Vec<String>,
}

/// A recording that was written.
#[derive(Debug, Serialize)]
pub struct Recorded {
    /// Its path.
    pub file: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// The number of samples in it.
    pub samples: u32,
    /// Samples dropped because the memory limit was reached.
    pub dropped: u32,
    /// How often a process was deferred to a later sample, because too many started at once.
    pub passed_over: u64,
    /// The memory that the samples took.
    pub memory_bytes: usize,
}

/// Watches until the boot has completed, restores the governors, and writes the recording.
///
/// # Errors
/// When it cannot wait, or no place takes the recording. The governors are restored even then.
pub fn watch(options: &HoldOptions) -> anyhow::Result<Report> {
    let began = BootTime::now();
    let deadline = began + options.timeout;
    let root = &options.root;
    let mut init_root = root.clone();
    if options.first_process {
        view::mount_private_filesystems().context("this boot is not watched: it needs a /proc of its own")?;
        init_root = Root::at(view::INIT_ROOT);
    }
    let stop = Stop::register()?;
    let mut faults = Vec::new();
    let other_root = options.first_process.then_some(&init_root);
    let begin = |hold: &Hold| GovernorHold::begin(root, other_root, hold.then.as_deref(), began, deadline);
    let mut hand_over = match options.hold.as_ref().map(begin) {
        Some(Err(error)) => {
            faults.push(format!("no governor is held: {error:#}"));
            None
        }
        other => other.transpose()?,
    };
    let mut sampler = options.recording.as_ref().map(|recording| Sampler::new(root, recording.limit_bytes));
    let mut signs = Signs::new(&options.signs, root, &init_root);
    let period = options.recording.as_ref().map_or(WATCH_PERIOD, |recording| recording.period);
    let mut next = BootTime::now();
    let mut samples = 0;
    let ended = loop {
        let now = BootTime::now();
        if let Some(sampler) = &mut sampler {
            sampler.sample(now);
        }
        if let Some(hand_over) = &mut hand_over {
            hand_over.hold_new(now);
        }
        if let Some(sign) = signs.check(now) {
            break RecordingEnd::Completed(sign);
        }
        if now >= deadline {
            break RecordingEnd::TimedOut;
        }
        // Samples that were missed, for example during suspend, are not made up for.
        next = (next + period).max(now + period / 2);
        samples += 1;
        if stop.wait_for_signal((next + stagger(period, samples)).min(deadline))? {
            break RecordingEnd::Stopped;
        }
    };
    let handed_back = options.hold.as_ref().map(|_| hand_over.map_or_else(Vec::new, release_governors));
    let mut report = Report {
        ended: ended.to_string(),
        began_ms: began.nanoseconds() / 1_000_000,
        ended_ms: BootTime::now().nanoseconds() / 1_000_000,
        cpu_ms: cpu_ms(),
        recording: None,
        handed_back,
        faults,
    };
    if let (Some(recording), Some(sampler)) = (&options.recording, &sampler) {
        let header = header(root, &report, recording, sampler);
        report.recording = Some(write(&init_root, recording, sampler, &header)?);
    }
    Ok(report)
}

/// The intentional delay of sample number `sample`. Most kernels charge the whole time between two scheduler ticks to the task
/// that runs at the second one. Samples in step with the ticks would be charged each time or never, and their own time would
/// hide that of other tasks. Multiples of the golden ratio modulo 1 are spread evenly, for any number of samples.
fn stagger(period: Duration, sample: u32) -> Duration {
    (period / 4).mul_f64((f64::from(sample) * 0.618_033_988_75).fract())
}

fn release_governors(hand_over: GovernorHold) -> Vec<String> {
    let held = hand_over.held();
    hand_over.end();
    held
}

/// Writes the recording, and retries until a place takes it.
fn write(init_root: &Root, recording: &Recording, sampler: &Sampler, header: &str) -> anyhow::Result<Recorded> {
    let patience = BootTime::now() + recording.patience;
    loop {
        match archive::write(init_root, &recording.outputs, header, sampler.tape()) {
            Ok((file, bytes)) => {
                return Ok(Recorded {
                    file,
                    bytes,
                    samples: sampler.tape().samples(),
                    dropped: sampler.tape().dropped(),
                    passed_over: sampler.passed_over(),
                    memory_bytes: sampler.tape().size_bytes(),
                });
            }
            Err(reasons) if BootTime::now() >= patience => {
                bail!("cannot save the recording: {}; name a place with --output", reasons.join("; "))
            }
            Err(_) => std::thread::sleep(WRITE_RETRY_PERIOD),
        }
    }
}

/// The recording's header file: bootchart's keys and values, and some of brisk's own.
fn header(root: &Root, report: &Report, recording: &Recording, sampler: &Sampler) -> String {
    let system = rustix::system::uname();
    let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
    let processors = root.read("/proc/cpuinfo").unwrap_or_default();
    let model = ["model name", "Hardware", "Processor"].iter().find_map(|key| {
        let line = processors.lines().find(|line| line.starts_with(key))?;
        line.split_once(':').map(|(_, value)| value.trim().to_owned())
    });
    let cpus = processors.lines().filter(|line| line.starts_with("processor")).count().max(1);
    let release = root.read("/etc/os-release").unwrap_or_default();
    let release = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME=")).unwrap_or_default();
    let command_line = root.read("/proc/cmdline").unwrap_or_default();
    let kernel = format!("{} {} {}", text(system.sysname()), text(system.release()), text(system.version()));
    [
        ("version", format!("0.8 (brisk {})", env!("CARGO_PKG_VERSION"))),
        ("title", format!("Boot of {}, {}", text(system.nodename()), text(system.release()))),
        ("system.uname", format!("{kernel} {}", text(system.machine()))),
        ("system.release", release.trim_matches('"').to_owned()),
        ("system.cpu", format!("{} ({cpus})", model.unwrap_or_else(|| text(system.machine())))),
        ("system.kernel.options", command_line.lines().next().unwrap_or_default().to_owned()),
        ("brisk.ended", report.ended.clone()),
        ("brisk.period_ms", recording.period.as_millis().to_string()),
        ("brisk.cpu_ms", format!("{:.1}", report.cpu_ms)),
        ("brisk.dropped_samples", sampler.tape().dropped().to_string()),
        ("brisk.passed_over", sampler.passed_over().to_string()),
        ("brisk.held", report.handed_back.as_ref().map(|held| held.join(" ")).unwrap_or_default()),
    ]
    .iter()
    .map(|(key, value)| format!("{key} = {value}\n"))
    .collect()
}

fn cpu_ms() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
}

/// SIGTERM and SIGINT as a descriptor to poll.
struct Stop {
    stop: UnixStream,
}

impl Stop {
    fn register() -> anyhow::Result<Self> {
        let (stop, sender) = UnixStream::pair()?;
        pipe::register(SIGTERM, sender.try_clone()?)?;
        pipe::register(SIGINT, sender)?;
        Ok(Self { stop })
    }

    /// Waits until `moment`; true when a signal arrived before.
    fn wait_for_signal(&self, moment: BootTime) -> anyhow::Result<bool> {
        loop {
            let left = moment.since(BootTime::now());
            let timeout = Timespec::try_from(left).context("the period is too long")?;
            let mut wanted = [PollFd::new(&self.stop, PollFlags::IN)];
            match poll(&mut wanted, Some(&timeout)) {
                Ok(count) => return Ok(count > 0),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error).context("cannot wait for the next sample"),
            }
        }
    }
}
