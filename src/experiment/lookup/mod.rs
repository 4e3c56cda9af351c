//! Look-ups as a workload: a client that speaks to the driver directly and times itself.

mod cast;
mod client;
mod measure;

pub use cast::{Cast, Manager};
pub use client::{Client, Timing};
pub use measure::{Figures, Floors, Measured, measure};
