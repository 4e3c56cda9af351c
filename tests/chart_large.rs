//! A large recording: ten minutes of five thousand processes, 48 MB. `./dev bench` measures how long drawing it takes.

use std::process::Command;

use brisk::chart::generate::{self, Shape};

/// For all allocations of the program, including its threads' stacks (RLIMIT_DATA).
const LIMIT_BYTES: u64 = 64 << 20;

// Verifies CHART-2.
#[test]
fn drawing_48_mb_takes_at_most_64_mib() {
    let folder = tempfile::tempdir().unwrap();
    let recording = folder.path().join("recording");
    generate::android(&Shape::LARGE, &recording).unwrap();
    let size: u64 = std::fs::read_dir(&recording).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum();
    assert!(size > 40_000_000, "{size}");
    let chart = folder.path().join("chart.svg");
    let mut brisk = Command::new("prlimit");
    brisk.arg(format!("--data={LIMIT_BYTES}")).arg(env!("CARGO_BIN_EXE_brisk"));
    let output = brisk.args(["boot", "chart", "--output"]).args([&chart, &recording]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let svg = std::fs::read_to_string(&chart).unwrap();
    assert!(svg.trim_end().ends_with("</svg>") && svg.len() < 4_000_000, "{} bytes", svg.len());
}
