//! What the daemon listens to, and how it becomes events.

pub mod device_changes;
pub mod exits;
pub mod facts;
pub mod load;
pub mod processes;
pub mod stall;
pub mod threads;
