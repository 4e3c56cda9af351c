//! Disks: their counters, and the I/O of processes and its priority.

pub mod disk_stats;
pub mod io_priority;
pub mod process_io;
