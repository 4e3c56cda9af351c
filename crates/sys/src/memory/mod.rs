//! Memory: how much is free, which tasks stall on it, swap and zram.

pub mod meminfo;
pub mod memory_lock;
pub mod pagemap;
pub mod process_memory;
pub mod process_reclaim;
pub mod psi;
pub mod swap_area;
pub mod swap_off;
pub mod swaps;
pub mod vm_tunables;
pub mod vmstat;
pub mod zoneinfo;
pub mod zram;
pub mod zram_owner;
pub mod zram_writeback;
