//! Fetching back what an application that comes to the foreground has on swap, on an idle CPU.
//!
//! It waits for its files at first, and more CPUs than one are seldom all busy: meanwhile a thread that runs only on an idle
//! CPU (SCHED_IDLE) asks the kernel for the pages that it will touch next (MADV_WILLNEED).

use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, Sender, channel};

use brisk_sys::Root;
use brisk_sys::memory::process_reclaim::{Range, Wish, advise, anonymous_ranges};
use brisk_sys::memory::{meminfo, process_memory, zoneinfo};
use brisk_sys::process::process_kill::Hold;

/// What has less than this on swap is not fetched.
const WORTHWHILE_KIB: u64 = 1 << 10;

/// Starts the thread, and returns where it is told the foreground.
///
/// # Errors
/// When there can be no thread.
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

/// Fetches what process `pid` has on swap while memory is there for it. Returns who came to the front meanwhile.
fn fetch(root: &Root, pid: u32, fronts: &Receiver<u32>) -> Option<u32> {
    let swapped_kib = process_memory::read(root, pid).ok().flatten().map_or(0, |memory| memory.swap_kib);
    let watermarks = zoneinfo::watermarks(root).ok().filter(|_| swapped_kib >= WORTHWHILE_KIB)?;
    let (Ok(hold), Ok(ranges)) = (Hold::on(pid), anonymous_ranges(root, pid)) else { return None };
    for step in ranges.into_iter().flat_map(Range::steps) {
        if let Ok(other) = fronts.try_recv() {
            return Some(other);
        }
        // Below that kswapd would swap another process out for it.
        let has_room = meminfo::read(root).is_ok_and(|memory| memory.free_kib > 2 * watermarks.high_kib);
        if !has_room || advise(hold.as_fd(), step, Wish::In).is_err() {
            return None;
        }
    }
    None
}
