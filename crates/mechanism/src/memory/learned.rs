//! The memory that a swapped byte of each application costs, learned from kills and kept across runs. Pure.
//!
//! Pictures do not compress, text does, so the device's average is wrong for each application. The ratio is learned by name:
//! the memory that a kill returned beyond the resident anonymous pages, divided by what lay on swap.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::victim::Candidate;
use crate::StateFileSpec;
use crate::eviction::{CAPACITY, evict_least_recent};

/// The state file.
pub const FILE: StateFileSpec = StateFileSpec {
    name: "memory-ratios.json",
    what: "the learned swap ratios",
    if_damaged: "swap ratios are learned again",
    is_durable: false,
};
/// Deaths with less on swap are ignored: other memory changes at the same time are as large.
const LEAST_SWAP_KIB: u64 = 4 << 10;
/// The weight of a new death falls to 1 / this (EWMA).
const MEMORY: u64 = 8;
/// The device's average weighs as much as this many deaths.
const PRIOR_WEIGHT: f64 = 1.0;
/// The number of the state file's format.
const VERSION: u32 = 1;

/// The learned ratios, kept as JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LearnedRatios {
    version: u32,
    /// Counts deaths over all applications.
    deaths: u64,
    applications: BTreeMap<String, LearnedRatio>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct LearnedRatio {
    /// Memory per byte on swap, 0 to 1.
    ratio: f64,
    /// Deaths that contributed, at most [`MEMORY`].
    deaths: u64,
    /// [`LearnedRatios::deaths`] at the last one.
    last: u64,
}

impl Default for LearnedRatios {
    fn default() -> Self {
        Self { version: VERSION, deaths: 0, applications: BTreeMap::new() }
    }
}

impl LearnedRatios {
    /// Reads a state file; `None` when it is damaged or of another version: learning starts again.
    pub fn parse(text: &str) -> Option<Self> {
        let state: Self = serde_json::from_slice(text.as_bytes()).ok()?;
        let plausible = |learned: &LearnedRatio| (0.0..=1.0).contains(&learned.ratio) && learned.last <= state.deaths;
        let valid = state.version == VERSION
            && state.applications.len() <= CAPACITY
            && state.deaths < u64::MAX / 2
            && state.applications.values().all(plausible);
        valid.then_some(state)
    }

    /// The text of the state file.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// What a byte of `application` on swap costs, given the device's `average`; `None` when nothing was learned.
    pub fn ratio(&self, application: &str, average: f64) -> Option<f64> {
        let learned = self.applications.get(application)?;
        let weight = learned.deaths as f64;
        Some((weight * learned.ratio + PRIOR_WEIGHT * average.clamp(0.0, 1.0)) / (weight + PRIOR_WEIGHT))
    }

    /// Sets the learned ratio of each of `candidates`.
    pub fn annotate(&self, candidates: &mut [Candidate], average: f64) {
        for candidate in candidates {
            candidate.swap_ratio = self.ratio(&candidate.name, average);
        }
    }

    /// Learns from the death of `application`: what it had in memory and on swap, and what its death returned.
    pub fn learn(&mut self, application: &str, rss_anonymous_kib: u64, swap_kib: u64, returned_kib: i64) {
        if swap_kib < LEAST_SWAP_KIB {
            return;
        }
        let from_swap_kib = returned_kib as f64 - rss_anonymous_kib as f64;
        let sample = (from_swap_kib / swap_kib as f64).clamp(0.0, 1.0);
        self.deaths += 1;
        let last = self.deaths;
        if !self.applications.contains_key(application) {
            evict_least_recent(&mut self.applications, |learned| learned.last);
        }
        let learned =
            self.applications.entry(application.to_owned()).or_insert(LearnedRatio { ratio: sample, deaths: 0, last });
        learned.deaths = (learned.deaths + 1).min(MEMORY);
        learned.ratio += (sample - learned.ratio) / learned.deaths as f64;
        learned.last = last;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Verifies DAEMON-3.
    #[test]
    fn memory_returned_beyond_the_prediction_is_learned_by_ewma() {
        let mut learned = LearnedRatios::default();
        assert_eq!(learned.ratio("gallery", 0.25), None);
        learned.learn("gallery", 10_000, 20_000, 25_000);
        assert_eq!(learned.ratio("gallery", 0.25), Some(0.5), "half of the sample, half of the average");
        for _ in 0..50 {
            learned.learn("gallery", 10_000, 20_000, 25_000);
        }
        let ratio = learned.ratio("gallery", 0.25).unwrap();
        assert!((0.69..0.75).contains(&ratio), "{ratio}");
        for _ in 0..50 {
            learned.learn("gallery", 10_000, 20_000, 14_000);
        }
        let ratio = learned.ratio("gallery", 0.25).unwrap();
        assert!((0.19..0.22).contains(&ratio), "old samples fade: {ratio}");
    }

    #[test]
    fn little_swap_is_ignored_and_extremes_are_clamped() {
        let mut learned = LearnedRatios::default();
        learned.learn("mail", 10_000, LEAST_SWAP_KIB - 1, 20_000);
        assert_eq!(learned, LearnedRatios::default());
        for returned_kib in [i64::MIN, -5, i64::MAX] {
            learned.learn("mail", u64::MAX, 20_000, returned_kib);
            learned.learn("mail", 0, u64::MAX, returned_kib);
        }
        assert!((0.0..=1.0).contains(&learned.ratio("mail", f64::INFINITY).unwrap()));
    }

    // Verifies DAEMON-3.
    #[test]
    fn the_application_killed_longest_ago_is_forgotten() {
        let mut learned = LearnedRatios::default();
        for number in 0..CAPACITY + 10 {
            learned.learn(&format!("application {number}"), 0, 10_000, 5000);
            learned.learn("often", 0, 10_000, 5000);
        }
        assert_eq!(learned.applications.len(), CAPACITY);
        assert!(learned.ratio("often", 0.0).is_some() && learned.ratio("application 0", 0.0).is_none());
    }

    // Verifies DAEMON-3.
    #[test]
    fn the_state_survives_its_text_and_damaged_text_is_refused() {
        let mut learned = LearnedRatios::default();
        learned.learn("browser", 0, 10_000, 5000);
        let text = learned.to_text();
        assert_eq!(LearnedRatios::parse(&text), Some(learned));
        for damaged in [
            "",
            "{}",
            &text[..text.len() - 2],
            &text.replace("\"version\":1", "\"version\":2"),
            &text.replace("0.5", "1.5"),
            &text.replace("\"last\":1", "\"last\":9"),
        ] {
            assert_eq!(LearnedRatios::parse(damaged), None, "{damaged}");
        }
    }
}
