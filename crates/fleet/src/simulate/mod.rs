//! A fleet of simulated devices of which the truth is known: it exports as real devices do, day by day, and is imported in the
//! same way. What a launch loses to its governor is what the policy of `launch` predicts for the model's governor.

mod device;
mod model;

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::dataset::Durability;
use crate::fault::DatasetError;
use crate::import::{Importer, Source};
use crate::parallel::on_all_cpus;
use device::Device;
pub use model::{MODELS, Model};

/// The first simulated day: 2026-01-01, counted from 1970.
pub const FIRST_DAY: i64 = 20_454;
/// Devices whose exports of a day are in memory at a time.
const BATCH: usize = 4096;

/// What is simulated. The same plan has the same rows on every machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub devices: usize,
    pub days: i64,
    pub seed: u64,
    /// Builds that follow each other over the days.
    pub builds: usize,
    /// What is wrong with one of them.
    pub slower: Option<Slower>,
}

/// A planted regression: launches under `build` take longer on one model.
#[derive(Debug, Clone, PartialEq)]
pub struct Slower {
    /// Counted from 0.
    pub build: usize,
    pub model: String,
    pub percent: f64,
}

/// What was done, and how long it took.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Outcome {
    pub exports: u64,
    pub rows: u64,
    /// Bytes of the exports.
    pub bytes: u64,
    /// To draw the devices and write their exports.
    pub generating_s: f64,
    /// To import them: reading, checking, and writing the data set.
    pub importing_s: f64,
}

/// The name of a build, counted from 0.
pub fn build_name(build: usize) -> String {
    format!("build-{:03}", build + 1)
}

/// Simulates `plan` and imports it into the data set `folder`. `progress` is called after each day.
///
/// # Errors
/// When the data set has rows, or cannot be written.
pub fn run(plan: &Plan, folder: &Path, progress: impl Fn(i64, &Outcome)) -> Result<Outcome, DatasetError> {
    let devices: Vec<Mutex<Device>> =
        (0..plan.devices).map(|index| Mutex::new(Device::draw(plan, index as u64))).collect();
    let mut outcome = Outcome::default();
    let end_s = (FIRST_DAY + plan.days) * 86_400;
    // After a power cut it can be made again.
    let mut importer = Importer::open(folder, end_s, Durability::Unsynced)?;
    if importer.dataset().manifest.rows > 0 {
        return Err(DatasetError::NotEmpty(folder.display().to_string()));
    }
    for day in 0..plan.days {
        for batch in devices.chunks(BATCH) {
            let started = Instant::now();
            let sources = on_all_cpus(batch, |device| {
                let text = device.lock().unwrap_or_else(PoisonError::into_inner).export(plan, day);
                Source { name: String::new(), bytes: Ok(text.into_bytes()) }
            });
            outcome.generating_s += seconds(started.elapsed());
            outcome.bytes +=
                sources.iter().flat_map(|source| &source.bytes).map(|bytes| bytes.len() as u64).sum::<u64>();
            let started = Instant::now();
            importer.add(&sources)?;
            outcome.importing_s += seconds(started.elapsed());
        }
        let started = Instant::now();
        let summary = importer.commit()?;
        outcome.importing_s += seconds(started.elapsed());
        outcome.exports += summary.imported;
        outcome.rows += summary.rows;
        progress(day + 1, &outcome);
    }
    Ok(outcome)
}

fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simulated_rows_come_into_no_data_set_with_rows() {
        let folder = tempfile::tempdir().unwrap();
        let plan = Plan { devices: 2, days: 2, seed: 1, builds: 1, slower: None };
        let rows = run(&plan, folder.path(), |_, _| {}).unwrap().rows;
        assert!(matches!(run(&plan, folder.path(), |_, _| {}), Err(DatasetError::NotEmpty(_))));
        assert_eq!((rows > 0, crate::dataset::manifest(folder.path()).unwrap().rows), (true, rows));
    }
}
