//! A lease, and the outcome of restoring it.

use serde::{Deserialize, Serialize};

use brisk_sys::{BootTime, Target};

/// A value held in a target, with deadline and reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The leased target.
    pub target: Target,
    /// The value before the first lease, which is restored.
    pub original: String,
    /// The value written.
    pub value: String,
    /// The value read back right after the write, as the kernel rounded it; `None` between the record and the write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<String>,
    /// When the first lease began.
    pub since: BootTime,
    /// When it is restored.
    pub until: BootTime,
    /// Why, for the user.
    pub reason: String,
}

/// The outcome for one lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restoration {
    /// The leased target.
    pub target: Target,
    /// The value to restore.
    pub original: String,
    /// The result.
    #[serde(flatten)]
    pub outcome: RestoreOutcome,
}

/// The result of restoring one target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum RestoreOutcome {
    /// The target holds its original.
    Restored,
    /// Another process has written the target since; its value stays.
    ChangedByOther {
        /// That value.
        found: String,
    },
    /// The target no longer exists: another governor was chosen, a CPU went offline, or a process has exited.
    Vanished,
    /// The target could not be restored; the journal keeps the lease and retries.
    Refused {
        /// Why.
        error: String,
    },
}

impl RestoreOutcome {
    /// True when the target no longer holds a leased value.
    pub fn is_final(&self) -> bool {
        !matches!(self, Self::Refused { .. })
    }
}
