//! Claims and how they are checked: arms, order, replicates, statistics, verdict.

pub mod result;
