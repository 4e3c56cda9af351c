//! Placement: CPU-heavy background work makes room for the foreground, where and for as long as that helps.
//!
//! `threads` has what a thread is (`classify`), which there are (`roster`), which inherited something (`heirs`) and whose
//! children are bulk work together (`fork_parents`); `groups` whose control group or session may weigh less as a whole. `gain`
//! says what could be won, `cores` which cores can be kept free, `step` what is done to a thread, `trial` whether it helped,
//! `back_off` when what did not is tried again, and `policy` decides. `resources` tells which process takes how much of
//! everything else, and `storage` lowers the I/O priority of threads that keep the foreground waiting for disks.
//! Paper: "Developing scheduler to manage resources for heterogeneous many core systems" (2013), whose rule is `thesis`.

mod back_off;
mod by_itself;
pub mod config;
mod contention;
pub mod cores;
mod driver;
pub mod gain;
mod groups;
pub mod policy;
pub mod probe;
pub mod resources;
pub mod snapshot;
pub mod step;
pub mod storage;
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
