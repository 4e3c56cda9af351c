//! A large recording: ten minutes of five thousand processes, 48 MB. What drawing it takes on the clock is measured by `./dev bench`.

use std::process::Command;

use brisk::chart::generate::{self, Shape};

/// The most that any child of this process has had in memory at once, in KiB: files that it has mapped among it.
fn peak_kib() -> i64 {
    // SAFETY: rusage is plain numbers, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a local that outlives the call.
    let status = unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) };
    assert_eq!(status, 0);
    usage.ru_maxrss
}

#[test]
fn drawing_48_mb_takes_at_most_64_mib() {
    let folder = tempfile::tempdir().unwrap();
    let recording = folder.path().join("recording");
    generate::android(&Shape::LARGE, &recording).unwrap();
    let size: u64 = std::fs::read_dir(&recording).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum();
    assert!(size > 40_000_000, "{size}");
    let chart = folder.path().join("chart.svg");
    assert_eq!(peak_kib(), 0, "no child but the one that draws");
    let mut brisk = Command::new(env!("CARGO_BIN_EXE_brisk"));
    let output = brisk.args(["boot", "chart", "--output"]).args([&chart, &recording]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let svg = std::fs::read_to_string(&chart).unwrap();
    assert!(svg.trim_end().ends_with("</svg>") && svg.len() < 4_000_000, "{} bytes", svg.len());
    assert!((1024..=64 * 1024).contains(&peak_kib()), "{} KiB", peak_kib());
}
