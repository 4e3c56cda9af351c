//! Outcomes of decisions: what the kernel made of each, reported to the mechanism that decided.

use serde::{Deserialize, Serialize};

use brisk_sys::Target;

/// The outcome of one decision, or of a lease that ended without one: its deadline passed, or a restore that had failed
/// succeeded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// What the decision was about.
    pub target: Target,
    /// The result.
    pub effect: Effect,
    /// The leased value that the target holds from now on; `None` when it holds no value of brisk's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<String>,
}

/// The result of a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// The kernel accepted it.
    Written,
    /// There was nothing to write.
    Unchanged,
    /// The kernel refused it, or it could not be journalled and was therefore not written: why, and what to do.
    Refused(String),
    /// The target no longer exists; a thread may exit at any time.
    Missing(String),
}

impl Outcome {
    /// Why the decision did not take effect; `None` when it did.
    pub fn error(&self) -> Option<&str> {
        match &self.effect {
            Effect::Written | Effect::Unchanged => None,
            Effect::Refused(error) | Effect::Missing(error) => Some(error),
        }
    }
}
