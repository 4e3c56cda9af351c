//! What mechanisms ask the engine to do. Whatever lasts is a lease and goes through the journal.

use serde::{Deserialize, Serialize};

use brisk_sys::BootTime;
pub use brisk_sys::Target;

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "kebab-case")]
pub enum Action {
    /// Hold `value` in `target` until it is released or `until` has come; the original is journalled first.
    Lease {
        /// What to change.
        target: Target,
        /// The value to hold.
        value: String,
        /// When it is restored, whatever happens.
        #[serde(with = "brisk_sys::time::end")]
        until: BootTime,
    },
    /// Give the leased `target` its original value back now.
    Release {
        /// What was leased.
        target: Target,
    },
    /// Give `target` the value `original`, if it holds `inherited`: it began with that because another target was leased
    /// when it came to be.
    Disinherit {
        /// What was not leased itself.
        target: Target,
        /// The leased value that it began with.
        inherited: String,
        /// What it would have begun with.
        original: String,
    },
    /// Write back the value that `target` holds already: nothing changes but the governor looks at once.
    Rewrite {
        /// The tunable whose present value is written again.
        target: Target,
    },
    /// Write `value` into a tunable that keeps nothing or whose effect ends by itself (`boostpulse`).
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
    /// Why, in words a person understands: shown by `brisk status` and `--dry-run`.
    pub reason: String,
}
