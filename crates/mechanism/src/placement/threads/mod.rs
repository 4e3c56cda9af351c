//! Threads: what each is by its use of the CPU, which there are, and what they inherit.

pub mod classify;
pub(super) mod fork_parents;
pub(super) mod heirs;
pub mod roster;
