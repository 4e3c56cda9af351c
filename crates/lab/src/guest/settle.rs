//! Waiting for a device that has just started to come to rest: a kernel goes on testing and probing after its first
//! process runs, and work that is timed then takes longer than the same work a moment later.

use std::thread::sleep;
use std::time::Duration;

use anyhow::Context;

use brisk_sys::Root;
use brisk_sys::cpu::load::CpuTime;

/// The CPUs are looked at once in such a window.
const WINDOW: Duration = Duration::from_millis(100);

/// At rest, less than this share of a window is busy.
const REST_PERMILLE: u16 = 30;

/// At rest, so many windows follow each other.
const REST_WINDOWS: u32 = 2;

/// A device that is not at rest after so many windows never will be: the command runs all the same.
const PATIENCE_WINDOWS: u32 = 100;

/// Returns when the device is at rest, or after ten seconds.
///
/// # Errors
/// When /proc/stat cannot be read.
pub fn settle(root: &Root) -> anyhow::Result<()> {
    let read = || CpuTime::read(root).context("cannot tell whether the guest is at rest");
    let (mut before, mut at_rest) = (read()?, 0);
    for _ in 0..PATIENCE_WINDOWS {
        sleep(WINDOW);
        let now = read()?;
        let is_at_rest = now.busy_permille_since(before).is_some_and(|busy| busy < REST_PERMILLE);
        at_rest = if is_at_rest { at_rest + 1 } else { 0 };
        if at_rest == REST_WINDOWS {
            return Ok(());
        }
        before = now;
    }
    eprintln!("brisk: the guest is not at rest yet; going on");
    Ok(())
}
