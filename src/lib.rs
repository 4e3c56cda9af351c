//! brisk: a responsiveness engine for Android and embedded Linux, and the laboratory that proves it.
//!
//! Its floors are crates, which this one stands on and names: ARCHITECTURE.md shows the house on one page.

pub mod cli;

pub use brisk_base as base;
#[cfg(feature = "chart")]
pub use brisk_chart as chart;
pub use brisk_config as config;
pub use brisk_daemon as daemon;
pub use brisk_experiment as experiment;
#[cfg(feature = "lab")]
pub use brisk_lab as lab;
pub use brisk_mechanism as mechanism;
pub use brisk_report as report;
pub use brisk_sys as sys;
pub use brisk_undo as undo;
