//! How long each application takes to launch, learned from its launches.
//!
//! The estimate is TCP's for its retransmission timeout (RFC 6298): a running mean and a running mean deviation. A launch is
//! cut off when it takes longer than the mean plus four deviations.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::StateFileSpec;
use crate::eviction::{CAPACITY, evict_least_recent};

const MEAN_WEIGHT: f64 = 1.0 / 8.0;
const DEVIATION_WEIGHT: f64 = 1.0 / 4.0;
/// The number of launches before the estimate is trusted.
const MINIMUM_LAUNCHES: u64 = 3;
/// The limit is at least this multiple of the mean.
const LIMIT_MARGIN: f64 = 1.25;
/// The version of the state file's format.
const VERSION: u32 = 1;

/// The state file.
pub const FILE: StateFileSpec = StateFileSpec {
    name: "launch-durations.json",
    what: "learned durations",
    if_damaged: "durations are learned again",
    is_durable: false,
};

/// The learned durations, kept across runs as JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LearnedDurations {
    version: u32,
    /// The number of launches of all applications: gives the order in which applications were last seen.
    launches: u64,
    applications: BTreeMap<String, Learned>,
}

/// The estimate for one application.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Learned {
    /// Running mean of the duration.
    pub mean_ms: f64,
    /// Running mean deviation from the mean.
    pub deviation_ms: f64,
    /// The number of launches behind the estimate.
    pub launches: u64,
    /// [`LearnedDurations::launches`] at its last launch.
    last: u64,
}

impl Default for LearnedDurations {
    fn default() -> Self {
        Self { version: VERSION, launches: 0, applications: BTreeMap::new() }
    }
}

impl LearnedDurations {
    /// Reads a state file; `None` when it is damaged or of another version: only the learned durations are lost then.
    pub fn parse(text: &str) -> Option<Self> {
        let state: Self = serde_json::from_slice(text.as_bytes()).ok()?;
        let plausible = |learned: &Learned| {
            let times = [learned.mean_ms, learned.deviation_ms];
            times.iter().all(|time| time.is_finite() && *time >= 0.0) && learned.last <= state.launches
        };
        let valid = state.version == VERSION
            && state.applications.len() <= CAPACITY
            && state.launches < u64::MAX / 2
            && state.applications.values().all(plausible);
        valid.then_some(state)
    }

    /// The text of the state file.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// What is known about `application`.
    pub fn get(&self, application: &str) -> Option<&Learned> {
        self.applications.get(application)
    }

    /// The time after which a launch of `application` is cut off, once enough launches are known.
    pub fn limit(&self, application: &str) -> Option<Duration> {
        let learned = self.get(application).filter(|learned| learned.launches >= MINIMUM_LAUNCHES)?;
        let limit_ms = (learned.mean_ms + 4.0 * learned.deviation_ms).max(learned.mean_ms * LIMIT_MARGIN);
        Some(Duration::from_secs_f64(limit_ms.min(1e9) / 1_000.0))
    }

    /// Learns from a launch of `application` that took `duration`. A launch that was cut off at its limit took longer by an
    /// unknown time: it counts as twice the limit, so that a limit that has become too short grows.
    pub fn learn(&mut self, application: &str, duration: Duration, is_censored: bool) {
        let sample_ms = duration.as_secs_f64() * if is_censored { 2_000.0 } else { 1_000.0 };
        self.launches += 1;
        let last = self.launches;
        match self.applications.get_mut(application) {
            Some(learned) => {
                let error_ms = sample_ms - learned.mean_ms;
                learned.deviation_ms += DEVIATION_WEIGHT * (error_ms.abs() - learned.deviation_ms);
                learned.mean_ms += MEAN_WEIGHT * error_ms;
                learned.launches += 1;
                learned.last = last;
            }
            None => {
                evict_least_recent(&mut self.applications, |learned| learned.last);
                let learned = Learned { mean_ms: sample_ms, deviation_ms: sample_ms / 2.0, launches: 1, last };
                self.applications.insert(application.to_owned(), learned);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_application_gets_a_limit_close_above_its_duration() {
        let mut durations = LearnedDurations::default();
        for launch in 0..100 {
            assert_eq!(durations.limit("browser").is_some(), launch >= MINIMUM_LAUNCHES, "{launch}");
            durations.learn("browser", Duration::from_millis(800), false);
        }
        let limit_ms = durations.limit("browser").unwrap().as_millis();
        assert!((1000..1010).contains(&limit_ms), "{limit_ms}");
        assert_eq!(durations.limit("editor"), None);
    }

    #[test]
    fn a_limit_that_became_too_short_grows() {
        let mut durations = LearnedDurations::default();
        for _ in 0..20 {
            durations.learn("browser", Duration::from_millis(100), false);
        }
        let before = durations.limit("browser").unwrap();
        for _ in 0..20 {
            let limit = durations.limit("browser").unwrap();
            durations.learn("browser", limit, true);
        }
        assert!(durations.limit("browser").unwrap() > before * 10);
    }

    #[test]
    fn the_least_recently_seen_application_is_evicted() {
        let mut durations = LearnedDurations::default();
        for number in 0..CAPACITY + 10 {
            durations.learn(&format!("application {number}"), Duration::from_millis(10), false);
            durations.learn("often", Duration::from_millis(10), false);
        }
        assert_eq!(durations.applications.len(), CAPACITY);
        assert!(durations.get("often").is_some());
        assert!(durations.get("application 0").is_none());
    }

    // Verifies DAEMON-3.
    #[test]
    fn the_state_survives_its_text_and_damage_is_refused() {
        let mut durations = LearnedDurations::default();
        durations.learn("browser", Duration::from_millis(800), false);
        let text = durations.to_text();
        assert_eq!(LearnedDurations::parse(&text), Some(durations));
        for damaged in [
            "",
            "{}",
            &text[..text.len() - 2],
            &text.replace("\"version\":1", "\"version\":2"),
            &text.replace("800.0", "-1.0"),
            &text.replace("\"last\":1", "\"last\":9"),
        ] {
            assert_eq!(LearnedDurations::parse(damaged), None, "{damaged}");
        }
    }
}
