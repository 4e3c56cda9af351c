//! Lookups as a workload: a client that speaks to the driver directly and times itself.

mod client;
mod concurrent;
mod measure;
mod processes;
mod replay;
mod steps;
mod summary;

pub use client::{Client, Timing};
pub use concurrent::crowd;
pub use measure::{Floors, Lookups, Measured};
pub use processes::{LookupProcesses, Manager};
pub use replay::{Replay, Replayed};
pub use steps::Steps;
pub use summary::Summary;
