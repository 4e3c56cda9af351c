//! Claims and how they are checked: arms, order, replicates, statistics, verdict.
//!
//! One experiment passes through [`spec`] (its file) -> [`schedule`] (the order of the replicates, pure) -> [`plan`] (what a
//! device runs) -> the runner on that device -> measurements -> statistics -> verdict -> [`brisk_report::proof`].

pub mod applications;
pub mod campaign;
pub mod catalogue;
pub mod claim;
pub mod conduct;
pub mod costs;
pub mod estimate;
pub mod load;
pub mod lookup;
pub mod merge;
pub mod metric;
pub mod plan;
pub mod point;
pub mod reboots;
pub mod runner;
pub mod samples;
pub mod schedule;
pub mod shard;
pub mod spec;
pub mod statistics;
pub mod store;
#[cfg(feature = "lab")]
pub mod tasks;
pub mod testbed;
pub mod verdict;
pub mod wall_clock;
