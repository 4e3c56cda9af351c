//! Reads the memory of processes on the user's own device, as the arms specify. Nothing is changed and no process killed.

use std::sync::atomic::AtomicBool;

use anyhow::Context;

use super::{Metrics, describe, run_replicates};
use crate::metric::Metric;
use crate::plan::{Line, Plan};
use crate::spec::{Reading, Readings};
use brisk_mechanism::memory::MemorySnapshot;
use brisk_sys::memory::{process_memory, psi};
use brisk_sys::{BootTime, Root};

/// Runs the replicates of `plan`; see [`super::run`].
pub(super) fn run(
    plan: &Plan,
    readings: Readings,
    root: &Root,
    interrupted: &AtomicBool,
    report: &mut dyn FnMut(&Line) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    report(&Line::Device { device: describe(root, None)? })?;
    let begun = BootTime::now();
    let memory_stall_us = || psi::memory(root).ok().map(|pressure| pressure.some.total_us);
    let before_us = memory_stall_us();
    run_replicates(plan, interrupted, report, |_, arm, _, finding| {
        let how = arm.reads.context("an arm of readings names its way to read")?;
        let measured = reading_us(root, how, readings.count);
        Ok(measured.map(|us| finding.metrics = Metrics::from([(Metric::Reading.key().to_owned(), us)])))
    })?;
    let waited = before_us.zip(memory_stall_us()).map(|(before_us, after_us)| {
        100.0 * after_us.saturating_sub(before_us) as f64 / BootTime::now().since(begun).as_micros().max(1) as f64
    });
    report(&Line::Note { note: note(root, waited)? })
}

/// The mean time to read one process, in microseconds.
fn reading_us(root: &Root, how: Reading, rounds: u32) -> anyhow::Result<f64> {
    // Only processes that both ways can read: not kernel threads, nor other users' processes.
    let can_be_read = |&pid: &u32| process_memory::proportional(root, pid).is_ok();
    let pids: Vec<u32> = process_memory::pids(root)?.into_iter().filter(can_be_read).collect();
    let mut count = 0u32;
    let begun = BootTime::now();
    for &pid in (0..rounds).flat_map(|_| &pids) {
        // A process that has exited meanwhile is not counted.
        count += u32::from(match how {
            Reading::Cheap => process_memory::read(root, pid).is_ok(),
            Reading::Exact => process_memory::proportional(root, pid).is_ok(),
        });
    }
    let took = BootTime::now().since(begun);
    anyhow::ensure!(count > 0, "no process's smaps_rollup can be read: run as root");
    Ok(took.as_secs_f64() * 1e6 / f64::from(count))
}

/// The note about the device in the result.
fn note(root: &Root, memory_stall_percent: Option<f64>) -> anyhow::Result<String> {
    let snapshot = MemorySnapshot::take(root, false).context("the headroom cannot be determined")?;
    let pressure = memory_stall_percent.map_or_else(
        || "this kernel does not report how long tasks waited for memory".to_owned(),
        |percent| format!("some task waited for memory {percent:.2} % of the time"),
    );
    Ok(format!(
        "Meanwhile {pressure}; the headroom is {} MiB of {} MiB, and {} processes hold memory.",
        snapshot.headroom.total_kib / 1024,
        snapshot.memory.total_kib / 1024,
        snapshot.candidates.len()
    ))
}
