//! Memory: the zram setup for this device, the headroom of applications, and which process is killed first.
//!
//! Paper: "Performance study through zRam enabled in Android system" (2013). `plan` and `killer` decide, and the daemon drives
//! `policy`. None of them writes.

pub mod apply;
pub mod config;
pub mod constant_pages;
mod driver;
pub mod headroom;
pub mod killer;
pub mod learned;
pub mod pageout;
pub mod parts;
pub mod plan;
pub mod policy;
mod probe;
pub mod restraint;
mod snapshot;
mod support;
pub mod victim;
pub mod writeback_budget;
mod zram_availability;

pub use config::{MemoryConfig, ZramPlan};
pub use learned::LearnedRatios;
pub use plan::{MemoryPlan, Setting, SettingOutcome};
pub use policy::MemoryPolicy;
pub use probe::MemoryDevice;
pub use snapshot::{MemorySnapshot, candidates};
pub use support::support;

/// The mechanism's name in decisions.
pub const NAME: &str = "memory";
