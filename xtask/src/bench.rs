//! The daemon's numbers: how soon it acts, what it costs when nothing happens, and what it adds to a fork storm.
//!
//! The daemon under test is the release binary with real process events, of this machine's kernel and of the lab's in
//! deterministic mode. Here it writes into a device tree on a tmpfs, so nothing of the machine is changed; in the lab it
//! drives the guest's own governor, at the CPU's full speed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use brisk::lab::{self, Channel, GuestFile, Job, Scenario};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

/// Launches whose latency is measured, one every few milliseconds, as a person's are: the daemon sleeps in between.
const LAUNCHES: u32 = 1_000;
const LAUNCH_SPACING: Duration = Duration::from_millis(20);
/// Forks in one half of a pair, and pairs: short ones, so that both halves see the same host.
const STORM_FORKS: u32 = 200;
const STORM_PAIRS: usize = 101;
const IDLE: Duration = Duration::from_secs(30);

/// The files of the tree besides /proc, which is the machine's own.
const TREE: [(&str, &str); 8] = [
    ("sys/devices/system/cpu/online", "0\n"),
    ("sys/devices/system/cpu/present", "0\n"),
    ("sys/devices/system/cpu/cpufreq/policy0/affected_cpus", "0\n"),
    ("sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "ondemand\n"),
    ("sys/devices/system/cpu/cpufreq/policy0/scaling_min_freq", "200000\n"),
    ("sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq", "1200000\n"),
    ("sys/devices/system/cpu/cpufreq/ondemand/sampling_rate", "100000\n"),
    ("sys/devices/system/cpu/cpufreq/ondemand/io_is_busy", "0\n"),
];

/// Every launch counts, however many there are and however little it gains; otherwise the defaults.
const EVERY_LAUNCH: &str = "[launch]\nforce = true\nmaximum_launches_per_minute = 60000\nburst_launches = 1000\n\
                            [launch.end]\ndeadline_ms = 10\n";

/// Measures `brisk` and prints one table.
pub fn run(brisk: &Path) -> anyhow::Result<()> {
    let size_kib = fs::metadata(brisk).with_context(|| format!("cannot read {}", brisk.display()))?.len() / 1024;
    let tree = Tree::make()?;
    eprintln!("latency: {LAUNCHES} launches on this machine");
    let native = latency(brisk, &tree)?;
    eprintln!("latency: {LAUNCHES} launches in the lab");
    let deterministic = latency_in_lab(brisk)?;
    eprintln!("idle: {} s", IDLE.as_secs());
    let idle = idle(brisk, &tree)?;
    eprintln!("storm: {STORM_PAIRS} pairs of {STORM_FORKS} fork+exec, with and without the daemon");
    let storm = storm(brisk, &tree)?;

    let [low, middle, high] = storm.added_percent;
    let rows = [
        ("event to write, native: p50", format!("<= {} us", native.median_us), ""),
        ("event to write, native: p99", format!("<= {} us", native.p99_us), "<= 100 us"),
        ("event to write, deterministic: p50", format!("<= {} us", deterministic.median_us), ""),
        ("event to write, deterministic: p99", format!("<= {} us", deterministic.p99_us), "<= 100 us"),
        ("events measured", format!("{} and {}", native.samples, deterministic.samples), ""),
        ("CPU when idle", format!("{:.4} %", idle.cpu_percent), "<= 0.05 %"),
        ("resident memory", format!("{} KiB", idle.resident_kib), "<= 3072 KiB"),
        ("resident memory of the guardian", format!("{} KiB", idle.guardian_kib), ""),
        ("added to a fork+exec in a storm", format!("{middle:+.2} % ({low:+.2} to {high:+.2})"), "< 1 %"),
        ("storm", format!("{:.0} forks/s", storm.forks_per_second), ""),
        ("binary", format!("{size_kib} KiB"), "<= 3072 KiB"),
    ];
    println!("{:<36} {:>26} {:>14}", "daemon", "measured", "wanted");
    for (what, measured, wanted) in rows {
        println!("{what:<36} {measured:>26} {wanted:>14}");
    }
    Ok(())
}

/// The guest's part of the latency: one JSON line.
pub fn run_latency(brisk: &Path) -> anyhow::Result<()> {
    println!("{}", serde_json::to_string(&latency(brisk, &Tree::of_the_guest()?)?)?);
    Ok(())
}

/// The same in a guest whose time is counted in instructions, at its full speed: the frequencies that its governor may
/// choose are all about the highest.
fn latency_in_lab(brisk: &Path) -> anyhow::Result<Latency> {
    let mut scenario = Scenario::load("debian-6.1")?;
    for module in scenario.modules.iter_mut().filter(|module| module.name == "virtual_cpufreq") {
        for (name, values) in [("frequencies_mhz", "1190,1200"), ("voltages_mv", "1290,1300")] {
            module.parameters.insert(name.to_owned(), values.into());
        }
    }
    scenario.guest.self_check = false;
    let contents = fs::read(std::env::current_exe()?)?;
    let mut job = Job::new(scenario, ["/xtask", "latency", "/release"]);
    job.files.push(GuestFile { path: "/xtask".to_owned(), contents, mode: 0o755 });
    job.files.push(GuestFile { path: "/release".to_owned(), contents: fs::read(brisk)?, mode: 0o755 });
    let mut results = String::new();
    let outcome = lab::run(&job, &mut |line| match line.channel {
        Channel::Results => results += &line.text,
        Channel::Console => eprintln!("lab: {}", line.text),
    })?;
    ensure!(outcome.status == 0, "the guest's benchmark ended with status {}", outcome.status);
    serde_json::from_str(&results).with_context(|| format!("the guest said {results:?}"))
}

/// The files that the daemon reads and writes, and a folder on a tmpfs that is gone with this value.
struct Tree {
    root: PathBuf,
    folder: PathBuf,
}

impl Tree {
    /// A device tree of its own.
    fn make() -> anyhow::Result<Self> {
        let folder = PathBuf::from(format!("/dev/shm/brisk-bench-{}", std::process::id()));
        let tree = Self { root: folder.clone(), folder };
        for (name, text) in TREE {
            let path = tree.folder.join(name);
            fs::create_dir_all(path.parent().context("a file in a folder")?)?;
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
        fs::create_dir(tree.folder.join("run"))?;
        std::os::unix::fs::symlink("/proc", tree.folder.join("proc"))?;
        Ok(tree)
    }

    /// The guest's own files, with a slow ondemand; only for a machine that ends with this process.
    fn of_the_guest() -> anyhow::Result<Self> {
        let cpufreq = Path::new("/sys/devices/system/cpu/cpufreq");
        fs::write(cpufreq.join("policy0/scaling_governor"), "ondemand")?;
        fs::write(cpufreq.join("ondemand/sampling_rate"), "100000")?;
        let folder = PathBuf::from("/run/brisk-bench");
        fs::create_dir_all(&folder)?;
        Ok(Self { root: PathBuf::from("/"), folder })
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A running daemon; ended, with everything given back, when it is dropped.
struct Daemon {
    child: Child,
    brisk: PathBuf,
    root: PathBuf,
}

impl Daemon {
    fn start(brisk: &Path, tree: &Tree, config: &str) -> anyhow::Result<Self> {
        let file = tree.folder.join("brisk.toml");
        fs::write(&file, config)?;
        let mut command = Command::new(brisk);
        command.arg("--root").arg(&tree.root).arg("run").arg("--config").arg(&file);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let mut daemon = Self { child, brisk: brisk.to_owned(), root: tree.root.clone() };
        let start = Instant::now();
        while daemon.status().is_err() {
            if let Some(status) = daemon.child.try_wait()? {
                bail!("the daemon ended at once ({status}); process events need CAP_NET_ADMIN, so run this as root");
            }
            ensure!(start.elapsed() < Duration::from_secs(10), "the daemon does not answer on its control socket");
            sleep(Duration::from_millis(20));
        }
        Ok(daemon)
    }

    fn status(&self) -> anyhow::Result<serde_json::Value> {
        let output = Command::new(&self.brisk).arg("--root").arg(&self.root).args(["status", "--json"]).output()?;
        ensure!(output.status.success(), "brisk status: {}", String::from_utf8_lossy(&output.stderr).trim());
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    fn cpu_time(&self) -> anyhow::Result<Duration> {
        let text = fs::read_to_string(format!("/proc/{}/schedstat", self.child.id()))?;
        let nanoseconds = text.split_ascii_whitespace().next().context("an empty schedstat")?;
        Ok(Duration::from_nanos(nanoseconds.parse()?))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Not Child::kill, which is SIGKILL: the daemon must give everything back.
        if let Some(pid) = Pid::from_raw(self.child.id().cast_signed()) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let _ = self.child.wait();
    }
}

#[derive(Serialize, Deserialize)]
struct Latency {
    median_us: u64,
    p99_us: u64,
    samples: u64,
}

/// The daemon's own histogram, from the kernel's time stamp of the event to the end of the write.
fn latency(brisk: &Path, tree: &Tree) -> anyhow::Result<Latency> {
    let daemon = Daemon::start(brisk, tree, EVERY_LAUNCH)?;
    for _ in 0..LAUNCHES {
        launch(brisk)?;
        sleep(LAUNCH_SPACING);
    }
    let status = daemon.status()?;
    let histogram: brisk::engine::metrics::Histogram =
        serde_json::from_value(status["metrics"]["event_to_write"].clone()).context("no histogram in brisk status")?;
    let quantile = |permille| histogram.quantile_us(permille).context("no launch was noticed");
    Ok(Latency { median_us: quantile(500)?, p99_us: quantile(990)?, samples: histogram.count() })
}

/// A fork and an exec of something short; a guest has no /bin/true.
fn launch(brisk: &Path) -> anyhow::Result<()> {
    let shortest = Path::new("/bin/true");
    let program = if shortest.exists() { shortest } else { brisk };
    let mut command = Command::new(program);
    command
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .with_context(|| format!("cannot run {}", program.display()))?;
    Ok(())
}

struct Idle {
    cpu_percent: f64,
    resident_kib: u64,
    guardian_kib: u64,
}

/// With a filter that nothing fits: the machine around may do what it likes, the daemon sees no launch.
fn idle(brisk: &Path, tree: &Tree) -> anyhow::Result<Idle> {
    let daemon = Daemon::start(brisk, tree, "[launch]\ntriggers = [\"announced\"]\n")?;
    sleep(Duration::from_secs(1));
    let before = daemon.cpu_time()?;
    sleep(IDLE);
    let spent = daemon.cpu_time()? - before;
    let pid = daemon.child.id();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let guardian_kib = children.split_ascii_whitespace().map(resident_kib).sum::<anyhow::Result<u64>>()?;
    let cpu_percent = spent.as_secs_f64() / IDLE.as_secs_f64() * 100.0;
    Ok(Idle { cpu_percent, resident_kib: resident_kib(&pid.to_string())?, guardian_kib })
}

fn resident_kib(pid: &str) -> anyhow::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    Ok(line.split_ascii_whitespace().next().context("an empty VmRSS")?.parse()?)
}

struct Storm {
    /// The 95 % interval of the median and the median between its ends.
    added_percent: [f64; 3],
    forks_per_second: f64,
}

/// Pairs of storms, with the daemon and without, the order alternated; the default configuration, which mutes a storm.
fn storm(brisk: &Path, tree: &Tree) -> anyhow::Result<Storm> {
    let timed = || -> anyhow::Result<f64> {
        let start = Instant::now();
        for _ in 0..STORM_FORKS {
            launch(brisk)?;
        }
        Ok(start.elapsed().as_secs_f64())
    };
    let with = || -> anyhow::Result<f64> {
        let _daemon = Daemon::start(brisk, tree, "")?;
        timed()
    };
    let mut added_percent = Vec::new();
    let mut without_seconds = Vec::new();
    timed()?;
    for pair in 0..STORM_PAIRS {
        let (with, without) = if pair % 2 == 0 {
            let with = with()?;
            (with, timed()?)
        } else {
            let without = timed()?;
            (with()?, without)
        };
        added_percent.push((with / without - 1.0) * 100.0);
        without_seconds.push(without);
    }
    added_percent.sort_by(f64::total_cmp);
    without_seconds.sort_by(f64::total_cmp);
    let forks_per_second = f64::from(STORM_FORKS) / without_seconds[STORM_PAIRS / 2];
    Ok(Storm { added_percent: median_with_interval(&added_percent), forks_per_second })
}

/// The median of `sorted` and its distribution-free 95 % interval, by order statistics (David and Nagaraja, "Order
/// Statistics", section 7.1): low, median, high.
fn median_with_interval(sorted: &[f64]) -> [f64; 3] {
    let count = sorted.len() as f64;
    let reach = 1.96 * count.sqrt() / 2.0;
    let low = (count / 2.0 - reach).floor().max(0.0) as usize;
    let high = ((count / 2.0 + reach).ceil() as usize).min(sorted.len() - 1);
    [sorted[low], sorted[sorted.len() / 2], sorted[high]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_a_median_holds_it() {
        let sorted: Vec<f64> = (0..31).map(f64::from).collect();
        assert_eq!(median_with_interval(&sorted), [10.0, 15.0, 21.0]);
        assert_eq!(median_with_interval(&[7.0]), [7.0, 7.0, 7.0]);
    }
}
