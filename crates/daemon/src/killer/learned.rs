//! The killer's learned state and its file, which is never read or written on the path to a kill.

use crate::state_file::{StateFile, load_state};
use brisk_mechanism::launch::{LearnedDurations, learned as durations};
use brisk_mechanism::memory::victim::Candidate;
use brisk_mechanism::memory::{LearnedRatios, learned};
use brisk_sys::Root;

/// What was learned about applications: swap ratios by the killer, launch durations by the launch mechanism.
#[derive(Debug)]
pub struct Learned {
    ratios: LearnedRatios,
    file: StateFile,
    launches: LearnedDurations,
}

impl Learned {
    /// Reads what earlier runs learned.
    pub fn read(root: &Root) -> Self {
        let ratios = load_state(root, learned::FILE, LearnedRatios::parse).unwrap_or_default();
        let file = StateFile::new(root, learned::FILE, ratios.to_text());
        let launches = load_state(root, durations::FILE, LearnedDurations::parse).unwrap_or_default();
        Self { ratios, file, launches }
    }

    /// Adds to each of `candidates` what was learned about it.
    pub fn annotate(&self, candidates: &mut [Candidate], average_ratio: f64) {
        self.ratios.annotate(candidates, average_ratio);
        for candidate in candidates {
            candidate.relaunch_cost_ms = self.launches.get(&candidate.name).map(|learned| learned.mean_ms);
        }
    }

    /// Learns from the kill of `name`.
    pub(super) fn learn(&mut self, name: &str, candidate: &Candidate, returned_kib: i64) {
        self.ratios.learn(name, candidate.rss_anonymous_kib, candidate.swap_kib, returned_kib);
    }

    /// Saves the ratios if they have changed.
    pub(super) fn save(&mut self) {
        self.file.save(self.ratios.to_text());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Verifies DAEMON-3.
    #[test]
    fn learned_ratios_survive_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let candidate = |name: &str| Candidate {
            name: name.to_owned(),
            rss_anonymous_kib: 10_000,
            swap_kib: 20_000,
            ..Candidate::default()
        };
        let mut learned = Learned::read(&root);
        learned.learn("gallery", &candidate("gallery"), 25_000);
        learned.save();
        let mut durations = LearnedDurations::default();
        durations.learn("mail", std::time::Duration::from_millis(700), false);
        StateFile::new(&root, durations::FILE, String::new()).save(durations.to_text());

        let mut candidates = ["gallery", "mail", "maps"].map(candidate);
        Learned::read(&root).annotate(&mut candidates, 0.25);
        let found = candidates.map(|candidate| (candidate.swap_ratio, candidate.relaunch_cost_ms));
        assert_eq!(found, [(Some(0.5), None), (None, Some(700.0)), (None, None)]);

        std::fs::write(folder.path().join("var/lib/brisk/memory-ratios.json"), "{").unwrap();
        let mut candidates = [candidate("gallery")];
        Learned::read(&root).annotate(&mut candidates, 0.25);
        assert_eq!(candidates[0].swap_ratio, None);
    }
}
