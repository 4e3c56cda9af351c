//! What undoes: the journal of what was changed, and the process that restores it.

pub mod guardian;
pub mod journal;
