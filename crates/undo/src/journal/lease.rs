//! A lease, and what became of it.

use serde::{Deserialize, Serialize};

use brisk_sys::{BootTime, Target};

/// One value held in one target, until when and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// What is held.
    pub target: Target,
    /// What it held before the first lease: what it gets back.
    pub original: String,
    /// What was asked for.
    pub value: String,
    /// What it held right after the write, as the kernel rounded it; `None` between the record and the write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<String>,
    /// When the first lease began.
    pub since: BootTime,
    /// When it is restored.
    pub until: BootTime,
    /// Why, in words a person understands.
    pub reason: String,
}

/// What became of one lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restoration {
    /// What was leased.
    pub target: Target,
    /// The value that it was to get back.
    pub original: String,
    /// How that went.
    #[serde(flatten)]
    pub outcome: RestoreOutcome,
}

/// How a restoration went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum RestoreOutcome {
    /// The target holds its original.
    Restored,
    /// Another process has written it since; that stays.
    ChangedByOther {
        /// What it holds.
        found: String,
    },
    /// The target is gone (another governor, a CPU or a process that ended), and what it held with it.
    Vanished,
    /// It could not be written; the journal keeps it, and it is tried again.
    Refused {
        /// Why.
        error: String,
    },
}

impl RestoreOutcome {
    /// True when nothing of ours is left in the target.
    pub fn is_final(&self) -> bool {
        !matches!(self, Self::Refused { .. })
    }
}
