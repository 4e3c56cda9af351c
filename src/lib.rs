//! brisk: a responsiveness engine for Android and embedded Linux, and the laboratory that proves it.
//!
//! The floors, top to bottom; imports only go down:
//! [`cli`] -> [`engine`], [`experiment`], `lab` -> [`config`] -> [`mechanism`], `chart`, [`report`] -> [`device`], [`random`],
//! [`work`], [`insertion_sort`], [`notes`] -> std.
//! ARCHITECTURE.md shows the house on one page.

#[cfg(feature = "chart")]
pub mod chart;
pub mod cli;
pub mod config;
pub mod device;
pub mod engine;
pub mod experiment;
pub mod insertion_sort;
#[cfg(feature = "lab")]
pub mod lab;
pub mod mechanism;
pub mod notes;
pub mod random;
pub mod report;
pub mod work;
