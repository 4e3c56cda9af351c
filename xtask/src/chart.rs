//! The cost of drawing a large recording, compared with pybootchartgui where that is installed.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use brisk::chart::generate::{self, Shape};

use crate::cost::{Cost, cost, range_and_median};

/// Runs of each program, in pairs whose order alternates.
const RUNS: usize = 21;

/// The program to compare with, in PATH.
const BASELINE: &str = "pybootchartgui";

/// Draws ten minutes of five thousand processes, and a boot of twenty seconds, with `brisk` and prints one table.
pub fn run(brisk: &Path) -> anyhow::Result<()> {
    let folder = std::env::temp_dir().join(format!("brisk-bench-chart-{}", std::process::id()));
    let result = measure(brisk, &folder);
    let _ = std::fs::remove_dir_all(&folder);
    print(&result?);
    Ok(())
}

/// The costs of each run, in pairs.
struct Measured {
    large_svg: Vec<Cost>,
    large_png: Vec<Cost>,
    short_svg: Vec<Cost>,
    short_png: Vec<Cost>,
    /// Of [`BASELINE`], where it is installed.
    baseline: Vec<Cost>,
}

fn measure(brisk: &Path, folder: &Path) -> anyhow::Result<Measured> {
    let [large, short] = ["large", "short"].map(|name| folder.join(name));
    generate::android(&Shape::LARGE, &large).context("cannot write a recording")?;
    generate::android(&Shape::SMALL, &short).context("cannot write a recording")?;
    let draw = |recording: &Path, extension: &str| -> anyhow::Result<Cost> {
        let output = folder.join("chart").with_extension(extension);
        let words = [brisk.as_os_str(), "boot".as_ref(), "chart".as_ref(), recording.as_os_str()];
        cost(&[&words[..], &["--output".as_ref(), output.as_os_str()]].concat())
    };
    let output = folder.join("chart.svg");
    let baseline_command =
        [BASELINE.as_ref(), "-f".as_ref(), "svg".as_ref(), "-o".as_ref(), output.as_ref(), large.as_os_str()];
    let has_baseline = in_path(BASELINE);
    eprintln!("chart: {RUNS} runs{}", if has_baseline { " and as many of pybootchartgui" } else { "" });
    draw(&large, "svg")?;
    draw(&large, "png")?;
    let mut measured = Measured {
        large_svg: Vec::new(),
        large_png: Vec::new(),
        short_svg: Vec::new(),
        short_png: Vec::new(),
        baseline: Vec::new(),
    };
    for pair in 0..RUNS {
        if has_baseline && pair % 2 == 0 {
            measured.baseline.push(cost(&baseline_command)?);
        }
        measured.large_svg.push(draw(&large, "svg")?);
        measured.large_png.push(draw(&large, "png")?);
        measured.short_svg.push(draw(&short, "svg")?);
        measured.short_png.push(draw(&short, "png")?);
        if has_baseline && pair % 2 == 1 {
            measured.baseline.push(cost(&baseline_command)?);
        }
    }
    Ok(measured)
}

fn in_path(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(program).is_file()))
}

fn print(measured: &Measured) {
    let spread = |values: Vec<f64>, unit: &str| {
        let [low, middle, high] = range_and_median(values);
        format!("{middle:.3} {unit} ({low:.3} to {high:.3})")
    };
    let times = |costs: &[Cost], of: fn(&Cost) -> Duration| costs.iter().map(|cost| of(cost).as_secs_f64()).collect();
    let peak_mib = |costs: &[Cost]| costs.iter().map(|cost| cost.peak_kib as f64 / 1024.0).collect();
    let ratios = |slow: &[Cost], fast: &[Cost], of: fn(&Cost) -> Duration| {
        slow.iter().zip(fast).map(|(slow, fast)| of(slow).as_secs_f64() / of(fast).as_secs_f64()).collect()
    };
    let Measured { large_svg, large_png, short_svg, short_png, baseline } = measured;
    let mut rows = vec![
        ("48 MB drawn as SVG: time", spread(times(large_svg, |cost| cost.wall), "s"), "<= 0.12 s"),
        ("CPU time", spread(times(large_svg, |cost| cost.cpu), "s"), ""),
        ("peak memory", spread(peak_mib(large_svg), "MiB"), "<= 64 MiB"),
        ("48 MB drawn as PNG: CPU time", spread(times(large_png, |cost| cost.cpu), "s"), ""),
        ("of the SVG's, in pairs", spread(ratios(large_png, large_svg, |cost| cost.cpu), "x"), "<= 20 x"),
        ("peak memory", spread(peak_mib(large_png), "MiB"), "<= 64 MiB"),
        ("short boot drawn as PNG: CPU time", spread(times(short_png, |cost| cost.cpu), "s"), ""),
        ("of the SVG's, in pairs", spread(ratios(short_png, short_svg, |cost| cost.cpu), "x"), "<= 20 x"),
        ("peak memory", spread(peak_mib(short_png), "MiB"), "<= 64 MiB"),
    ];
    if !baseline.is_empty() {
        rows.push(("pybootchartgui: time", spread(times(baseline, |cost| cost.wall), "s"), ""));
        rows.push(("pybootchartgui: peak memory", spread(peak_mib(baseline), "MiB"), ""));
        rows.push(("times as fast, in pairs", spread(ratios(baseline, large_svg, |cost| cost.wall), "x"), ">= 20 x"));
    }
    println!("{:<36} {:>34} {:>10}", format!("chart, {RUNS} runs: median (range)"), "measured", "wanted");
    for (what, measured, wanted) in rows {
        println!("{what:<36} {measured:>34} {wanted:>10}");
    }
}
