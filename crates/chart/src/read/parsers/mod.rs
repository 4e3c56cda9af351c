//! A parser for each file of a recording.

pub mod command_lines;
pub mod cpu_frequencies;
pub mod kernel_log;
pub mod pressures;
pub mod proc_diskstats;
pub mod proc_ps;
pub mod proc_stat;
pub mod process_accounting;
pub(in crate::read) mod process_log;
pub mod task_statistics;
