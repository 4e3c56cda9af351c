//! The daemon's cost in a storm of forks.

use std::path::Path;
use std::time::Instant;

use anyhow::ensure;
use serde::{Deserialize, Serialize};

use super::Extent;
use super::device::Daemon;
use super::device::Tree;
use super::program::launch;

const WARM_UP_FORKS: u32 = 300;

#[derive(Serialize, Deserialize)]
pub(super) struct Storm {
    /// The 95 % interval of the median and the median between its ends.
    pub(super) added_percent: [f64; 3],
    pub(super) forks_per_second: f64,
}

/// Pairs of storms, with the daemon and without, in alternating order, at the default rate limits. Timing begins after
/// `WARM_UP_FORKS` forks, when the frequency has risen and the rate limit is used up: launches are then muted but for one
/// every half second.
// Verifies COST-1.
pub(super) fn storm(brisk: &Path, tree: &Tree, &Extent { pairs, forks, .. }: &Extent) -> anyhow::Result<Storm> {
    let timed = || -> anyhow::Result<f64> {
        let storm = |forks| (0..forks).try_for_each(|_| launch());
        storm(WARM_UP_FORKS)?;
        let start = Instant::now();
        storm(forks)?;
        Ok(start.elapsed().as_secs_f64())
    };
    let with = || -> anyhow::Result<f64> {
        let daemon = Daemon::start(brisk, tree, "[launch]\nforce = true\n")?;
        let seconds = timed()?;
        let status = daemon.status()?;
        ensure!(status["metrics"]["launches"].as_u64() > Some(0), "the daemon counted no launch");
        Ok(seconds)
    };
    let mut added_percent = Vec::new();
    let mut without_seconds = Vec::new();
    timed()?;
    for pair in 0..pairs {
        let (with, without) = if pair % 2 == 0 {
            let with = with()?;
            (with, timed()?)
        } else {
            let without = timed()?;
            (with()?, without)
        };
        added_percent.push((with / without - 1.0) * 100.0);
        without_seconds.push(without);
    }
    added_percent.sort_by(f64::total_cmp);
    without_seconds.sort_by(f64::total_cmp);
    let forks_per_second = f64::from(forks) / without_seconds[pairs / 2];
    Ok(Storm { added_percent: median_with_interval(&added_percent), forks_per_second })
}

/// The median of `sorted` and its distribution-free 95 % interval, by order statistics (David and Nagaraja, "Order
/// Statistics", section 7.1): low, median, high.
fn median_with_interval(sorted: &[f64]) -> [f64; 3] {
    let count = sorted.len() as f64;
    let reach = 1.96 * count.sqrt() / 2.0;
    let low = (count / 2.0 - reach).floor().max(0.0) as usize;
    let high = ((count / 2.0 + reach).ceil() as usize).min(sorted.len() - 1);
    [sorted[low], sorted[sorted.len() / 2], sorted[high]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_contains_the_median() {
        let sorted: Vec<f64> = (0..31).map(f64::from).collect();
        assert_eq!(median_with_interval(&sorted), [10.0, 15.0, 21.0]);
        assert_eq!(median_with_interval(&[7.0]), [7.0, 7.0, 7.0]);
    }
}
