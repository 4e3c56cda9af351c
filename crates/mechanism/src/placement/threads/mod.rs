//! Threads: their classes by CPU use, the tracked threads, and inherited attributes.

pub mod classify;
pub(super) mod fork_parents;
pub(super) mod inherited;
pub mod roster;
