//! What `brisk launch watch` shows: starts and ends of launches.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::config::Trigger;
use brisk_sys::BootTime;

/// A launch began or ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "launch", rename_all = "kebab-case")]
pub enum LaunchNotification {
    /// It was detected, or a further trigger fired for it.
    Began {
        /// When.
        at: BootTime,
        /// Its application; `?` when its process exited before its name could be read.
        application: String,
        /// Its process, where it is known.
        pid: Option<u32>,
        /// The trigger that detected it.
        trigger: Trigger,
        /// False for a further trigger of the same launch.
        first: bool,
    },
    /// It is over.
    Ended {
        /// When.
        at: BootTime,
        application: String,
        /// Its process, where it is known.
        pid: Option<u32>,
        /// How long it took.
        #[serde(rename = "duration_us", with = "microseconds")]
        duration: Duration,
        /// Why.
        reason: EndReason,
    },
}

/// What ended a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndReason {
    /// The CPU load fell below the threshold.
    LoadFell,
    /// Its process is in the foreground.
    Foreground,
    /// Its process exited.
    Exited,
    /// The client that announced it reported the end.
    Finished,
    /// It exceeded the longest launch, or the learned limit of its application.
    Deadline,
}

mod microseconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_micros)
    }
}
