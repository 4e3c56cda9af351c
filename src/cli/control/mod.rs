//! What a person asks of brisk, and decides for it.

pub mod foreground;
pub mod restore;
pub mod setup;
pub mod status;
pub mod switch;
pub mod why;
