//! The processes of brisk itself: the daemon, and those beside it.

pub mod daemon;
pub mod grant;
pub mod guardian;
pub mod killer;
