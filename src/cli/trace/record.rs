//! `brisk trace record`: records on the device what `brisk trace explain` reads.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Signal, kill_process};
use rustix::thread::nanosleep;
use rustix::time::Timespec;
use serde::Serialize;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use tracing::Level;

use crate::cli::{log, output};
use brisk_recorder::launch_watch::LaunchWatch;
use brisk_recorder::programs::SeenLaunch;
use brisk_recorder::{Options, Recording, Summary};
use brisk_sys::{BootTime, Root, process};
#[cfg(feature = "trace")]
use brisk_trace::threads::readable;

/// The number of the JSON schema.
const SCHEMA: u32 = 1;
/// How often the kernel's buffers are emptied: a CPU that switches at each page of a pipe fills one MiB in 250 ms. A killed recorder
/// loses what came since.
const PERIOD: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// Defaults of the command line.
pub(super) const BUFFER_KIB: u32 = 1024;
pub(super) const LIMIT_MIB: u32 = 64;

/// Arguments of `brisk trace record`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Records the events of scheduling, frequency, idle states, binder, direct reclaim, storage and contended
locks, as far as this kernel has them, in an instance of tracing of its own: other users of tracing are
not disturbed. This needs root and tracefs.

FILE is of trace-cmd's version 6: `brisk trace explain`, `trace-cmd report` and KernelShark read it, also
while it is written. A killed recorder loses its last quarter of a second; the next recording or
`brisk restore` removes its instance.

Futexes and page faults are left out, because each system call and fault would cost time. But the recorder
notes when a program that begins meanwhile waits long for a lock, so that its launch does not seem to end.

Exit code 0 when FILE has the recording, whatever COMMAND returned; 2 when it has not, or not all.

Examples:
  brisk trace record -t 5s -o /data/local/tmp/trace.dat
  brisk trace record -- su user -c browser
  brisk trace record --event syscalls/sys_enter_futex")]
pub struct Arguments {
    /// Record this long, as 5s or 500ms
    #[arg(long, short, value_name = "TIME", default_value = "10s", value_parser = duration, conflicts_with = "command")]
    pub(super) time: Duration,
    /// Record until a launch has ended: of any program, or of the one called NAME
    #[cfg(feature = "trace")]
    #[arg(long, value_name = "NAME", require_equals = true, conflicts_with_all = ["time", "command"])]
    pub(super) launches: Option<Option<String>>,
    /// Write the recording to FILE
    #[arg(long, short, value_name = "FILE", default_value = "trace.dat")]
    pub(super) output: PathBuf,
    /// Memory of the kernel for the events of each CPU
    #[arg(long, value_name = "KIB", default_value_t = BUFFER_KIB, value_parser = clap::value_parser!(u32).range(64..=64 * 1024))]
    pub(super) buffer_kib: u32,
    /// End when the events in FILE take this much
    #[arg(long, value_name = "MIB", default_value_t = LIMIT_MIB, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(super) limit_mib: u32,
    /// Record this event as well; the exit of a system call comes with its entry
    #[arg(long, value_name = "SUBSYSTEM/EVENT", value_parser = event)]
    pub(super) event: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
    /// Run this command, and record until it ends
    #[arg(last = true, value_name = "COMMAND")]
    pub(super) command: Vec<OsString>,
}

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let number = |text: &str, unit: u64| Some(Duration::from_millis(text.parse::<u64>().ok()?.checked_mul(unit)?));
    let duration = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(milliseconds), _) => number(milliseconds, 1),
        (None, seconds) => number(seconds.unwrap_or(text), 1000),
    };
    let within = |it: &Duration| !it.is_zero() && *it <= LONGEST;
    duration.filter(within).ok_or_else(|| "expected a time up to a day, as 5s or 500ms".to_owned())
}

/// The entry of a system call tells little without its exit, which is added.
fn with_exits(events: &[String]) -> Vec<String> {
    let exits = events.iter().filter_map(|event| {
        let call = event.strip_prefix("syscalls/sys_enter_")?;
        Some(format!("syscalls/sys_exit_{call}")).filter(|exit| !events.contains(exit))
    });
    events.iter().cloned().chain(exits).collect()
}

/// Below `events/` the name must lead to no other file.
pub(super) fn event(text: &str) -> Result<String, String> {
    let is_name =
        |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    match text.split_once('/') {
        Some((subsystem, event)) if is_name(subsystem) && is_name(event) => Ok(text.to_owned()),
        _ => Err("expected a subsystem and an event, as block/block_rq_merge".to_owned()),
    }
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    schema: u32,
    #[serde(flatten)]
    summary: &'a Summary,
    #[cfg(feature = "trace")]
    launch: Option<&'a SeenLaunch>,
}

/// What ends a recording, besides a signal and a full file.
pub(super) enum Until {
    Time(BootTime),
    Exit(Child),
    /// With the launch that has ended.
    #[cfg(feature = "trace")]
    Launch(Option<SeenLaunch>),
}

impl Until {
    fn begin(arguments: &Arguments) -> anyhow::Result<Self> {
        #[cfg(feature = "trace")]
        if arguments.launches.is_some() {
            return Ok(Self::Launch(None));
        }
        let Some((program, rest)) = arguments.command.split_first() else {
            return Ok(Self::Time(BootTime::now() + arguments.time));
        };
        // Its end interrupts the wait.
        flag::register(SIGCHLD, Arc::default()).context("cannot receive signals")?;
        let child = Command::new(program).args(rest).spawn();
        child.map(Self::Exit).with_context(|| format!("cannot run {}", program.display()))
    }

    /// How long it may last still; nothing when it is over. `ended` is a launch that has ended by now.
    fn left(&mut self, ended: Option<&SeenLaunch>) -> anyhow::Result<Duration> {
        #[cfg(not(feature = "trace"))]
        let _ = ended;
        let is_over = match self {
            Self::Time(end) => return Ok(*end - BootTime::now()),
            Self::Exit(child) => child.try_wait().context("cannot wait for the command")?.is_some(),
            #[cfg(feature = "trace")]
            Self::Launch(launch) => {
                *launch = ended.cloned();
                launch.is_some()
            }
        };
        Ok(if is_over { Duration::ZERO } else { PERIOD })
    }

    /// What came of it, for users.
    fn words(&self) -> String {
        match self {
            Self::Time(_) | Self::Exit(_) => String::new(),
            #[cfg(feature = "trace")]
            Self::Launch(Some(SeenLaunch { pid, name })) => {
                format!("The launch of {} ({pid}) has ended.\n", readable(name))
            }
            #[cfg(feature = "trace")]
            Self::Launch(None) => "note: no launch has ended meanwhile\n".to_owned(),
        }
    }

    /// The launch that was seen.
    #[cfg(feature = "trace")]
    fn launch(&self) -> Option<&SeenLaunch> {
        match self {
            Self::Launch(launch) => launch.as_ref(),
            _ => None,
        }
    }

    /// The process of the command, or of the launch.
    #[cfg(feature = "trace")]
    pub(super) fn pid(&self) -> Option<u32> {
        match self {
            Self::Exit(child) => Some(child.id()),
            _ => self.launch().map(|launch| launch.pid),
        }
    }
}

/// Records, and prints what was recorded.
///
/// # Errors
/// When nothing can be recorded, the command not be run, or the file not be written.
pub fn run(arguments: &Arguments, root: &Root) -> anyhow::Result<ExitCode> {
    let (summary, until) = recorded(arguments, root)?;
    let report = Report {
        schema: SCHEMA,
        summary: &summary,
        #[cfg(feature = "trace")]
        launch: until.launch(),
    };
    output::print(&report, arguments.json, |_| text(&summary, &until, arguments))?;
    Ok(ExitCode::SUCCESS)
}

/// Records into the file; returns what ended the recording as well.
///
/// # Errors
/// As [`run`].
pub(super) fn recorded(arguments: &Arguments, root: &Root) -> anyhow::Result<(Summary, Until)> {
    log::start(Level::WARN);
    let signal = Arc::new(AtomicUsize::new(0));
    for number in [SIGHUP, SIGINT, SIGTERM] {
        flag::register_usize(number, Arc::clone(&signal), number as usize).context("cannot receive signals")?;
    }
    let options = Options {
        output: arguments.output.clone(),
        buffer_kib: arguments.buffer_kib,
        limit_mib: arguments.limit_mib,
        events: with_exits(&arguments.event),
    };
    // What it costs to make is not recorded; it sees the command begin.
    let watch = watch(arguments, root);
    let mut recording = Recording::start(root, &options)?;
    let begun = watch.and_then(|watch| Ok((watch, Until::begin(arguments)?)));
    let (mut watch, mut until) = match begun {
        Ok(begun) => begun,
        Err(error) => {
            // It has nothing of use. That it cannot be removed is less than why there is nothing.
            let _ = fs::remove_file(&arguments.output);
            return Err(error);
        }
    };
    record(&mut recording, (&mut watch, &mut until), &signal)?;
    // Then the watch is removed, which is not recorded either.
    Ok((recording.finish()?, until))
}

/// The watch of programs. Only where launches are awaited must there be one: without it, one that waits long for a lock seems to
/// have ended.
fn watch(arguments: &Arguments, root: &Root) -> anyhow::Result<Option<LaunchWatch>> {
    #[cfg(feature = "trace")]
    if let Some(wanted) = &arguments.launches {
        return Ok(Some(LaunchWatch::begin(root, wanted.clone())?));
    }
    let _ = arguments;
    Ok(LaunchWatch::begin(root, None).ok())
}

/// Until it is over, a signal comes, or the file is full.
fn record(
    recording: &mut Recording,
    (watch, until): (&mut Option<LaunchWatch>, &mut Until),
    signal: &AtomicUsize,
) -> anyhow::Result<()> {
    while recording.drain()? {
        let signal = signal.load(Ordering::Relaxed);
        if signal != 0 {
            let process = if let Until::Exit(child) = until { process::id(child.id()) } else { None };
            if let (Some(process), Some(signal)) = (process, Signal::from_named_raw(signal as i32)) {
                // It may have ended meanwhile.
                let _ = kill_process(process, signal);
            }
            break;
        }
        let ended = watch.as_mut().map_or(Ok(None), |watch| watch.look(recording))?;
        let left = until.left(ended.as_ref())?;
        if left.is_zero() {
            break;
        }
        let pause = left.min(PERIOD);
        let pause = Timespec { tv_sec: pause.as_secs() as i64, tv_nsec: pause.subsec_nanos().into() };
        // A signal ends it early.
        let _ = nanosleep(&pause);
    }
    Ok(())
}

fn text(summary: &Summary, until: &Until, arguments: &Arguments) -> String {
    let Summary { file, seconds, cpus, events, clock, buffer_kib, missing, lost_events, is_full, .. } = summary;
    let (file, mib) = (file.display(), summary.file_bytes as f64 / f64::from(1 << 20));
    let s = if *cpus == 1 { "" } else { "s" };
    let own_percent = summary.own_cpu_seconds / seconds.max(0.001) * 100.0;
    let mut text = format!(
        "{file}: {seconds:.1} s of {cpus} CPU{s}, {events} events in {mib:.1} MiB; times are of the clock {clock}\n\
         Reading and writing them took {own_percent:.1} % of one CPU.\n"
    );
    // Writing to a string cannot fail.
    text.push_str(&until.words());
    if *buffer_kib < arguments.buffer_kib {
        let _ = writeln!(text, "note: memory is short: the events of each CPU had {buffer_kib} KiB of it");
    }
    if *lost_events > 0 {
        let _ = writeln!(text, "note: {lost_events} events were lost; use a larger --buffer-kib than {buffer_kib}");
    }
    if *is_full {
        let limit_mib = arguments.limit_mib;
        let _ = writeln!(text, "note: the recording ended when the file was full; --limit-mib is {limit_mib}");
    }
    if !missing.is_empty() {
        let _ = writeln!(text, "note: this kernel does not have {}", missing.join(", "));
    }
    let _ = writeln!(text, "Explain it on a workstation: brisk trace explain {file}");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        for (text, expected) in [
            ("10s", Some(10_000)),
            ("10", Some(10_000)),
            ("500ms", Some(500)),
            ("86400s", Some(86_400_000)),
            ("86401s", None),
            ("0s", None),
            ("", None),
            ("s", None),
            ("1m", None),
            ("-1s", None),
            ("99999999999999999999s", None),
            ("9999999999999999999s", None),
        ] {
            assert_eq!(duration(text).ok(), expected.map(Duration::from_millis), "{text}");
        }
    }

    #[test]
    fn a_system_call_is_recorded_from_its_entry_to_its_exit() {
        let (enter, exit, other) = ("syscalls/sys_enter_futex", "syscalls/sys_exit_futex", "block/block_rq_merge");
        for (events, expected) in
            [(vec![enter, other], vec![enter, other, exit]), (vec![exit, enter], vec![exit, enter]), (vec![], vec![])]
        {
            let events: Vec<String> = events.into_iter().map(str::to_owned).collect();
            assert_eq!(with_exits(&events), expected);
        }
    }

    #[test]
    fn an_event_leads_to_no_other_file() {
        for (text, is_event) in [
            ("block/block_rq_merge", true),
            ("raw_syscalls/sys_enter", true),
            ("block", false),
            ("block/", false),
            ("/block", false),
            ("../tracing_on", false),
            ("block/../../x", false),
        ] {
            assert_eq!(event(text).is_ok(), is_event, "{text}");
        }
    }
}
