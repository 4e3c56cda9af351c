//! Placement: deprioritises or confines CPU-bound background threads, where and for as long as that helps the foreground.
//!
//! `threads` classifies threads (`classify`), tracks them (`roster`), finds inherited attributes (`inherited`) and processes with
//! short-lived, CPU-bound children (`fork_parents`). `groups` finds control groups and sessions that may be deprioritised as a
//! whole. `gain` bounds the possible gain, `cores` says which CPUs can be reserved, `step` what is changed on a thread, `trial`
//! whether it helped, `back_off` when a failed step is tried again, and `policy` decides. `resources` reports each process's
//! share of every resource, `storage` lowers the I/O priority of threads that keep the foreground waiting for disks, and `network` the
//! priority of packets of groups that fill a network interface's queue.
//! Paper: "Developing scheduler to manage resources for heterogeneous many core systems" (2013), whose rule is `thesis`.

mod ablation;
mod automatic;
mod back_off;
pub mod config;
mod contention;
pub mod cores;
mod driver;
pub mod gain;
mod groups;
mod network;
pub mod policy;
pub mod probe;
pub mod resources;
pub mod snapshot;
pub mod step;
pub mod storage;
mod storage_contention;
mod support;
mod thesis;
pub mod threads;
pub mod trial;

pub use config::PlacementConfig;
pub use cores::Machine;
pub use policy::PlacementPolicy;
pub use snapshot::PlacementSnapshot;
pub use support::{decision, support};

/// The mechanism's name.
pub const NAME: &str = "placement";
