//! Disks: what they have done, and for which process.

pub mod disk_stats;
pub mod io_priority;
pub mod process_io;
