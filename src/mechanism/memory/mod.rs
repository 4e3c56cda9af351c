//! Memory: what zram should be on this device, how much memory an application can still get, and who goes first.
//!
//! Paper: "Performance study through zRam enabled in Android system" (2013). It observes and plans; it writes nothing.

pub mod headroom;
mod place;
pub mod plan;
mod probe;
mod snapshot;
mod support;
pub mod victim;

pub use plan::{Arm, Outcome, Plan, Setting};
pub use probe::DeviceFacts;
pub use snapshot::Snapshot;
pub use support::support;
