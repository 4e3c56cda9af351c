//! Prefetches the swapped pages of an application that comes to the foreground, on an idle CPU.
//!
//! The application first waits for its files, and several CPUs are seldom all busy. Meanwhile a thread that runs only on an
//! idle CPU (SCHED_IDLE) asks the kernel for the pages that the application will touch next (MADV_WILLNEED).

use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, Sender, channel};

use brisk_sys::Root;
use brisk_sys::memory::process_reclaim::{Range, SwapDirection, advise, anonymous_ranges};
use brisk_sys::memory::{meminfo, process_memory, zoneinfo};
use brisk_sys::process::process_kill::ProcessHandle;

/// A process with less than this on swap is not prefetched.
const WORTHWHILE_KIB: u64 = 1 << 10;

/// Starts the thread, and returns the channel for foreground pids.
///
/// # Errors
/// When the thread cannot be started.
pub(super) fn start(root: &Root) -> std::io::Result<Sender<u32>> {
    let (sender, receiver) = channel();
    let root = root.clone();
    std::thread::Builder::new().name("prefetch".to_owned()).spawn(move || {
        if let Err(error) = super::become_idle() {
            return tracing::warn!("cannot start prefetch from swap: {error}");
        }
        while let Ok(pid) = receiver.recv() {
            let mut next = Some(pid);
            while let Some(pid) = next {
                next = fetch(&root, pid, &receiver);
            }
        }
    })?;
    Ok(sender)
}

/// Fetches the swapped pages of process `pid` while memory is free. Returns the pid that came to the foreground meanwhile.
fn fetch(root: &Root, pid: u32, foreground_pids: &Receiver<u32>) -> Option<u32> {
    let swapped_kib = process_memory::read(root, pid).ok().flatten().map_or(0, |memory| memory.swap_kib);
    let watermarks = zoneinfo::watermarks(root).ok().filter(|_| swapped_kib >= WORTHWHILE_KIB)?;
    let (Ok(hold), Ok(ranges)) = (ProcessHandle::on(pid), anonymous_ranges(root, pid)) else { return None };
    for step in ranges.into_iter().flat_map(Range::steps) {
        if let Ok(other) = foreground_pids.try_recv() {
            return Some(other);
        }
        // With less free memory, kswapd would swap out other processes.
        let has_room = meminfo::read(root).is_ok_and(|memory| memory.free_kib > 2 * watermarks.high_kib);
        if !has_room || advise(hold.as_fd(), step, SwapDirection::In).is_err() {
            return None;
        }
    }
    None
}
