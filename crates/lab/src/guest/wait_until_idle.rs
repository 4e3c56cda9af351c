//! Waits until a device that has just started is idle: a kernel continues to test and probe after its first process runs, and
//! timed work then takes longer than the same work later.

use std::thread::sleep;
use std::time::Duration;

use anyhow::Context;

use brisk_sys::Root;
use brisk_sys::cpu::load::CpuTime;

/// The sampling period of the CPUs.
const WINDOW: Duration = Duration::from_millis(100);

/// A window with a lower busy share is idle.
const IDLE_PERMILLE: u16 = 30;

/// The device is idle after this many idle windows in a row.
const IDLE_WINDOWS: u32 = 2;

/// After this many windows the command runs even if the device is not idle.
const MAX_WINDOWS: u32 = 100;

/// Returns when the device is idle, or after ten seconds.
///
/// # Errors
/// When /proc/stat cannot be read.
pub fn settle(root: &Root) -> anyhow::Result<()> {
    let read = || CpuTime::read(root).context("cannot tell whether the guest is idle");
    let (mut before, mut idle_windows) = (read()?, 0);
    for _ in 0..MAX_WINDOWS {
        sleep(WINDOW);
        let now = read()?;
        let is_idle = now.busy_permille_since(before).is_some_and(|busy| busy < IDLE_PERMILLE);
        idle_windows = if is_idle { idle_windows + 1 } else { 0 };
        if idle_windows == IDLE_WINDOWS {
            return Ok(());
        }
        before = now;
    }
    eprintln!("brisk: the guest is not idle yet; continuing");
    Ok(())
}
