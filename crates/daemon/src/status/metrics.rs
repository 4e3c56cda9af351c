//! The daemon's counters.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Counters since the daemon started.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metrics {
    /// Process events that passed the filter in the kernel.
    pub process_events: u64,
    /// Times that the kernel dropped process events.
    pub process_events_lost: u64,
    /// Launches that began.
    pub launches: u64,
    /// Decisions that were carried out.
    pub decisions: u64,
    /// Decisions that failed.
    pub failures: u64,
    /// Requests that the control socket answered.
    pub requests: u64,
    /// Clients that the control socket turned away.
    pub refused_clients: u64,
    /// Times that the guardian had to be started again.
    pub guardian_restarts: u64,
    /// From the kernel's event to the last write that it caused.
    pub event_to_write: Histogram,
    /// The daemon's own part of that: from its wake-up to the last write.
    pub wake_to_write: Histogram,
}

/// Counts of durations by upper bound.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram {
    /// One count for each of [`Histogram::BOUNDS_US`], and one for longer durations; not cumulative.
    pub counts: Vec<u64>,
    /// The sum of all durations.
    pub sum_us: u64,
    /// The longest duration.
    pub maximum_us: u64,
}

impl Histogram {
    /// Upper bounds, inclusive.
    pub const BOUNDS_US: [u64; 14] = [10, 20, 30, 50, 75, 100, 150, 200, 300, 500, 1_000, 5_000, 20_000, 100_000];

    /// Adds one duration.
    pub fn observe(&mut self, duration: Duration) {
        let microseconds = u64::try_from(duration.as_nanos().div_ceil(1_000)).unwrap_or(u64::MAX);
        let index = Self::BOUNDS_US.iter().position(|&bound| microseconds <= bound).unwrap_or(Self::BOUNDS_US.len());
        self.counts[index] += 1;
        self.sum_us = self.sum_us.saturating_add(microseconds);
        self.maximum_us = self.maximum_us.max(microseconds);
    }

    /// The number of durations.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The upper bound of `permille` of all durations; the maximum when no bound is that high.
    pub fn quantile_us(&self, permille: u64) -> Option<u64> {
        let wanted = (self.count() * permille).div_ceil(1_000).max(1);
        let mut seen = 0;
        let index = self.counts.iter().position(|&count| {
            seen += count;
            seen >= wanted
        })?;
        Some(Self::BOUNDS_US.get(index).copied().unwrap_or(u64::MAX).min(self.maximum_us))
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; Self::BOUNDS_US.len() + 1], sum_us: 0, maximum_us: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_upper_bounds() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile_us(500), None);
        for microseconds in 1..=100 {
            histogram.observe(Duration::from_micros(microseconds));
        }
        assert_eq!((histogram.count(), histogram.sum_us, histogram.maximum_us), (100, 5_050, 100));
        assert_eq!(histogram.quantile_us(500), Some(50));
        assert_eq!(histogram.quantile_us(990), Some(100));
        histogram.observe(Duration::from_secs(3));
        assert_eq!(histogram.quantile_us(1_000), Some(3_000_000));
        histogram.observe(Duration::from_nanos(1));
        assert_eq!(histogram.counts[0], 11);
    }
}
