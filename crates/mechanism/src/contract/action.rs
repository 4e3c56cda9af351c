//! What mechanisms ask the engine to do. Every lasting change is a lease and goes through the journal.

use serde::{Deserialize, Serialize};

use brisk_sys::BootTime;
pub use brisk_sys::Target;

/// One change of the device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "kebab-case")]
pub enum Action {
    /// Hold `value` in `target` until it is released or `until` has passed; the original is journalled first.
    Lease {
        /// What to change.
        target: Target,
        /// The value to hold.
        value: String,
        /// When it is restored at the latest.
        #[serde(with = "brisk_sys::time::end")]
        until: BootTime,
    },
    /// Restore the original value of the leased `target` now.
    Release {
        /// The leased target.
        target: Target,
    },
    /// Write `original` to `target` if it holds `inherited`: it inherited that value because another target was leased when it
    /// was created.
    Disinherit {
        /// The target that inherited, and is not leased itself.
        target: Target,
        /// The leased value that it inherited.
        inherited: String,
        /// The value that it would have without the lease.
        original: String,
    },
    /// Write back the value that `target` already holds: nothing changes, but the governor samples at once.
    Rewrite {
        /// The tunable whose current value is written again.
        target: Target,
    },
    /// Write `value` into a tunable that keeps no value or whose effect expires on its own (`boostpulse`).
    Pulse {
        /// The tunable.
        target: Target,
        /// What to write.
        value: String,
    },
}

/// An action and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// What to do.
    #[serde(flatten)]
    pub action: Action,
    /// Why, in plain words for the user: shown by `brisk status` and `--dry-run`.
    pub reason: String,
}
