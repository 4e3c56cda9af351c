//! Launch: notice that an application starts, and make the frequency governor answer at once for as long as it lasts.

pub mod config;
pub mod prediction;

pub use config::LaunchConfig;
