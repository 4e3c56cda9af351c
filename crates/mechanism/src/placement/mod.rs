//! Placement: CPU-heavy background work makes room for the foreground, where and for as long as that helps.
//!
//! `classify` says what a thread is, `roster` which threads there are, `gain` what could be won, `cores` which cores can be kept
//! free, `step` what is done to a thread, `neighbours` whose group may weigh less as a whole, `sessions` the same
//! of sessions and what counts between the foreground and a thread, `heirs` which threads
//! inherited it, `fork_parents` whose children are bulk work together, `trial` whether it helped, `back_off` when what did not
//! is tried again, and `policy` decides. `resources` tells which process takes how much of everything else, and `storage`
//! lowers the I/O priority of threads that keep the foreground waiting for disks.
//! Paper: "Developing scheduler to manage resources for heterogeneous many core systems" (2013), whose rule is `thesis`.

mod back_off;
mod by_itself;
pub mod classify;
pub mod config;
mod contention;
pub mod cores;
mod driver;
mod fork_parents;
pub mod gain;
mod heirs;
mod neighbours;
pub mod policy;
pub mod probe;
pub mod resources;
pub mod roster;
mod sessions;
pub mod snapshot;
pub mod step;
pub mod storage;
mod support;
mod thesis;
pub mod trial;

pub use config::PlacementConfig;
pub use cores::Machine;
pub use policy::PlacementPolicy;
pub use snapshot::Snapshot;
pub use support::{decision, support};

/// The mechanism's name.
pub const NAME: &str = "placement";
