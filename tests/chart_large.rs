//! A large recording: ten minutes of five thousand processes, 48 MB. What drawing it takes on the clock is measured by `./dev bench`.

use std::process::{Child, Command};

use brisk::chart::generate::{self, Shape};

/// Waits for `child` and returns the most that it had in memory at once, in KiB: files that it has mapped among it.
fn peak_kib(child: &Child) -> i64 {
    // SAFETY: rusage is plain numbers, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    let mut status = 0;
    let pid = i32::try_from(child.id()).unwrap();
    // SAFETY: the pointers are to locals that outlive the call; the child has not been waited for.
    let waited = unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) };
    assert_eq!((waited, status), (pid, 0));
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
    let mut brisk = Command::new(env!("CARGO_BIN_EXE_brisk"));
    let child = brisk.args(["boot", "chart", "--output"]).args([&chart, &recording]).spawn().unwrap();
    let peak_kib = peak_kib(&child);
    let svg = std::fs::read_to_string(&chart).unwrap();
    assert!(svg.trim_end().ends_with("</svg>") && svg.len() < 4_000_000, "{} bytes", svg.len());
    assert!((1024..=64 * 1024).contains(&peak_kib), "{peak_kib} KiB");
}
