//! What experiments have cost on this machine, on record beside their results; what comes with brisk was measured on a
//! machine with two cores.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::conduct::{Findings, Run};
use super::estimate::Expected;
use crate::device::durable_file;

/// What comes with brisk.
#[cfg(feature = "lab")]
const SHIPPED: &str = include_str!("../../lab/costs.toml");
#[cfg(not(feature = "lab"))]
const SHIPPED: &str = "";

/// To set up a device that nobody has set up before, where nothing else is known.
const UNKNOWN_SET_UP_S: f64 = 30.0;
/// To find that all of a device is in the cache.
const KNOWN_SET_UP_S: f64 = 1.0;

/// What experiments cost.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Costs {
    /// By scenario: seconds to set its device up. Of a record: once all is in the cache.
    #[serde(default)]
    pub set_up_s: BTreeMap<String, f64>,
    /// By experiment: milliseconds for a millisecond of [`Run::cost_ms`], with as many devices at once as it has.
    #[serde(default)]
    pub pace: BTreeMap<String, f64>,
}

impl Costs {
    /// What comes with brisk: of an empty cache.
    pub fn shipped() -> Self {
        // A test reads it.
        toml::from_str(SHIPPED).unwrap_or_default()
    }

    /// What is on record in `path`; nothing where there is no readable record.
    pub fn read(path: &Path) -> Self {
        fs::read(path).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
    }

    /// Puts it on record in `path`.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        durable_file::write(path, &serde_json::to_string_pretty(self)?, 0o644)
    }

    /// A device was set up.
    pub fn learn_set_up(&mut self, scenario: &str, took: Duration) {
        let is_first = !self.set_up_s.contains_key(scenario);
        // The next time it is all there.
        let seconds = if is_first { KNOWN_SET_UP_S.min(took.as_secs_f64()) } else { took.as_secs_f64() };
        self.set_up_s.insert(scenario.to_owned(), seconds);
    }

    /// `cost_ms` of an experiment took so long.
    pub fn learn_pace(&mut self, experiment: &str, cost_ms: u64, took: Duration) {
        if cost_ms > 0 {
            self.pace.insert(experiment.to_owned(), took.as_secs_f64() * 1000.0 / cost_ms as f64);
        }
    }

    /// What is missing of each of `runs`, by what is on record here or else shipped.
    pub fn expected<'a>(&self, runs: impl IntoIterator<Item = (Run<'a>, &'a Findings, u32)>) -> Vec<Expected> {
        let shipped = Self::shipped();
        let mut seen = BTreeSet::new();
        let mut expect = |(run, findings, devices): (Run<'a>, &Findings, u32)| {
            let scenarios = run.scenarios().into_iter().filter_map(|plan| plan.scenario);
            let set_up_s = scenarios.map(|scenario| self.set_up(&shipped, scenario, &mut seen)).collect();
            let cost_ms: u64 = run.missing(findings).map(|(_, cost_ms)| cost_ms).sum();
            Expected { set_up_s, measure_s: self.measure_s(&run.experiment.name, cost_ms, devices) }
        };
        runs.into_iter().map(&mut expect).collect()
    }

    fn set_up(&self, shipped: &Self, scenario: String, seen: &mut BTreeSet<String>) -> f64 {
        let known = self.set_up_s.get(&scenario).copied();
        let first = known.or_else(|| shipped.set_up_s.get(&scenario).copied()).unwrap_or(UNKNOWN_SET_UP_S);
        if seen.insert(scenario) { first } else { known.unwrap_or(KNOWN_SET_UP_S) }
    }

    /// Seconds for `cost_ms` of the experiment on `devices` at once.
    pub fn measure_s(&self, experiment: &str, cost_ms: u64, devices: u32) -> f64 {
        let pace = self.pace.get(experiment).copied().or_else(|| Self::shipped().pace.get(experiment).copied());
        cost_ms as f64 / 1000.0 * pace.unwrap_or_else(|| 1.0 / f64::from(devices.max(1)))
    }
}
