//! Records the kernel's trace events on the device, as a file of trace-cmd.
//!
//! The kernel's own pages are written as they are, so that recording costs little; what reads them runs elsewhere. [`header`]
//! lays the file out, [`file`](mod@file) keeps it readable at every moment, [`recording`] reads the kernel's buffers, and
//! [`launch_watch`] tells when a launch has ended, by the rules of [`programs`].

pub mod file;
pub mod header;
pub mod launch_watch;
mod memory_counts;
mod memory_facts;
pub mod programs;
pub mod recording;
#[cfg(test)]
mod sample;

pub use recording::{Options, RecordError, Recording, Summary};
