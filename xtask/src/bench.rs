//! The daemon's numbers: how soon it acts, what it costs when nothing happens, and what it adds to a fork storm.
//!
//! The daemon under test is the release binary with real process events, of this machine's kernel and of the lab's in
//! deterministic mode. Here it writes into a device tree on a tmpfs, so nothing of the machine is changed; in the lab it
//! drives the guest's own governor, at the CPU's full speed.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use brisk::daemon::metrics::Histogram;
use brisk::lab::{self, Channel, GuestFile, Job, Scenario};
use brisk::sys::process::process_events::{Notice, ProcessEvents, monotonic_ns};
use brisk::sys::process::process_filter::{self, Wanted};
use brisk::sys::sched::scheduling;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

/// Launches whose latency is measured, with pauses, as a person's have: the daemon sleeps in between. In blocks, each
/// followed by one with a receiver that does nothing, so that both see the same host.
const LAUNCHES: u32 = 100;
/// Launches before those: the first ones after the daemon's start find its code not yet mapped, and are told apart.
const FIRST_LAUNCHES: u32 = 3;
const LAUNCH_SPACING: Duration = Duration::from_millis(20);
/// How much is measured: blocks of launches, and pairs of storms of so many forks, about a second each.
struct Extent {
    blocks: u32,
    pairs: usize,
    forks: u32,
}
const HERE: Extent = Extent { blocks: 10, pairs: 41, forks: 1_000 };
/// Repeats are all but equal there.
const IN_LAB: Extent = Extent { blocks: 2, pairs: 3, forks: 1_000 };
const STORM_BEGINNING: u32 = 300;
/// What is launched.
const SHORTEST: &str = "/bin/true";
/// The killer with everything on, and one who may go.
const KILLS_ONE: &str = "[launch]\nenabled = false\n[memory.killer]\nenabled = true\nprefetch = true\nlowest_adj = 1000\n\
                         reserve_kib = 67108864\npageout.target_kib = 67108864\nwriteback.daily_kib = 8192\n";
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

type Row = (&'static str, String, &'static str);

/// Measures `brisk` and prints one table; with `lab_alone`, only what the load of this machine cannot change.
// Verifies COST-3.
pub fn run(brisk: &Path, lab_alone: bool) -> anyhow::Result<()> {
    let size_kib = fs::metadata(brisk).with_context(|| format!("cannot read {}", brisk.display()))?.len() / 1024;
    let mut rows = vec![("binary", format!("{size_kib} KiB"), "<= 3276 KiB")];
    if !lab_alone {
        measure_here(brisk, &mut rows)?;
    }
    eprintln!("in the lab: latency, storm, locked memory");
    let LabPart { latency, storm, locked_kib } = measure_in_lab(brisk)?;
    rows.push(("in the lab, deterministic", String::new(), ""));
    rows.push(("  locked by daemon and killer", format!("{locked_kib} KiB"), "<= 3072 KiB"));
    add_rows(&latency, &storm, &mut rows);
    println!("{:<36} {:>36} {:>14}", "daemon", "measured", "wanted");
    for (what, measured, wanted) in rows {
        println!("{what:<36} {measured:>36} {wanted:>14}");
    }
    Ok(())
}

fn measure_here(brisk: &Path, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let tree = Tree::make()?;
    eprintln!("idle: {} s", IDLE.as_secs());
    let idle = idle(brisk, &tree)?;
    eprintln!("latency: {} launches", HERE.blocks * LAUNCHES);
    let latency = latency(brisk, &tree, &HERE)?;
    eprintln!("storm: {} pairs of {} fork+exec, with and without the daemon", HERE.pairs, HERE.forks);
    let storm = storm(brisk, &tree, &HERE)?;
    rows.extend([
        ("CPU when idle", format!("{:.4} %", idle.cpu_percent), "<= 0.05 %"),
        ("resident memory", format!("{} KiB", idle.resident_kib), "<= 3072 KiB"),
        ("resident memory of the guardian", format!("{} KiB", idle.guardian_kib), ""),
        ("on this machine", String::new(), ""),
    ]);
    add_rows(&latency, &storm, rows);
    Ok(())
}

fn add_rows(latency: &Latency, storm: &Storm, rows: &mut Vec<Row>) {
    let quantiles = |histogram: &Histogram| {
        let bound = |permille| histogram.quantile_us(permille).map_or("-".to_owned(), |bound| format!("<= {bound}"));
        format!("{}, {} us (n = {})", bound(500), bound(990), histogram.count())
    };
    let [low, middle, high] = storm.added_percent;
    rows.extend([
        ("  event to write: p50, p99", quantiles(&latency.event_to_write), "<= 100 us"),
        ("    of that, the daemon's own", quantiles(&latency.wake_to_write), ""),
        ("    the first after a start, at most", format!("{} us", latency.first.maximum_us), ""),
        ("    a receiver that does nothing", quantiles(&latency.floor), ""),
        ("  added to a fork+exec in a storm", format!("{middle:+.2} % ({low:+.2} to {high:+.2})"), "< 1 %"),
        ("    storm", format!("{:.0} forks/s", storm.forks_per_second), ""),
    ]);
}

/// What is measured in the lab too.
#[derive(Serialize, Deserialize)]
struct LabPart {
    latency: Latency,
    storm: Storm,
    locked_kib: u64,
}

/// The guest's part: one JSON line.
pub fn run_in_guest(brisk: &Path) -> anyhow::Result<()> {
    let tree = Tree::of_the_guest()?;
    let locked_kib = locked(brisk, &tree)?;
    let part = LabPart { latency: latency(brisk, &tree, &IN_LAB)?, storm: storm(brisk, &tree, &IN_LAB)?, locked_kib };
    println!("{}", serde_json::to_string(&part)?);
    Ok(())
}

/// Receives process events as the daemon does, and does nothing about them, until standard input ends; then prints how
/// long each took to arrive.
pub fn run_receiver() -> anyhow::Result<()> {
    let mut events = ProcessEvents::open()?;
    process_filter::attach(&events, Wanted { fork: true, ..Wanted::default() })?;
    scheduling::become_real_time()?;
    println!();
    let mut delay = Histogram::default();
    let mut notices = Vec::new();
    loop {
        let stdin = std::io::stdin();
        let mut wanted = [PollFd::new(&events, PollFlags::IN), PollFd::new(&stdin, PollFlags::IN)];
        poll(&mut wanted, None)?;
        if !wanted[1].revents().is_empty() {
            break;
        }
        events.receive(&mut notices)?;
        let now_ns = monotonic_ns();
        for timed in notices.drain(..).filter(|timed| matches!(timed.notice, Notice::Fork { .. })) {
            delay.observe(Duration::from_nanos(now_ns.saturating_sub(timed.monotonic_ns)));
        }
    }
    println!("{}", serde_json::to_string(&delay)?);
    Ok(())
}

/// In a guest whose time is counted in instructions, at its full speed: the frequencies that its governor may choose are
/// all about the highest.
// Verifies COST-1.
fn measure_in_lab(brisk: &Path) -> anyhow::Result<LabPart> {
    let mut scenario = Scenario::load("debian-6.1")?;
    for module in scenario.modules.iter_mut().filter(|module| module.name == "virtual_cpufreq") {
        for (name, values) in [("frequencies_mhz", "1190,1200"), ("voltages_mv", "1290,1300")] {
            module.parameters.insert(name.to_owned(), values.into());
        }
    }
    scenario.guest.self_check = false;
    let contents = fs::read(std::env::current_exe()?)?;
    let mut job = Job::new(scenario, ["/xtask", "guest", "/release"]);
    job.files.push(GuestFile { path: "/xtask".to_owned(), contents, mode: 0o755 });
    job.files.push(GuestFile { path: SHORTEST.to_owned(), contents: shortest_program(), mode: 0o755 });
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
        let folder = tempfile::Builder::new().prefix("brisk-bench-").tempdir_in("/dev/shm")?.keep();
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

/// A running daemon; ended, with everything restored, when it is dropped.
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
        command.arg("--root").arg(&tree.root).arg("daemon").arg("--config").arg(&file);
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

    /// From event to write, and the daemon's own part of it.
    fn latencies(&self) -> anyhow::Result<[Histogram; 2]> {
        let mut metrics = self.status()?["metrics"].take();
        let mut histogram = |name: &str| {
            serde_json::from_value(metrics[name].take()).with_context(|| format!("no {name} in brisk status"))
        };
        Ok([histogram("event_to_write")?, histogram("wake_to_write")?])
    }

    fn cpu_time(&self) -> anyhow::Result<Duration> {
        let text = fs::read_to_string(format!("/proc/{}/schedstat", self.child.id()))?;
        let nanoseconds = text.split_ascii_whitespace().next().context("an empty schedstat")?;
        Ok(Duration::from_nanos(nanoseconds.parse()?))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Not Child::kill, which is SIGKILL: the daemon must restore everything.
        if let Some(pid) = Pid::from_raw(self.child.id().cast_signed()) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let _ = self.child.wait();
    }
}

#[derive(Default, Serialize, Deserialize)]
struct Latency {
    /// From event to write, like the next, but of the first launches after a start.
    first: Histogram,
    event_to_write: Histogram,
    wake_to_write: Histogram,
    floor: Histogram,
}

/// The daemon's own histograms, and that of the receiver which does nothing.
// Verifies COST-1.
fn latency(brisk: &Path, tree: &Tree, extent: &Extent) -> anyhow::Result<Latency> {
    let launches = |count| -> anyhow::Result<()> {
        for _ in 0..count {
            launch()?;
            sleep(LAUNCH_SPACING);
        }
        Ok(())
    };
    let mut latency = Latency::default();
    for _ in 0..extent.blocks {
        let daemon = Daemon::start(brisk, tree, EVERY_LAUNCH)?;
        launches(FIRST_LAUNCHES)?;
        let [first, first_woken] = daemon.latencies()?;
        launches(LAUNCHES)?;
        let [all, all_woken] = daemon.latencies()?;
        drop(daemon);
        add(&mut latency.event_to_write, &without(all, &first));
        add(&mut latency.wake_to_write, &without(all_woken, &first_woken));
        add(&mut latency.first, &first);

        let mut receiver = Command::new(std::env::current_exe()?)
            .arg("receiver")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut output = BufReader::new(receiver.stdout.take().context("a piped output")?);
        let mut line = String::new();
        output.read_line(&mut line)?;
        launches(LAUNCHES)?;
        drop(receiver.stdin.take());
        line.clear();
        output.read_line(&mut line)?;
        receiver.wait()?;
        add(&mut latency.floor, &serde_json::from_str(&line).with_context(|| format!("the receiver said {line:?}"))?);
    }
    Ok(latency)
}

fn add(sum: &mut Histogram, part: &Histogram) {
    sum.counts.iter_mut().zip(&part.counts).for_each(|(sum, part)| *sum += part);
    sum.sum_us += part.sum_us;
    sum.maximum_us = sum.maximum_us.max(part.maximum_us);
}

/// What was counted after `earlier`.
fn without(mut histogram: Histogram, earlier: &Histogram) -> Histogram {
    histogram.counts.iter_mut().zip(&earlier.counts).for_each(|(all, earlier)| *all -= earlier);
    histogram.sum_us -= earlier.sum_us;
    histogram
}

/// A fork and an exec of what ends at once.
fn launch() -> anyhow::Result<()> {
    Command::new(SHORTEST).stdout(Stdio::null()).status().with_context(|| format!("cannot run {SHORTEST}"))?;
    Ok(())
}

/// A static program of one segment whose only act is exit(0), for the guest, which has no /bin/true: the ELF header, one
/// program header, and `xor edi, edi; mov eax, 60; syscall` (elf(5)).
fn shortest_program() -> Vec<u8> {
    const ADDRESS: u64 = 0x40_0000;
    const HEADERS_BYTES: u64 = 64 + 56;
    let code = [0x31, 0xff, 0xb8, 60, 0, 0, 0, 0x0f, 0x05];
    let length = HEADERS_BYTES + code.len() as u64;
    let mut program = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    let half =
        |program: &mut Vec<u8>, values: &[u16]| values.iter().for_each(|value| program.extend(value.to_le_bytes()));
    let word =
        |program: &mut Vec<u8>, values: &[u32]| values.iter().for_each(|value| program.extend(value.to_le_bytes()));
    let long =
        |program: &mut Vec<u8>, values: &[u64]| values.iter().for_each(|value| program.extend(value.to_le_bytes()));
    // ET_EXEC for EM_X86_64; entry, program headers, no sections; sizes and counts.
    half(&mut program, &[2, 62]);
    word(&mut program, &[1]);
    long(&mut program, &[ADDRESS + HEADERS_BYTES, 64, 0]);
    word(&mut program, &[0]);
    half(&mut program, &[64, 56, 1, 0, 0, 0]);
    // PT_LOAD, to be read and run: offset, addresses, sizes, alignment.
    word(&mut program, &[1, 5]);
    long(&mut program, &[0, ADDRESS, ADDRESS, length, length, 4096]);
    program.extend(code);
    program
}

struct Idle {
    cpu_percent: f64,
    resident_kib: u64,
    guardian_kib: u64,
}

/// With a filter that nothing fits: the machine around may do what it likes, the daemon sees no launch.
// Verifies COST-2.
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

/// What the daemon and its children have locked in memory, after the killer has ended a process: what is resident of all
/// locked mappings, each page as often as it is mapped.
// Verifies COST-3.
fn locked(brisk: &Path, tree: &Tree) -> anyhow::Result<u64> {
    let mut victim = Command::new(std::env::current_exe()?).arg("receiver").stdin(Stdio::piped()).spawn()?;
    fs::write(format!("/proc/{}/oom_score_adj", victim.id()), "1000")?;
    let daemon = Daemon::start(brisk, tree, KILLS_ONE)?;
    ensure!(!victim.wait()?.success(), "no process was killed");
    let pid = daemon.child.id();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
    let pids = children.split_ascii_whitespace().map(str::to_owned).chain([pid.to_string()]);
    pids.map(|pid| Ok(locked_in(&fs::read_to_string(format!("/proc/{pid}/smaps"))?))).sum()
}

fn locked_in(smaps: &str) -> u64 {
    let mut resident_kib = 0;
    let mut locked_kib = 0;
    for line in smaps.lines() {
        if let Some(size) = line.strip_prefix("Rss:") {
            resident_kib = size.split_ascii_whitespace().next().and_then(|kib| kib.parse().ok()).unwrap_or(0);
        } else if line.starts_with("VmFlags:") && line.split_ascii_whitespace().any(|flag| flag == "lo") {
            locked_kib += resident_kib;
        }
    }
    locked_kib
}

#[derive(Serialize, Deserialize)]
struct Storm {
    /// The 95 % interval of the median and the median between its ends.
    added_percent: [f64; 3],
    forks_per_second: f64,
}

/// Pairs of storms, with the daemon and without, the order alternated, at the limits of rate that are the default. What is
/// timed comes after the beginning of a storm, by which the frequency has risen and the rate is used up: launches are
/// muted then but for one every half second.
// Verifies COST-1.
fn storm(brisk: &Path, tree: &Tree, &Extent { pairs, forks, .. }: &Extent) -> anyhow::Result<Storm> {
    let timed = || -> anyhow::Result<f64> {
        let storm = |forks| (0..forks).try_for_each(|_| launch());
        storm(STORM_BEGINNING)?;
        let start = Instant::now();
        storm(forks)?;
        Ok(start.elapsed().as_secs_f64())
    };
    let with = || -> anyhow::Result<f64> {
        let daemon = Daemon::start(brisk, tree, "[launch]\nforce = true\n")?;
        let seconds = timed()?;
        let status = daemon.status()?;
        ensure!(status["metrics"]["launches"].as_u64() > Some(0), "the daemon noticed nothing of the storm");
        Ok(seconds)
    };
    let mut added_percent = Vec::new();
    let mut without_seconds = Vec::new();
    timed()?;
    for pair in 0..pairs {
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
    let forks_per_second = f64::from(forks) / without_seconds[pairs / 2];
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
    fn what_is_resident_of_locked_mappings_is_locked() {
        let mapping = |kib, flags| {
            format!("7f00-7f10 rw-p 0 0:0 0\nSize: 99 kB\nRss: {kib} kB\nLocked: 1 kB\nVmFlags: {flags}\n")
        };
        assert_eq!(locked_in(&[mapping(40, "rd wr lo lf"), mapping(7, "rd wr"), mapping(2, "rd lo")].concat()), 42);
    }

    #[test]
    fn the_interval_of_a_median_holds_it() {
        let sorted: Vec<f64> = (0..31).map(f64::from).collect();
        assert_eq!(median_with_interval(&sorted), [10.0, 15.0, 21.0]);
        assert_eq!(median_with_interval(&[7.0]), [7.0, 7.0, 7.0]);
    }
}
