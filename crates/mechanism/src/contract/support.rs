//! What a device offers to a mechanism: a state, a reason and advice, never an error.

use serde::{Deserialize, Serialize};

/// How far a mechanism can work on this device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SupportState {
    /// The kernel or the device lacks a feature that cannot be added at run time.
    Unsupported,
    /// It could work, but it is off: not configured, not worth it here, or not started.
    Available,
    /// It works now.
    Active,
}

impl Default for Support {
    fn default() -> Self {
        Self {
            state: SupportState::Available,
            reason: "the device was not probed yet".to_owned(),
            advice: String::new(),
        }
    }
}

/// A part of a mechanism that is switched separately.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Its section in the configuration, such as `memory.killer`.
    pub name: String,
    /// Whether it is on.
    pub on: bool,
    /// Why: one sentence.
    pub reason: String,
}

/// A state, its reason, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Support {
    pub state: SupportState,
    /// One sentence that names the deciding fact and its file.
    pub reason: String,
    /// What the user can do to get further; empty when there is nothing to do.
    pub advice: String,
}
