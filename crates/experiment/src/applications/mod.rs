//! Applications on a small device: the workload, and the program that plays one of them.

#[cfg(feature = "lab")]
pub mod simulate;
pub mod workload;

pub use workload::{Application, Applications};
