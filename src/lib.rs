//! brisk: a responsiveness engine for Android and embedded Linux, and the laboratory that proves it.
//!
//! Each layer is a crate, re-exported here; ARCHITECTURE.md describes them on one page.

pub mod cli;

pub use brisk_base as base;
#[cfg(feature = "chart")]
pub use brisk_chart as chart;
pub use brisk_config as config;
pub use brisk_daemon as daemon;
pub use brisk_experiment as experiment;
#[cfg(feature = "fleet")]
pub use brisk_fleet as fleet;
#[cfg(feature = "lab")]
pub use brisk_lab as lab;
pub use brisk_mechanism as mechanism;
#[cfg(feature = "lab")]
pub use brisk_papers as papers;
pub use brisk_recorder as recorder;
#[cfg(feature = "lab")]
pub use brisk_remote as remote;
pub use brisk_report as report;
pub use brisk_sys as sys;
pub use brisk_telemetry as telemetry;
#[cfg(feature = "trace")]
pub use brisk_trace as trace;
pub use brisk_undo as undo;
