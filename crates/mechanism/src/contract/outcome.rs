//! What became of decisions: the way back from the kernel to the mechanism that decided.

use serde::{Deserialize, Serialize};

use brisk_sys::Target;

/// What became of one decision, or of a lease that ended without one: its deadline came, or what could not be restored
/// before was restored at last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// What the decision was about.
    pub target: Target,
    /// How it went.
    pub effect: Effect,
    /// The leased value that the target holds from now on; `None` when nothing of ours is left in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<String>,
}

/// How a decision went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// The kernel has taken it.
    Written,
    /// There was nothing to write.
    Unchanged,
    /// The kernel refused it, or it could not be recorded and was therefore not tried: why, and what to do.
    Refused(String),
    /// The target does not exist any more; a thread may end at any time.
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
