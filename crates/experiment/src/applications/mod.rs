//! Applications on a small device: what they are, one that is played, and who opens them.

#[cfg(feature = "lab")]
pub mod play;
pub mod workload;

pub use workload::{Application, Applications};
