//! Commands by which the user queries and configures brisk.

pub mod foreground;
mod metrics_http;
pub mod restore;
pub mod setup;
pub mod status;
pub mod switch;
pub mod why;
