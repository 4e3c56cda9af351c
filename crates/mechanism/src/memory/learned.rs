//! What was learned of applications from their deaths, kept across runs: what a byte of theirs on swap costs in memory.
//! Pure.
//!
//! Applications differ: pictures do not compress, text does. The device's average is wrong for each of them, so what a kill
//! returned beyond the anonymous pages in memory, by what lay on swap, is remembered by name.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::victim::Candidate;
use crate::LearnedFile;
use crate::recency::{CAPACITY, make_room};

/// Where it is kept.
pub const FILE: LearnedFile = LearnedFile {
    name: "memory-ratios.json",
    what: "what was learned",
    if_damaged: "what swap costs is learned again",
    is_durable: false,
};
/// Deaths with less than this on swap teach nothing: what else happens meanwhile is as much.
const LEAST_SWAP_KIB: u64 = 4 << 10;
/// The last deaths count as a running mean of so many.
const MEMORY: u64 = 8;
/// The average counts as much as so many deaths.
const PRIOR: f64 = 1.0;
/// The number of the state file's format.
const VERSION: u32 = 1;

/// What was learned, kept as JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LearnedRatios {
    version: u32,
    /// Counts deaths over all applications.
    deaths: u64,
    applications: BTreeMap<String, LearnedRatio>,
}

/// One application's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct LearnedRatio {
    /// Memory by byte on swap, 0 to 1.
    ratio: f64,
    /// Deaths that it was learned from.
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
    /// Reads a state file; `None` when it is damaged or of another version, which costs only what was learned.
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

    /// What a byte of `application` on swap is taken to cost where one costs `average`; `None` when nothing was learned.
    pub fn ratio(&self, application: &str, average: f64) -> Option<f64> {
        let learned = self.applications.get(application)?;
        let weight = learned.deaths as f64;
        Some((weight * learned.ratio + PRIOR * average.clamp(0.0, 1.0)) / (weight + PRIOR))
    }

    /// Tells each of `candidates` what was learned of it.
    pub fn inform(&self, candidates: &mut [Candidate], average: f64) {
        for candidate in candidates {
            candidate.swap_ratio = self.ratio(&candidate.name, average);
        }
    }

    /// Learns from the death of `application`, which had so much in memory and on swap, and returned so much.
    pub fn learn(&mut self, application: &str, rss_anonymous_kib: u64, swap_kib: u64, returned_kib: i64) {
        if swap_kib < LEAST_SWAP_KIB {
            return;
        }
        let from_swap_kib = returned_kib as f64 - rss_anonymous_kib as f64;
        let sample = (from_swap_kib / swap_kib as f64).clamp(0.0, 1.0);
        self.deaths += 1;
        let last = self.deaths;
        if !self.applications.contains_key(application) {
            make_room(&mut self.applications, |learned| learned.last);
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
        assert_eq!(learned.ratio("gallery", 0.25), Some(0.5), "half of what was seen, half of the average");
        for _ in 0..50 {
            learned.learn("gallery", 10_000, 20_000, 25_000);
        }
        let ratio = learned.ratio("gallery", 0.25).unwrap();
        assert!((0.69..0.75).contains(&ratio), "{ratio}");
        for _ in 0..50 {
            learned.learn("gallery", 10_000, 20_000, 14_000);
        }
        let ratio = learned.ratio("gallery", 0.25).unwrap();
        assert!((0.19..0.22).contains(&ratio), "what is long ago is forgotten: {ratio}");
    }

    #[test]
    fn a_death_that_says_nothing_teaches_nothing() {
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
    fn the_one_that_died_longest_ago_is_forgotten() {
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
    fn the_state_survives_its_text_and_damage_is_refused() {
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
