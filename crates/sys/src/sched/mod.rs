//! The scheduler: affinity masks, nice values, utilisation clamps, scheduling groups, and threads' CPU usage.

pub mod affinity;
pub mod autogroup;
pub mod own_policy;
pub mod priority;
pub mod scheduling_attributes;
pub mod scheduling_group;
pub mod thread_facts;
pub mod thread_switches;
pub mod threads;
pub mod uclamp;
