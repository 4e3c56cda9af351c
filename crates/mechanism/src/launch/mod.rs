//! Launch: detects that an application starts, and makes the frequency governor react at once while the launch lasts.
//!
//! `probe` reads what the device offers, `triggers` says how launches are detected there, `prediction` estimates the gain,
//! `actuator` chooses how to help, `policy` decides on each event, and `boost` issues the writes during a launch.
//! Paper: "Performance Improvement of Application Programs using an Adaptive Sampling Method" (2017).

pub mod actuator;
mod boost;
pub mod config;
mod driver;
pub mod filter;
pub mod learned;
mod limiter;
mod loss;
pub mod notification;
pub mod policy;
pub mod prediction;
pub mod probe;
mod running;
mod support;
pub mod triggers;

pub use actuator::LaunchPlan;
pub use config::LaunchConfig;
pub use learned::LearnedDurations;
pub use notification::LaunchNotification;
pub use policy::LaunchPolicy;
pub use probe::LaunchDevice;
pub use support::support;

/// The mechanism's name.
pub const NAME: &str = "launch";
