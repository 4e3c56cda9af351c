//! Watching a boot from its start to its end: samples onto a tape, governors held, and a recording when it is over.

mod archive;
pub mod first_process;
pub mod hand_over;
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

pub use archive::PLACES;
use hand_over::HandOver;
use sampler::Sampler;
use signs::Signs;

use brisk_mechanism::boot::{Ended, Sign};
use brisk_sys::process::first_process as view;
use brisk_sys::{BootTime, Root};

/// How often a place for the recording is looked for when there is none.
const PLACE_PERIOD: Duration = Duration::from_millis(500);
/// Without samples, how often the signs are looked for.
const WATCH_PERIOD: Duration = Duration::from_millis(100);

/// What is wanted.
#[derive(Debug, Clone)]
pub struct HoldOptions {
    /// The system.
    pub root: Root,
    /// True for the child of the first process: nothing is mounted yet, and what is mounted later is somewhere else.
    pub first_process: bool,
    /// What is recorded, if anything.
    pub recording: Option<Recording>,
    /// Which governors are held, if any are.
    pub hold: Option<Hold>,
    /// The signs that the boot has completed; none for what the system has.
    pub signs: Vec<Sign>,
    /// It is over after this long, whatever the signs say.
    pub timeout: Duration,
}

/// What is recorded, and where it goes.
#[derive(Debug, Clone)]
pub struct Recording {
    /// Time between two samples.
    pub period: Duration,
    /// What the samples may take in memory.
    pub limit_bytes: usize,
    /// Where it goes: the first place that takes it.
    pub places: Vec<PathBuf>,
    /// How long a place is waited for.
    pub patience: Duration,
}

/// What is done about governors.
#[derive(Debug, Clone)]
pub struct Hold {
    /// The governor for policies that boot under `performance` already.
    pub then: Option<String>,
}

/// What came of it.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Why it ended.
    pub ended: String,
    /// When it began and ended, in milliseconds since boot.
    pub began_ms: u64,
    /// The same.
    pub ended_ms: u64,
    /// The CPU time of this process until then, in milliseconds.
    pub cpu_ms: f64,
    /// What was recorded, if anything.
    pub recording: Option<Recorded>,
    /// The policies whose governors were handed back, if any were to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handed_back: Option<Vec<String>>,
    /// What could not be done, in sentences.
    pub faults: Vec<String>,
}

/// A recording that was written.
#[derive(Debug, Serialize)]
pub struct Recorded {
    /// Where it is.
    pub file: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// Samples in it.
    pub samples: u32,
    /// Samples that had no room in memory.
    pub dropped: u32,
    /// Processes that had to wait for a later sample, because too many began at once; each counts as often as it waited.
    pub passed_over: u64,
    /// What the samples took in memory.
    pub memory_bytes: usize,
}

/// Watches until the boot has completed, hands the governors back, and writes what was recorded.
///
/// # Errors
/// When it cannot wait, or no place took the recording. Governors are back all the same.
pub fn watch(options: &HoldOptions) -> anyhow::Result<Report> {
    let began = BootTime::now();
    let deadline = began + options.timeout;
    let root = &options.root;
    let mut world = root.clone();
    if options.first_process {
        view::take_own_view().context("this boot is not watched: it needs a /proc of its own")?;
        world = Root::at(view::ROOT_OF_FIRST_PROCESS);
    }
    let stop = Stop::register()?;
    let mut faults = Vec::new();
    let elsewhere = options.first_process.then_some(&world);
    let begin = |hold: &Hold| HandOver::begin(root, elsewhere, hold.then.as_deref(), began, deadline);
    let mut hand_over = match options.hold.as_ref().map(begin) {
        Some(Err(error)) => {
            faults.push(format!("no governor is held: {error:#}"));
            None
        }
        other => other.transpose()?,
    };
    let mut sampler = options.recording.as_ref().map(|recording| Sampler::new(root, recording.limit_bytes));
    let mut signs = Signs::new(&options.signs, root, &world);
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
            break Ended::Completed(sign);
        }
        if now >= deadline {
            break Ended::TimedOut;
        }
        // A moment that has passed, as after a suspend, is not made up for.
        next = (next + period).max(now + period / 2);
        samples += 1;
        if stop.is_asked_for_before((next + stagger(period, samples)).min(deadline))? {
            break Ended::Stopped;
        }
    };
    let handed_back = options.hold.as_ref().map(|_| hand_over.map_or_else(Vec::new, hand_back));
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
        report.recording = Some(write(&world, recording, sampler, &header)?);
    }
    Ok(report)
}

/// By how much sample number `look` is late on purpose. Most kernels charge the whole time between two ticks of their clock to
/// the task that runs at the second one; samples in step with the ticks would be charged each time or never, and their
/// own time would hide that of other tasks. Multiples of the golden ratio are spread evenly, however many there are.
fn stagger(period: Duration, sample: u32) -> Duration {
    (period / 4).mul_f64((f64::from(sample) * 0.618_033_988_75).fract())
}

fn hand_back(hand_over: HandOver) -> Vec<String> {
    let held = hand_over.held();
    hand_over.end();
    held
}

/// Writes the recording as soon as there is a place for it.
fn write(world: &Root, recording: &Recording, sampler: &Sampler, header: &str) -> anyhow::Result<Recorded> {
    let patience = BootTime::now() + recording.patience;
    loop {
        match archive::write(world, &recording.places, header, sampler.tape()) {
            Ok((file, bytes)) => {
                return Ok(Recorded {
                    file,
                    bytes,
                    samples: sampler.tape().moments(),
                    dropped: sampler.tape().dropped(),
                    passed_over: sampler.passed_over(),
                    memory_bytes: sampler.tape().size_bytes(),
                });
            }
            Err(reasons) if BootTime::now() >= patience => {
                bail!("cannot save the recording: {}; name a place with --output", reasons.join("; "))
            }
            Err(_) => std::thread::sleep(PLACE_PERIOD),
        }
    }
}

/// The recording's first file: keys and values, as bootchart has them, and some of brisk's own.
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

/// SIGTERM and SIGINT as something to wait for.
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

    /// Waits until `moment`; true when the end was asked for meanwhile.
    fn is_asked_for_before(&self, moment: BootTime) -> anyhow::Result<bool> {
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
