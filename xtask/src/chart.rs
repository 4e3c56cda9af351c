//! What a chart of a large recording costs, beside pybootchartgui where that is installed.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use brisk::chart::generate::{self, Shape};

/// Runs of each program, in pairs whose order alternates.
const RUNS: usize = 21;

/// The program that everybody has, in PATH.
const BASELINE: &str = "pybootchartgui";

/// What one run took.
struct Cost {
    wall: Duration,
    cpu: Duration,
    peak_kib: u64,
}

/// Draws ten minutes of five thousand processes with `brisk` and prints one table.
pub fn run(brisk: &Path) -> anyhow::Result<()> {
    let recording = tempfile::tempdir().context("cannot make a folder for a recording")?;
    let folder = recording.path();
    generate::android(&Shape::LARGE, folder).context("cannot write a recording")?;
    let output = folder.join("chart.svg");
    let ours = [
        brisk.as_os_str(),
        "boot".as_ref(),
        "chart".as_ref(),
        folder.as_os_str(),
        "--output".as_ref(),
        output.as_ref(),
    ];
    let theirs = [BASELINE.as_ref(), "-f".as_ref(), "svg".as_ref(), "-o".as_ref(), output.as_ref(), folder.as_os_str()];
    let has_baseline = in_path(BASELINE);
    eprintln!("chart: {RUNS} runs{}", if has_baseline { " and as many of pybootchartgui" } else { "" });
    let (mut costs, mut baseline) = (Vec::new(), Vec::new());
    cost(&ours)?;
    for pair in 0..RUNS {
        if has_baseline && pair % 2 == 0 {
            baseline.push(cost(&theirs)?);
        }
        costs.push(cost(&ours)?);
        if has_baseline && pair % 2 == 1 {
            baseline.push(cost(&theirs)?);
        }
    }
    print(&costs, &baseline);
    Ok(())
}

fn in_path(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(program).is_file()))
}

fn cost(words: &[&std::ffi::OsStr]) -> anyhow::Result<Cost> {
    let program = PathBuf::from(words[0]);
    let start = Instant::now();
    let mut command = Command::new(&program);
    let child = command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let child = child.spawn().with_context(|| format!("cannot run {}", program.display()))?;
    let mut status = 0;
    // SAFETY: rusage is plain numbers, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to locals that outlive the call; the child is ours and nobody else waits for it.
    let waited = unsafe { libc::wait4(child.id().cast_signed(), &raw mut status, 0, &raw mut usage) };
    let wall = start.elapsed();
    ensure!(waited == child.id().cast_signed(), "cannot wait for {}", program.display());
    ensure!(status == 0, "{} failed with wait status {status}", program.display());
    let time =
        |time: libc::timeval| Duration::new(time.tv_sec.unsigned_abs(), time.tv_usec.unsigned_abs() as u32 * 1000);
    Ok(Cost { wall, cpu: time(usage.ru_utime) + time(usage.ru_stime), peak_kib: usage.ru_maxrss.unsigned_abs() })
}

fn print(costs: &[Cost], baseline: &[Cost]) {
    let spread = |values: Vec<f64>, unit: &str| {
        let [low, middle, high] = ends_and_median(values);
        format!("{middle:.3} {unit} ({low:.3} to {high:.3})")
    };
    let times = |costs: &[Cost], of: fn(&Cost) -> Duration| costs.iter().map(|cost| of(cost).as_secs_f64()).collect();
    let peak_mib = |costs: &[Cost]| costs.iter().map(|cost| cost.peak_kib as f64 / 1024.0).collect();
    let mut rows = vec![
        ("48 MB drawn as SVG: time", spread(times(costs, |cost| cost.wall), "s"), "<= 0.12 s"),
        ("CPU time", spread(times(costs, |cost| cost.cpu), "s"), ""),
        ("peak memory", spread(peak_mib(costs), "MiB"), "<= 64 MiB"),
    ];
    if !baseline.is_empty() {
        let ratios =
            costs.iter().zip(baseline).map(|(ours, theirs)| theirs.wall.as_secs_f64() / ours.wall.as_secs_f64());
        rows.push(("pybootchartgui: time", spread(times(baseline, |cost| cost.wall), "s"), ""));
        rows.push(("pybootchartgui: peak memory", spread(peak_mib(baseline), "MiB"), ""));
        rows.push(("times as fast, in pairs", spread(ratios.collect(), "x"), ">= 20 x"));
    }
    println!("{:<36} {:>34} {:>10}", format!("chart, {} runs: median (range)", costs.len()), "measured", "wanted");
    for (what, measured, wanted) in rows {
        println!("{what:<36} {measured:>34} {wanted:>10}");
    }
}

fn ends_and_median(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [values[0], values[values.len() / 2], values[values.len() - 1]]
}
