//! The scheduler: masks, nice values, clamps, groups, and what threads ran.

pub mod affinity;
pub mod autogroup;
pub mod priority;
pub mod scheduling;
pub mod scheduling_attributes;
pub mod scheduling_group;
pub mod thread_facts;
pub mod thread_switches;
pub mod threads;
pub mod uclamp;
