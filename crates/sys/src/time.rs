//! The one clock: time since boot, suspended time included, so that a lease ends during a suspend as well.

use std::ops::{Add, Sub};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A moment on CLOCK_BOOTTIME, in nanoseconds since boot. Policies take it as an argument and never read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BootTime {
    nanoseconds: u64,
}

impl BootTime {
    /// Later than any device runs: the deadline of what has none.
    pub const FOR_EVER: Self = Self::from_milliseconds(u64::MAX / 4_000_000);

    /// The current time.
    pub fn now() -> Self {
        let time = clock_gettime(ClockId::Boottime);
        Self { nanoseconds: time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64 }
    }

    /// The moment `nanoseconds` after boot.
    pub const fn from_nanoseconds(nanoseconds: u64) -> Self {
        Self { nanoseconds }
    }

    /// The moment `milliseconds` after boot.
    pub const fn from_milliseconds(milliseconds: u64) -> Self {
        Self { nanoseconds: milliseconds * 1_000_000 }
    }

    /// Nanoseconds since boot.
    pub const fn nanoseconds(self) -> u64 {
        self.nanoseconds
    }

    /// Time from `earlier` to this moment, zero when `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.nanoseconds.saturating_sub(earlier.nanoseconds))
    }
}

/// Seconds since 1970 by the wall clock (CLOCK_REALTIME), zero before. On 32-bit machines with musl, the standard library reads
/// this clock as 32 bits and panics after January 2038, or when the battery of a board's clock is empty and it shows such a year.
pub fn wall_s() -> u64 {
    u64::try_from(clock_gettime(ClockId::Realtime).tv_sec).unwrap_or(0)
}

impl Add<Duration> for BootTime {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self { nanoseconds: self.nanoseconds.saturating_add(nanoseconds) }
    }
}

impl Sub for BootTime {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.since(earlier)
    }
}

/// How a deadline is serialised: `null` where there is none (`#[serde(with = "...")]`).
pub mod end {
    use super::{BootTime, Deserialize, Deserializer, Serialize, Serializer};

    /// Writes `until`.
    ///
    /// # Errors
    /// Those of the format.
    pub fn serialize<S: Serializer>(until: &BootTime, serializer: S) -> Result<S::Ok, S::Error> {
        Some(*until).filter(|until| *until < BootTime::FOR_EVER).serialize(serializer)
    }

    /// Reads what [`serialize`] wrote.
    ///
    /// # Errors
    /// When it is not a time.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BootTime, D::Error> {
        Ok(Option::deserialize(deserializer)?.unwrap_or(BootTime::FOR_EVER))
    }
}
