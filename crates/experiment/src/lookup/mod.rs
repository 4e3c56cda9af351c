//! Lookups as a workload: a client that speaks to the driver directly and times itself.

mod cast;
mod client;
mod crowd;
mod figures;
mod measure;
mod replay;
mod steps;

pub use cast::{Cast, Manager};
pub use client::{Client, Timing};
pub use crowd::crowd;
pub use figures::Figures;
pub use measure::{Floors, Lookups, Measured};
pub use replay::Replay;
pub use steps::Steps;
