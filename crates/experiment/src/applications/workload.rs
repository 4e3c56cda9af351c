//! The applications and the order of their openings: experiments/memory-workload.toml.

use serde::Deserialize;

use brisk_base::random::Random;
use brisk_base::toml_text;

const TEXT: &str = include_str!("../../../../experiments/memory-workload.toml");

/// Random streams of a seed.
const ORDER_STREAM: u64 = 1;
const REOPENS_STREAM: u64 = 2;

/// All applications and how they are used.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Applications {
    /// `MemAvailable` when the first application is opened.
    pub available_kib: u64,
    /// The file that all applications map and share.
    pub framework_kib: u64,
    /// The share of random words in a compressible page.
    pub random_share: f64,
    /// The share of the pages touched by a resume that it writes.
    pub written_share: f64,
    /// How long each application is in the foreground.
    pub front_ms: u64,
    /// How they are opened again.
    pub reopens: Reopens,
    /// The applications.
    #[serde(rename = "application")]
    pub list: Vec<Application>,
}

/// How applications are opened again.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reopens {
    /// Number of openings after the first launches.
    pub count: usize,
    /// The probability that one of the last used is opened.
    pub recency: f64,
    /// The exponent of the popularity that decides otherwise.
    pub exponent: f64,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Application {
    pub name: String,
    /// Its anonymous memory.
    pub anonymous_kib: u64,
    /// The share of it that does not compress.
    pub incompressible: f64,
    /// The share of it that a first screen needs.
    pub touched: f64,
    /// The part of the framework that it touches.
    pub framework_kib: u64,
    /// Its own file, all of which it touches.
    pub file_kib: u64,
    /// CPU work of a launch.
    pub launch_ms: u64,
    /// CPU work of a resume.
    pub resume_ms: u64,
}

impl Applications {
    /// The workload of every experiment about memory.
    ///
    /// # Errors
    /// When the built-in file is wrong, which the tests rule out.
    pub fn standard() -> Result<Self, toml_text::Error> {
        toml_text::from_str(TEXT)
    }

    /// Offset of application `number`'s own file in the storage: after the framework and the files before it.
    pub fn file_offset_kib(&self, number: usize) -> u64 {
        self.framework_kib + self.list[..number].iter().map(|application| application.file_kib).sum::<u64>()
    }

    /// The openings in order: each application once, then again. Never the one that is in the foreground.
    pub fn openings(&self, seed: u64) -> Vec<usize> {
        let mut openings: Vec<usize> = (0..self.list.len()).collect();
        let mut random = Random::stream(seed, ORDER_STREAM);
        random.shuffle(&mut openings);
        let mut by_popularity = openings.clone();
        random.shuffle(&mut by_popularity);
        let mut last_used: Vec<usize> = openings.iter().rev().copied().collect();
        let mut random = Random::stream(seed, REOPENS_STREAM);
        for _ in 0..self.reopens.count {
            let next = if random.unit() < self.reopens.recency {
                recent(&last_used, &mut random)
            } else {
                self.popular(&by_popularity, last_used[0], &mut random)
            };
            last_used.retain(|&application| application != next);
            last_used.insert(0, next);
            openings.push(next);
        }
        openings
    }

    fn popular(&self, by_popularity: &[usize], front: usize, random: &mut Random) -> usize {
        let weight = |rank: usize| (rank as f64 + 1.0).powf(-self.reopens.exponent);
        let others = || by_popularity.iter().enumerate().filter(|&(_, &application)| application != front);
        let mut left = random.unit() * others().map(|(rank, _)| weight(rank)).sum::<f64>();
        for (rank, &application) in others() {
            left -= weight(rank);
            if left <= 0.0 {
                return application;
            }
        }
        by_popularity.iter().rfind(|&&application| application != front).copied().unwrap_or(front)
    }
}

/// The previous application with a probability of a half, the one before that of a quarter, and so on.
fn recent(last_used: &[usize], random: &mut Random) -> usize {
    let mut index = 1;
    while index + 1 < last_used.len() && random.unit() >= 0.5 {
        index += 1;
    }
    last_used[index]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_workload_file_matches_its_description() {
        let workload = Applications::standard().unwrap();
        assert_eq!((workload.list.len(), workload.available_kib, workload.reopens.count), (15, 353_280, 30));
        for application in &workload.list {
            let kib = application.anonymous_kib + application.file_kib + application.framework_kib;
            assert!((20 << 10..=80 << 10).contains(&kib), "{} has {kib} KiB", application.name);
            assert!((0.4..=0.7).contains(&application.touched) && (0.0..=1.0).contains(&application.incompressible));
            assert!(application.framework_kib <= workload.framework_kib);
        }
        let last = workload.list.len() - 1;
        assert!(workload.file_offset_kib(last) + workload.list[last].file_kib <= 256 << 10, "the storage holds them");
    }

    #[test]
    fn openings_follow_from_the_seed() {
        let workload = Applications::standard().unwrap();
        let openings = workload.openings(7);
        assert_eq!(openings, workload.openings(7));
        assert_ne!(openings, workload.openings(8));
        assert_eq!(openings.len(), 45);
        assert_eq!(openings[..15].iter().collect::<BTreeSet<_>>().len(), 15);
        assert!(openings.windows(2).all(|pair| pair[0] != pair[1]), "the foreground is not opened");
    }

    #[test]
    fn the_last_used_and_the_popular_are_opened_most() {
        let workload = Applications::standard().unwrap();
        let mut distances = [0u32; 15];
        let mut distinct = 0;
        for seed in 0..200 {
            let openings = workload.openings(seed);
            for index in 15..openings.len() {
                let before = &openings[..index];
                let last = before.iter().rposition(|&application| application == openings[index]).unwrap();
                distances[before[last..].iter().collect::<BTreeSet<_>>().len() - 1] += 1;
            }
            distinct += openings[15..].iter().collect::<BTreeSet<_>>().len();
        }
        let share = |count: u32| f64::from(count) / 6000.0;
        assert!((0.25..0.45).contains(&share(distances[1])), "{distances:?}");
        assert!(distances[1] > 2 * distances[3] && distances[0] == 0, "{distances:?}");
        assert!((8..=13).contains(&(distinct / 200)), "{distinct}");
    }
}
