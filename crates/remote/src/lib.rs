//! Other devices, reached by the installed `ssh` and `adb`: brisk is copied into a temporary folder, run, and removed.
//!
//! [`target`], [`quote`] and [`script`] are pure: which command lines are run, and what their answers mean. [`session`] runs them. No password is asked for: keys, host names and jump hosts are the business of ssh's own configuration.

pub mod error;
pub mod program;
pub mod quote;
pub mod results;
pub mod script;
pub mod session;
pub mod target;
