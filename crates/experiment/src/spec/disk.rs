//! The disk of an experiment with combinations.

use serde::{Deserialize, Serialize};

/// A disk that the programs of a combination share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    /// Its name below /dev and /sys/block.
    pub name: String,
    /// Its scheduler in arms that name none.
    pub scheduler: String,
    /// Requests among which the scheduler can choose (`nr_requests`).
    pub requests: u32,
}

impl Disk {
    /// The first fault.
    pub(super) fn fault(&self) -> Option<&'static str> {
        let is_name = |name: &str| !name.is_empty() && !name.contains(['/', '.']);
        if !is_name(&self.name) || !is_name(&self.scheduler) {
            return Some("name and scheduler are names, not paths");
        }
        (self.requests == 0).then_some("requests must be above zero")
    }
}
