//! What a run of a program costs.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

/// The cost of one run.
pub struct Cost {
    pub wall: Duration,
    pub cpu: Duration,
    pub peak_kib: u64,
}

/// Runs a program with arguments; its output is dropped.
pub fn cost(words: &[&OsStr]) -> anyhow::Result<Cost> {
    let program = Path::new(words[0]);
    let start = Instant::now();
    let mut command = Command::new(program);
    let child = command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let child = child.spawn().with_context(|| format!("cannot run {}", program.display()))?;
    let mut status = 0;
    // SAFETY: rusage is plain numbers, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to locals that outlive the call; the child is ours and no other code waits for it.
    let waited = unsafe { libc::wait4(child.id().cast_signed(), &raw mut status, 0, &raw mut usage) };
    let wall = start.elapsed();
    ensure!(waited == child.id().cast_signed(), "cannot wait for {}", program.display());
    ensure!(status == 0, "{} failed with wait status {status}", program.display());
    let time =
        |time: libc::timeval| Duration::new(time.tv_sec.unsigned_abs(), time.tv_usec.unsigned_abs() as u32 * 1000);
    Ok(Cost { wall, cpu: time(usage.ru_utime) + time(usage.ru_stime), peak_kib: usage.ru_maxrss.unsigned_abs() })
}

/// The lowest, the middle and the highest of some values.
pub fn range_and_median(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [values[0], values[values.len() / 2], values[values.len() - 1]]
}
