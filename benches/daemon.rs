//! The daemon's numbers on this machine: event to write, what it costs when nothing happens, and under a fork storm.
//!
//! `cargo bench --bench daemon` prints a table, with `-- --json` one JSON object. A device of files on a tmpfs, real
//! process events. Needs CAP_NET_ADMIN; without it says so and measures nothing.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use brisk::engine::metrics::Histogram;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

const LAUNCHES: u32 = 1_000;
const LAUNCH_PAUSE: Duration = Duration::from_millis(5);
const IDLE: Duration = Duration::from_secs(10);
const STORM_ROUNDS: usize = 10;
const FORKS_A_ROUND: u32 = 500;
const STORM_PERIOD: Duration = Duration::from_millis(1);
/// tmpfs: a device's /sys is memory too.
const MEMORY: &str = "/dev/shm";

/// One figure and what it may be at most.
struct Figure {
    name: &'static str,
    value: f64,
    unit: &'static str,
    required: f64,
}

fn main() -> ExitCode {
    let as_json = std::env::args().any(|argument| argument == "--json");
    let storm = Storm::measure();
    let Some(figures) = measure(storm) else { return ExitCode::SUCCESS };
    let met = figures.iter().all(|figure| figure.value <= figure.required);
    if as_json {
        let figures: Vec<Value> = figures
            .iter()
            .map(|it| json!({"name": it.name, "value": it.value, "unit": it.unit, "required": it.required}))
            .collect();
        println!("{}", json!({ "benchmark": "daemon", "figures": figures, "met": met }));
    } else {
        for it in &figures {
            let verdict = if it.value <= it.required { "met" } else { "NOT MET" };
            println!("{:<52}{:>12.4} {:<4} at most {:<8}{verdict}", it.name, it.value, it.unit, it.required);
        }
    }
    if met { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn measure(storm: Option<Storm>) -> Option<Vec<Figure>> {
    // A burst that never ends, so that each launch is answered.
    let device = Device::new(
        "[launch]\nmaximum_launches_per_minute = 60000\nburst_launches = 1000\n[launch.end]\ndeadline_ms = 10\n",
    );
    let daemon = Daemon::start(&device)?;
    for _ in 0..LAUNCHES {
        launch();
        std::thread::sleep(LAUNCH_PAUSE);
    }
    let histogram = daemon.status()["metrics"]["event_to_write"].clone();
    let (half, most) = (quantile(&histogram, 0.5)?, quantile(&histogram, 0.99)?);
    drop(daemon);

    // Nothing is launched by this program now; what others launch is not counted by a filter that nobody passes.
    let device = Device::new("[launch.filter]\nparents = [\"no such parent\"]\n");
    let daemon = Daemon::start(&device)?;
    std::thread::sleep(Duration::from_millis(500));
    let (before, started) = (daemon.run_time(), Instant::now());
    std::thread::sleep(IDLE);
    let idle_percent = (daemon.run_time() - before).as_secs_f64() / started.elapsed().as_secs_f64() * 100.0;
    let guardian = daemon.guardian_resident_mib();
    let mut figures = vec![
        Figure { name: "event to write, half within", value: half, unit: "us", required: 100.0 },
        Figure { name: "event to write, 99 % within", value: most, unit: "us", required: 100.0 },
        Figure { name: "CPU when nothing happens", value: idle_percent, unit: "%", required: 0.05 },
        Figure { name: "resident memory of the daemon", value: daemon.resident_mib(), unit: "MiB", required: 3.0 },
        Figure { name: "resident memory of its guardian", value: guardian, unit: "MiB", required: 3.0 },
    ];
    if let Some(storm) = storm {
        let name = "added to fork, exec and exit at 1000 a second";
        figures.push(Figure { name, value: storm.added_percent, unit: "%", required: 1.0 });
        let name = "CPU of the daemon meanwhile, of fork, exec and exit";
        figures.push(Figure { name, value: storm.daemon_percent, unit: "%", required: 1.0 });
    }
    Some(figures)
}

/// What 1000 forks and execs a second cost with the daemon and without.
struct Storm {
    added_percent: f64,
    daemon_percent: f64,
}

impl Storm {
    fn measure() -> Option<Self> {
        // The default configuration: beyond its rate, launches are dropped in the kernel.
        let device = Device::new("");
        let (mut without, mut with) = (Vec::new(), Vec::new());
        let (mut daemon_time, mut forks_time) = (Duration::ZERO, Duration::ZERO);
        for _ in 0..STORM_ROUNDS {
            without.push(round());
            let daemon = Daemon::start(&device)?;
            let before = daemon.run_time();
            let time = round();
            daemon_time += daemon.run_time() - before;
            forks_time += time * FORKS_A_ROUND;
            with.push(time);
        }
        let (without, with) = (median(&mut without), median(&mut with));
        Some(Self {
            added_percent: (with.as_secs_f64() / without.as_secs_f64() - 1.0) * 100.0,
            daemon_percent: daemon_time.as_secs_f64() / forks_time.as_secs_f64() * 100.0,
        })
    }
}

/// The median time of a fork, exec and exit, at most 1000 a second.
fn round() -> Duration {
    let mut times: Vec<Duration> = (0..FORKS_A_ROUND)
        .map(|_| {
            let started = Instant::now();
            launch();
            let time = started.elapsed();
            std::thread::sleep(STORM_PERIOD.saturating_sub(time));
            time
        })
        .collect();
    median(&mut times)
}

fn launch() {
    let status = Command::new("/bin/true").stdin(Stdio::null()).status();
    assert!(status.is_ok_and(|status| status.success()), "/bin/true cannot be run");
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// The bound below which `share` of the histogram lies, in microseconds, linear within its class.
fn quantile(histogram: &Value, share: f64) -> Option<f64> {
    let bounds = Histogram::BOUNDS_US.map(|bound| bound as f64);
    let counts: Vec<f64> = histogram["counts"].as_array()?.iter().filter_map(Value::as_f64).collect();
    let wanted = counts.iter().sum::<f64>() * share;
    let mut below = 0.0;
    for (index, count) in counts.iter().enumerate() {
        if below + count >= wanted && *count > 0.0 {
            let low = if index == 0 { 0.0 } else { bounds[index - 1] };
            let high = bounds.get(index).copied().unwrap_or(histogram["maximum_us"].as_f64()?);
            return Some(low + (high - low) * (wanted - below) / count);
        }
        below += count;
    }
    None
}

/// A device of files with one cpufreq policy.
struct Device {
    folder: tempfile::TempDir,
}

impl Device {
    fn new(config: &str) -> Self {
        let folder = if Path::new(MEMORY).is_dir() { tempfile::tempdir_in(MEMORY) } else { tempfile::tempdir() };
        let device = Self { folder: folder.expect("a folder for the device") };
        std::os::unix::fs::symlink("/proc", device.path("proc")).expect("a link to /proc");
        fs::create_dir_all(device.path("run")).expect("a folder for the daemon");
        for (name, text) in [
            ("sys/devices/system/cpu/online", "0-1\n"),
            ("sys/devices/system/cpu/cpufreq/policy0/affected_cpus", "0 1\n"),
            ("sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "ondemand\n"),
            ("sys/devices/system/cpu/cpufreq/policy0/scaling_min_freq", "200000\n"),
            ("sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq", "1200000\n"),
            ("sys/devices/system/cpu/cpufreq/policy0/ondemand/sampling_rate", "100000\n"),
            ("sys/devices/system/cpu/cpufreq/policy0/ondemand/io_is_busy", "0\n"),
            ("etc/brisk/brisk.toml", config),
        ] {
            let path = device.path(name);
            fs::create_dir_all(path.parent().expect("a file in a folder")).expect("a folder of the device");
            fs::write(path, text).expect("a file of the device");
        }
        device
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// The daemon; dropped, it is told to stop.
struct Daemon {
    child: Child,
    socket: PathBuf,
    _messages: BufReader<std::process::ChildStderr>,
}

impl Daemon {
    /// `None`, with the reason on standard error, where this kernel or user gets no process events.
    fn start(device: &Device) -> Option<Self> {
        let mut child = Command::new(env!("CARGO_BIN_EXE_brisk"))
            .arg("--root")
            .arg(device.folder.path())
            .arg("run")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("brisk can be started");
        let mut messages = BufReader::new(child.stderr.take().expect("its messages"));
        let mut said = String::new();
        while !said.contains("brisk: ready") {
            assert!(messages.read_line(&mut said).expect("its messages") > 0, "the daemon ended: {said}");
        }
        let daemon = Self { child, socket: device.path("run/brisk/control"), _messages: messages };
        let sensor = daemon.status()["sensors"]["process_events"].clone();
        if sensor == "subscribed" {
            return Some(daemon);
        }
        eprintln!("skipped: {sensor}");
        None
    }

    fn status(&self) -> Value {
        let mut stream = UnixStream::connect(&self.socket).expect("its control socket");
        stream.write_all(b"{\"version\":1,\"request\":\"status\"}\n").expect("a request");
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).expect("an answer");
        serde_json::from_str::<Value>(&line).expect("an answer in JSON")["result"].clone()
    }

    /// The time that it has run, to the nanosecond (Documentation/scheduler/sched-stats.rst).
    fn run_time(&self) -> Duration {
        let text = fs::read_to_string(format!("/proc/{}/schedstat", self.child.id())).unwrap_or_default();
        let nanoseconds = text.split_ascii_whitespace().next().and_then(|word| word.parse().ok());
        Duration::from_nanos(nanoseconds.expect("the kernel keeps scheduler statistics"))
    }

    fn resident_mib(&self) -> f64 {
        resident_mib(self.child.id())
    }

    fn guardian_resident_mib(&self) -> f64 {
        self.status()["guardian_pid"].as_u64().map_or(0.0, |pid| resident_mib(pid as u32))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let _ = self.child.wait();
    }
}

fn resident_mib(pid: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS in /proc/PID/status");
    let kib: f64 = line.split_ascii_whitespace().next().and_then(|word| word.parse().ok()).expect("a number of kB");
    kib / 1024.0
}
