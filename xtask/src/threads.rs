//! The cost of sampling threads: CPU time of the samples, per thread, at 1 Hz and at 10 Hz.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use brisk::sys::sched::threads::{Sensing, Threads, unsupported_reason};
use brisk::sys::{BootTime, Root};
use rustix::time::{ClockId, clock_gettime};

/// Seconds of each measurement, after the samples that discover all threads: a multiple of the longest back-off of a sleeping
/// thread, because only the mean over whole back-offs is the cost of sampling.
const SECONDS: u32 = 16;
/// The period of an awake thread.
const WAKE_EVERY: Duration = Duration::from_millis(90);

/// Measures with `counts` threads more than the machine has, by each available sensor, and prints one table.
pub fn run(counts: &[u32]) -> anyhow::Result<()> {
    let sensors: Vec<Sensing> = [Sensing::Schedstat, Sensing::Bpf]
        .into_iter()
        .filter(|&sensing| {
            let unsupported_reason = unsupported_reason(&Root::system(), sensing);
            unsupported_reason
                .iter()
                .for_each(|unsupported_reason| println!("not by {sensing:?}: {unsupported_reason}"));
            unsupported_reason.is_none()
        })
        .collect();
    let row = |columns: [String; 6]| {
        let [threads, awake, sensing, slow, fast, held] = columns;
        println!("{threads:>8} {awake:>14} {sensing:>10} {slow:>22} {fast:>22} {held:>12}");
    };
    row(["threads", "of them awake", "by", "1 Hz, a thousand", "10 Hz, a thousand", "descriptors"].map(str::to_owned));
    for &count in counts {
        for awake in [0, count / 10] {
            let crowd = Crowd::gather(count, awake)?;
            for &sensing in &sensors {
                let slow = cost(sensing, Duration::from_secs(1), count)?;
                let fast = cost(sensing, Duration::from_millis(100), count)?;
                let words = [count.to_string(), awake.to_string(), format!("{sensing:?}").to_lowercase()];
                let [threads, awake, sensing] = words;
                row([threads, awake, sensing, slow.to_string(), fast.to_string(), fast.descriptors.to_string()]);
            }
            drop(crowd);
        }
    }
    row(["wanted", "", "", "<= 0.1 %", "<= 0.7 %", ""].map(str::to_owned));
    Ok(())
}

/// The share of a CPU that sampling a thousand threads takes: the minimum, the mean and the maximum of all seconds.
struct Cost {
    percent: [f64; 3],
    /// Held open by the sensor.
    descriptors: usize,
}

impl std::fmt::Display for Cost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [least, mean, most] = self.percent;
        f.pad(&format!("{mean:.3} % ({least:.3}-{most:.3})"))
    }
}

// Verifies COST-2.
fn cost(sensing: Sensing, period: Duration, crowd: u32) -> anyhow::Result<Cost> {
    let before = open_descriptors()?;
    let mut threads = Threads::by(&Root::system(), sensing);
    while threads.sample(BootTime::now())?.born.len() > 1 || threads.len() < crowd as usize {}
    let samples = (1.0 / period.as_secs_f64()).round() as u32;
    let mut seconds = Vec::new();
    let mut next = Instant::now();
    for _ in 0..SECONDS {
        let mut spent = Duration::ZERO;
        for _ in 0..samples {
            next += period;
            thread::sleep(next.saturating_duration_since(Instant::now()));
            let before = cpu_time();
            threads.sample(BootTime::now())?;
            spent += cpu_time() - before;
        }
        seconds.push(spent.as_secs_f64() * 100.0 * 1000.0 / threads.len() as f64);
    }
    seconds.sort_by(f64::total_cmp);
    ensure!(!seconds.is_empty(), "nothing was measured");
    let mean = seconds.iter().sum::<f64>() / seconds.len() as f64;
    let descriptors = open_descriptors()?.saturating_sub(before);
    Ok(Cost { percent: [seconds[0], mean, seconds[seconds.len() - 1]], descriptors })
}

fn open_descriptors() -> anyhow::Result<usize> {
    Ok(std::fs::read_dir("/proc/self/fd").context("cannot list /proc/self/fd")?.count())
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Processes of a hundred threads each, of which some are awake; they end when this is dropped.
struct Crowd(Vec<Child>);

impl Crowd {
    fn gather(count: u32, awake: u32) -> anyhow::Result<Self> {
        let mut crowd = Self(Vec::new());
        let processes = count.div_ceil(100);
        for _ in 0..processes {
            let mut child = Command::new(std::env::current_exe()?)
                .args(["crowd", &(count / processes).to_string(), &(awake / processes).to_string()])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .context("cannot start threads")?;
            let stdout = child.stdout.take().context("a crowd has a stdout")?;
            crowd.0.push(child);
            BufReader::new(stdout).read_line(&mut String::new())?;
        }
        Ok(crowd)
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for child in &mut self.0 {
            drop(child.stdin.take());
        }
        for child in &mut self.0 {
            let _ = child.wait();
        }
    }
}

/// Runs `count` threads, of which `awake` wake periodically, until standard input ends.
pub fn run_crowd(count: u32, awake: u32) -> anyhow::Result<()> {
    let over = Arc::new(AtomicBool::new(false));
    for number in 1..count {
        let over = Arc::clone(&over);
        let body = move || {
            while !over.load(Ordering::Relaxed) {
                if number <= awake { thread::sleep(WAKE_EVERY) } else { thread::park() }
            }
        };
        thread::Builder::new().stack_size(64 << 10).spawn(body).context("cannot start a thread")?;
    }
    println!("ready");
    std::io::stdout().flush()?;
    std::io::stdin().read_line(&mut String::new())?;
    over.store(true, Ordering::Relaxed);
    Ok(())
}
