//! The results of an experiment's full form, as docs/evidence keeps them: medians, intervals and counts, no samples.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, ensure};
use brisk::report::proof::{DeviceDescription, Timekeeping, Verdict};
use serde::{Deserialize, Serialize};

/// Incremented when a field changes its meaning or is removed.
pub const SCHEMA: u32 = 1;

/// Relative to the repository.
pub const FOLDER: &str = "docs/evidence";

/// One file of docs/evidence.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    pub schema: u32,
    /// Its name, which is that of the file.
    pub experiment: String,
    pub title: String,
    /// When it began, in RFC 3339.
    pub started: String,
    /// The commit of the program and the experiment.
    pub commit: String,
    pub brisk: String,
    pub device: DeviceDescription,
    pub mode: Timekeeping,
    pub seed: u64,
    /// The command that repeats it.
    pub command: String,
    pub series: Vec<Series>,
    pub claims: Vec<Claim>,
}

/// An arm at one point of the workload, in one metric. Unavailable figures are null.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    pub arm: String,
    pub point: String,
    pub metric: String,
    pub unit: String,
    /// Accepted samples, and replicates that were refused.
    pub count: usize,
    pub rejected: u32,
    pub median: Option<f64>,
    /// The 95 % bootstrap interval of the median.
    pub ci: [Option<f64>; 2],
    pub standard_deviation: Option<f64>,
    /// How the median differs from the baseline's, in %, with its interval.
    pub change: Option<f64>,
    pub change_ci: [Option<f64>; 2],
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    pub id: String,
    pub arm: Option<String>,
    pub point: String,
    pub unit: String,
    pub required: String,
    pub measured: Option<f64>,
    pub ci: [Option<f64>; 2],
    pub p: Option<f64>,
    pub verdict: Verdict,
}

impl Measured {
    /// The result of the claim `id`, at all of its points; `None` where the experiment has no such claim.
    pub fn verdict(&self, id: &str) -> Option<String> {
        let claims: Vec<&Claim> = self.claims.iter().filter(|claim| claim.id == id).collect();
        let found = match claims[..] {
            [] => return None,
            [first, ..] if first.required == "reported" => "reported".to_owned(),
            _ => {
                let count = |verdict| claims.iter().filter(|claim| claim.verdict == verdict).count();
                let words = [
                    ("shown", count(Verdict::Shown)),
                    ("refuted", count(Verdict::NotShown)),
                    ("open", count(Verdict::Inconclusive)),
                ];
                let said = words.iter().filter(|(_, count)| *count > 0).map(|(word, count)| match claims.len() {
                    1 => (*word).to_owned(),
                    all => format!("{word} {count} of {all}"),
                });
                said.collect::<Vec<_>>().join(", ")
            }
        };
        let day = self.started.split('T').next().unwrap_or_default();
        Some(format!("{found}, {day} {}", self.commit))
    }
}

/// Every file of docs/evidence, by the experiment's name.
pub fn read_all(repository: &Path) -> anyhow::Result<BTreeMap<String, Measured>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(repository.join(FOLDER)).with_context(|| format!("cannot read {FOLDER}"))? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let place = || path.display().to_string();
        let measured: Measured =
            serde_json::from_str(&fs::read_to_string(&path).with_context(place)?).with_context(place)?;
        ensure!(measured.schema == SCHEMA, "{}: schema {}, not {SCHEMA}", place(), measured.schema);
        ensure!(path.file_stem().is_some_and(|stem| stem == &*measured.experiment), "{}: wrong file name", place());
        all.insert(measured.experiment.clone(), measured);
    }
    Ok(all)
}
