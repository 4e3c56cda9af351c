//! brisk's own processes: the daemon, its guardian, the killer, and the units' helper `grant`.

pub mod daemon;
pub mod grant;
pub mod guardian;
pub mod killer;
