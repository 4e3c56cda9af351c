//! Lookups as a workload: a client that speaks to the driver directly and times itself.

mod client;
#[cfg(feature = "lab")]
mod concurrent;
mod measure;
mod processes;
#[cfg(feature = "lab")]
mod replay;
mod steps;
mod summary;

pub use client::{Client, Timing};
#[cfg(feature = "lab")]
pub use concurrent::crowd;
pub use measure::{Floors, Lookups, Measured};
pub use processes::{LookupProcesses, Manager};
#[cfg(feature = "lab")]
pub use replay::{Replay, Replayed};
pub use steps::Steps;
pub use summary::Summary;
