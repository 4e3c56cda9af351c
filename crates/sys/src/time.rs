//! The one clock: time since boot, suspended time included, so that a lease ends during a suspend as well.

use std::ops::{Add, Sub};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// A moment on CLOCK_BOOTTIME, in nanoseconds since boot. Policies take it as an argument and never read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BootTime {
    nanoseconds: u64,
}

impl BootTime {
    /// The present moment.
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
