//! Memory that is locked on a device that has more than the workload is for.

use anyhow::{Context, bail};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use brisk_sys::Root;
use brisk_sys::memory::{meminfo, zoneinfo};

/// The kernel itself causes smaller differences.
const TOLERANCE_KIB: u64 = 256;

/// The most that is locked at once: what the kernel takes for its page tables is known after it.
const PIECE_KIB: u64 = 128 << 10;

/// Locked memory, until it is dropped.
#[derive(Debug)]
pub(super) struct LockedMemory {
    pieces: Vec<(usize, usize)>,
}

impl LockedMemory {
    /// Locks memory until `available_kib` are left.
    pub(super) fn take(root: &Root, available_kib: u64) -> anyhow::Result<Self> {
        Self::within(root, available_kib, TOLERANCE_KIB)
    }

    /// The same, with this tolerance: also other processes start and end meanwhile.
    pub(super) fn within(root: &Root, available_kib: u64, tolerance_kib: u64) -> anyhow::Result<Self> {
        let mut locked_memory = Self { pieces: Vec::new() };
        loop {
            let now_kib = meminfo::read(root)?.available_kib.context("this kernel does not report MemAvailable")?;
            if now_kib + tolerance_kib < available_kib {
                // What has just been locked was taken in batches, and their rest is free as well.
                if now_kib + zoneinfo::per_cpu_lists_kib(root)? + tolerance_kib >= available_kib {
                    return Ok(locked_memory);
                }
                bail!(
                    "{now_kib} KiB are available, and the workload needs {available_kib}: give the scenario more memory"
                );
            }
            let Some(extra_kib) = now_kib.checked_sub(available_kib).filter(|&extra| extra >= tolerance_kib) else {
                return Ok(locked_memory);
            };
            let bytes = (extra_kib.min(PIECE_KIB) as usize) << 10;
            let flags = MapFlags::PRIVATE | MapFlags::LOCKED | MapFlags::POPULATE;
            // SAFETY: a new private mapping at an address that the kernel chooses.
            let start =
                unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, flags) };
            locked_memory.pieces.push((start.context("cannot lock memory")? as usize, bytes));
        }
    }
}

impl Drop for LockedMemory {
    fn drop(&mut self) {
        for &(start, bytes) in &self.pieces {
            // SAFETY: exactly a mapping that was made above, and nothing points into it.
            let _ = unsafe { munmap(start as *mut _, bytes) };
        }
    }
}
