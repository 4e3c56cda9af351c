//! The durations of experiments on this machine, recorded beside their results. The built-in costs were measured on a machine
//! with two cores.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::conduct::{Findings, Run};
use super::estimate::Expected;
use brisk_base::toml_text;
use brisk_sys::durable_file;

#[cfg(feature = "lab")]
const SHIPPED: &str = include_str!("../../../lab/costs.toml");
#[cfg(not(feature = "lab"))]
const SHIPPED: &str = "";

/// Set-up of a device without a recorded or built-in duration.
const UNKNOWN_SET_UP_S: f64 = 30.0;
/// A guest's time that [`Run::cost_ms`] does not include: boot, self-check, warm-ups. Fitted to a whole quick run on two cores.
const GUEST_START_S: f64 = 9.0;
/// Set-up of a device that is completely in the cache.
const KNOWN_SET_UP_S: f64 = 1.0;

/// Durations of experiments.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Costs {
    /// By scenario: seconds to set its device up. A recorded duration is that with a filled cache.
    #[serde(default)]
    pub set_up_s: BTreeMap<String, f64>,
    /// By experiment: milliseconds per millisecond of [`Run::cost_ms`], with the experiment's number of devices in parallel.
    #[serde(default)]
    pub pace: BTreeMap<String, f64>,
}

impl Costs {
    /// The built-in costs, for an empty cache.
    pub fn shipped() -> Self {
        // A test parses it: the default is never used.
        toml_text::from_str(SHIPPED).unwrap_or_default()
    }

    /// The record in `path`; empty where there is no readable one.
    pub fn read(path: &Path) -> Self {
        fs::read(path).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
    }

    /// Writes the record to `path`.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        durable_file::write(path, &serde_json::to_string_pretty(self)?, 0o644)
    }

    /// Records the duration of a device's set-up.
    pub fn learn_set_up(&mut self, scenario: &str, took: Duration) {
        let is_first = !self.set_up_s.contains_key(scenario);
        // The next set-up finds everything in the cache.
        let seconds = if is_first { KNOWN_SET_UP_S.min(took.as_secs_f64()) } else { took.as_secs_f64() };
        self.set_up_s.insert(scenario.to_owned(), seconds);
    }

    /// Records how long `cost_ms` of an experiment took.
    pub fn learn_pace(&mut self, experiment: &str, cost_ms: u64, took: Duration) {
        if cost_ms > 0 {
            self.pace.insert(experiment.to_owned(), took.as_secs_f64() * 1000.0 / cost_ms as f64);
        }
    }

    /// The expected duration of each run's missing replicates, by this record or else the built-in costs.
    pub fn expected<'a>(&self, runs: impl IntoIterator<Item = (Run<'a>, &'a Findings, u32)>) -> Vec<Expected> {
        let shipped = Self::shipped();
        let mut seen = BTreeSet::new();
        let mut expect = |(run, findings, devices): (Run<'a>, &Findings, u32)| {
            let scenarios: Vec<String> = run.scenarios().into_iter().filter_map(|plan| plan.scenario).collect();
            let cost_ms: u64 = run.missing(findings).map(|(_, cost_ms)| cost_ms).sum();
            let measure_s = self.measure_s(&run.experiment.name, cost_ms, devices, scenarios.len());
            let set_up_s = scenarios.into_iter().map(|scenario| self.set_up(&shipped, scenario, &mut seen)).collect();
            Expected { set_up_s, measure_s }
        };
        runs.into_iter().map(&mut expect).collect()
    }

    fn set_up(&self, shipped: &Self, scenario: String, seen: &mut BTreeSet<String>) -> f64 {
        let known = self.set_up_s.get(&scenario).copied();
        let first = known.or_else(|| shipped.set_up_s.get(&scenario).copied()).unwrap_or(UNKNOWN_SET_UP_S);
        if seen.insert(scenario) { first } else { known.unwrap_or(KNOWN_SET_UP_S) }
    }

    /// Seconds for `cost_ms` of the experiment on `devices` in parallel, in guests of so many scenarios.
    pub fn measure_s(&self, experiment: &str, cost_ms: u64, devices: u32, guests: usize) -> f64 {
        let pace = self.pace.get(experiment).copied().or_else(|| Self::shipped().pace.get(experiment).copied());
        let cost_s = cost_ms as f64 / 1000.0;
        match pace {
            _ if cost_ms == 0 => 0.0,
            Some(pace) => cost_s * pace,
            None => cost_s / f64::from(devices.max(1)) + GUEST_START_S * guests as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::{self, Entry};
    use crate::estimate::Estimate;
    use brisk_report::proof::Timekeeping;

    /// A whole quick run with a filled cache on an otherwise idle machine with two cores.
    const RECORDED_QUICK_S: f64 = 1090.0;

    /// The quick form of every experiment of the lab, with its number of devices on a host with two cores.
    fn quick() -> Vec<(Entry, u32)> {
        let entries = catalogue::select(&[], false).unwrap().into_iter();
        let quick = entries.filter(|entry| entry.experiment.replicates.quick > 0).map(|entry| {
            let entry = Entry { experiment: entry.experiment.in_quick_form(), ..entry };
            let devices = if entry.experiment.mode == Timekeeping::Deterministic { 2 } else { 1 };
            (entry, devices)
        });
        quick.collect()
    }

    fn expected(costs: &Costs, entries: &[(Entry, u32)]) -> Vec<Expected> {
        let findings = Findings::default();
        let runs = entries.iter().map(|(entry, devices)| {
            (Run { experiment: &entry.experiment, quick: true, seed: 1, shard: None }, &findings, *devices)
        });
        costs.expected(runs)
    }

    /// The record of a run that has filled the cache.
    fn warm(entries: &[(Entry, u32)]) -> Costs {
        let mut costs = Costs::default();
        for (entry, _) in entries {
            let run = Run { experiment: &entry.experiment, quick: true, seed: 1, shard: None };
            for scenario in run.scenarios().into_iter().filter_map(|plan| plan.scenario) {
                let took_s = if costs.set_up_s.contains_key(&scenario) { 1 } else { 60 };
                costs.learn_set_up(&scenario, Duration::from_secs(took_s));
            }
        }
        costs
    }

    // Verifies PROVE-4.
    #[test]
    fn a_quick_runs_first_estimate_is_near_its_duration() {
        let entries = quick();
        let left_s = |costs: &Costs| Estimate::new(expected(costs, &entries)).left(Duration::ZERO).as_secs_f64();
        let found = left_s(&warm(&entries));
        assert!((found / RECORDED_QUICK_S - 1.0).abs() < 0.25, "{found} s, and it took {RECORDED_QUICK_S} s");
        let first = left_s(&Costs::default());
        assert!(
            first > found + 60.0 && first < found + 600.0,
            "filling an empty cache takes time: {first} s and {found} s"
        );
    }

    // Verifies PROVE-4.
    #[test]
    fn the_next_estimate_uses_the_recorded_costs() {
        let entries = quick();
        let mut costs = warm(&entries);
        let findings = Findings::default();
        for (number, (entry, _)) in entries.iter().enumerate() {
            let run = Run { experiment: &entry.experiment, quick: true, seed: 1, shard: None };
            let cost_ms = run.missing(&findings).map(|(_, cost_ms)| cost_ms).sum();
            costs.learn_pace(&entry.experiment.name, cost_ms, Duration::from_secs(10 + number as u64));
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("costs.json");
        costs.write(&path).unwrap();
        for (number, expected) in expected(&Costs::read(&path), &entries).into_iter().enumerate() {
            assert!((expected.measure_s - (10 + number) as f64).abs() < 1e-6, "{number}: {expected:?}");
            assert!(expected.set_up_s.iter().all(|&set_up_s| set_up_s <= KNOWN_SET_UP_S), "{expected:?}");
        }
        fs::write(&path, "garbage").unwrap();
        assert_eq!(Costs::read(&path), Costs::default());
    }

    // Verifies PROVE-4.
    #[test]
    fn an_unknown_experiment_is_estimated_from_its_work() {
        let costs = Costs::default();
        assert_eq!(costs.measure_s("not shipped", 90_000, 2, 0), 45.0);
        assert_eq!(costs.measure_s("not shipped", 90_000, 1, 2), 90.0 + 2.0 * GUEST_START_S);
        assert_eq!(costs.measure_s("not shipped", 0, 1, 2), 0.0, "nothing is missing");
    }

    #[test]
    fn built_in_costs_name_existing_experiments_and_scenarios() {
        let shipped: Costs = toml::from_str(SHIPPED).unwrap();
        let names: Vec<String> = catalogue::all().unwrap().into_iter().map(|entry| entry.experiment.name).collect();
        assert!(shipped.pace.keys().all(|name| names.contains(name)), "{:?}", shipped.pace);
        let scenarios: BTreeSet<String> = quick()
            .iter()
            .flat_map(|(entry, _)| Run { experiment: &entry.experiment, quick: true, seed: 1, shard: None }.scenarios())
            .filter_map(|plan| plan.scenario)
            .collect();
        let known: BTreeSet<String> = shipped.set_up_s.keys().cloned().collect();
        assert!(scenarios.is_subset(&known), "each scenario of a quick run has a set-up time: {scenarios:?}");
    }
}
