//! Benchmarks of the daemon: how soon it acts, its cost when nothing happens, and its cost in a fork storm.
//!
//! The daemon under test is the release binary with real process events, of this machine's kernel and of the lab's in
//! deterministic mode. Here it writes into a device tree on a tmpfs, so nothing of the machine is changed; in the lab it
//! drives the guest's own governor, at the CPU's full speed.

mod device;
mod latency;
mod program;
mod resident;
mod storm;

use std::fs;
use std::path::Path;

use anyhow::{Context as _, ensure};
use brisk::daemon::status::metrics::Histogram;
use brisk::lab::{self, Channel, GuestFile, Job, Scenario};
use serde::{Deserialize, Serialize};

use device::Tree;
pub use latency::run_receiver;
use latency::{LAUNCHES, Latency, latency};
use program::{SHORTEST, shortest_program};
use resident::{IDLE, idle, locked};
use storm::{Storm, storm};

/// The extent of a measurement: blocks of launches, and pairs of storms of this many forks, about a second each.
struct Extent {
    blocks: u32,
    pairs: usize,
    forks: u32,
}
const HERE: Extent = Extent { blocks: 10, pairs: 41, forks: 1_000 };
/// Repetitions are nearly equal there.
const IN_LAB: Extent = Extent { blocks: 2, pairs: 3, forks: 1_000 };
type Row = (&'static str, String, &'static str);

/// Measures `brisk` and prints one table; with `lab_only`, only what does not depend on this machine's load.
// Verifies COST-3.
pub fn run(brisk: &Path, lab_only: bool) -> anyhow::Result<()> {
    let size_kib = fs::metadata(brisk).with_context(|| format!("cannot read {}", brisk.display()))?.len() / 1024;
    let mut rows = vec![("binary", format!("{size_kib} KiB"), "<= 3276 KiB")];
    if !lab_only {
        measure_here(brisk, &mut rows)?;
    }
    eprintln!("in the lab: latency, storm, locked memory");
    let LabResults { latency, storm, locked_kib } = measure_in_lab(brisk)?;
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

/// What is measured in the lab.
#[derive(Serialize, Deserialize)]
struct LabResults {
    latency: Latency,
    storm: Storm,
    locked_kib: u64,
}

/// Runs the guest's part and prints it as one JSON line.
pub fn run_in_guest(brisk: &Path) -> anyhow::Result<()> {
    let tree = Tree::of_the_guest()?;
    let locked_kib = locked(brisk, &tree)?;
    let part =
        LabResults { latency: latency(brisk, &tree, &IN_LAB)?, storm: storm(brisk, &tree, &IN_LAB)?, locked_kib };
    println!("{}", serde_json::to_string(&part)?);
    Ok(())
}

/// In a guest whose time is counted in instructions, at full speed: all frequencies that its governor may choose are close to
/// the highest.
// Verifies COST-1.
fn measure_in_lab(brisk: &Path) -> anyhow::Result<LabResults> {
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
