//! Sensors: the daemon's inputs, turned into events.

pub mod device_changes;
pub mod exits;
pub mod facts;
pub mod load;
pub mod processes;
pub mod stall;
pub mod threads;
