//! What `brisk launch watch` shows: beginnings and ends of launches.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::config::Trigger;
use brisk_sys::BootTime;

/// A launch began or ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "launch", rename_all = "kebab-case")]
pub enum Notice {
    /// It was noticed, or noticed again by a further trigger.
    Began {
        /// When.
        at: BootTime,
        /// Its application; `?` when its process was gone before its name could be read.
        application: String,
        /// Its process, where it is known.
        pid: Option<u32>,
        /// By what.
        trigger: Trigger,
        /// False when a further trigger noticed it again.
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
    /// The CPUs have become quiet.
    LoadFell,
    /// Its process is in the foreground.
    Foreground,
    /// Its process has ended.
    Exited,
    /// Who announced it said so.
    Finished,
    /// It took longer than a launch may, or than those of its application did.
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
