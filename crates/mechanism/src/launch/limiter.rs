//! Limits how often launches may start.

use std::time::Duration;

use brisk_sys::BootTime;

/// The generic cell rate algorithm (ITU-T I.371): a rate with a tolerance for bursts; its state is one point in time.
#[derive(Debug)]
pub struct RateLimiter {
    interval: Duration,
    tolerance: Duration,
    /// The theoretical arrival time of the next launch.
    expected: BootTime,
    muted_until: Option<BootTime>,
}

impl RateLimiter {
    /// A limiter that admits `per_minute` launches in the long run and `burst` at once.
    pub fn new(per_minute: u64, burst: u64) -> Self {
        let interval = Duration::from_secs(60) / u32::try_from(per_minute.max(1)).unwrap_or(u32::MAX);
        let tolerance = interval * u32::try_from(burst.saturating_sub(1)).unwrap_or(u32::MAX);
        Self { interval, tolerance, expected: BootTime::default(), muted_until: None }
    }

    /// True when one more launch may start at `now`; it is then counted.
    pub fn admit(&mut self, now: BootTime) -> bool {
        let expected = self.expected.max(now);
        if expected.since(now) > self.tolerance {
            self.mute(now);
            return false;
        }
        self.expected = expected + self.interval;
        self.mute(now);
        true
    }

    /// Stores until when no launch is admitted.
    fn mute(&mut self, now: BootTime) {
        let excess = self.expected.since(now).saturating_sub(self.tolerance);
        self.muted_until = (!excess.is_zero()).then(|| now + excess);
    }

    /// Clears the mute once its time has passed.
    pub fn recover(&mut self, now: BootTime) {
        if self.muted_until.is_some_and(|until| until <= now) {
            self.muted_until = None;
        }
    }

    /// Until when no launch is admitted; `None` after that time was passed to [`RateLimiter::recover`].
    pub fn muted_until(&self) -> Option<BootTime> {
        self.muted_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Verifies COST-1.
    #[test]
    fn a_burst_passes_and_then_the_rate_counts() {
        let at = BootTime::from_milliseconds;
        let mut limiter = RateLimiter::new(60, 3);
        let admitted: Vec<_> = (0..10).filter(|_| limiter.admit(at(5_000))).collect();
        assert_eq!(admitted.len(), 3);
        assert_eq!(limiter.muted_until(), Some(at(6_000)));
        limiter.recover(at(5_999));
        assert!(!limiter.admit(at(5_999)));
        limiter.recover(at(6_000));
        assert_eq!(limiter.muted_until(), None);
        assert!(limiter.admit(at(6_000)));
        assert_eq!(limiter.muted_until(), Some(at(7_000)));
        let in_an_hour = (0..3_600_000).step_by(10).filter(|&later| limiter.admit(at(100_000 + later))).count();
        assert_eq!(in_an_hour, 3 + 3_599);
    }
}
