//! Undo: the journal of all changes, and the guardian process that restores them.

pub mod guardian;
pub mod journal;
