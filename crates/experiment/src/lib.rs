//! Claims and how they are checked: arms, order, replicates, statistics, verdict.
//!
//! One experiment's way: [`spec`] (what its file says) -> [`schedule`] (who runs when, pure) -> [`plan`] (what a device
//! is given) -> the runner on that device -> measurements -> statistics -> verdict -> [`brisk_report::proof`].

pub mod applications;
pub mod campaign;
pub mod catalogue;
pub mod claim;
pub mod conduct;
pub mod costs;
pub mod estimate;
pub mod load;
pub mod lookup;
pub mod metric;
pub mod place;
pub mod plan;
pub mod point;
pub mod reboots;
pub mod runner;
pub mod samples;
pub mod schedule;
pub mod spec;
pub mod statistics;
pub mod store;
#[cfg(feature = "lab")]
pub mod tasks;
pub mod verdict;
pub mod wall_clock;
