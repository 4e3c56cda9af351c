//! The results of an experiment's full form, as docs/evidence keeps them: medians, intervals and counts, no samples.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::proof::{ArmResult, ClaimResult, DeviceDescription, ExperimentResult, Proof, Timekeeping, Verdict};

/// Incremented when a field changes its meaning or is removed.
pub const SCHEMA: u32 = 1;

/// One file of docs/evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Its name, which is that of the file.
    pub experiment: String,
    /// Its heading.
    pub title: String,
    /// When it began, in RFC 3339.
    pub started: String,
    /// The commit of the program and the experiment; empty where it is not known.
    pub commit: String,
    /// The version of brisk that measured.
    pub brisk: String,
    /// The device that was measured.
    pub device: DeviceDescription,
    /// How time was kept.
    pub mode: Timekeeping,
    /// The seed of the order.
    pub seed: u64,
    /// The command that repeats it.
    pub command: String,
    /// The series that were measured.
    pub series: Vec<Series>,
    /// The claims and their verdicts.
    pub claims: Vec<Claim>,
}

/// An arm at one point of the workload, in one metric. Unavailable figures are null.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    /// The arm's name.
    pub arm: String,
    /// The point of the workload; empty where there is only one.
    pub point: String,
    /// What was measured.
    pub metric: String,
    /// The unit of the median.
    pub unit: String,
    /// Accepted samples.
    pub count: usize,
    /// Replicates that were refused.
    pub rejected: u32,
    /// The median of the samples.
    pub median: Option<f64>,
    /// The 95 % bootstrap interval of the median.
    pub ci: [Option<f64>; 2],
    /// The standard deviation of the samples.
    pub standard_deviation: Option<f64>,
    /// How the median differs from the baseline's, in %.
    pub change: Option<f64>,
    /// The 95 % bootstrap interval of `change`.
    pub change_ci: [Option<f64>; 2],
}

/// A claim's result at one point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// `mechanism.claim`.
    pub id: String,
    /// The arm that it is about.
    pub arm: Option<String>,
    /// The point of the workload; empty for all of them.
    pub point: String,
    /// The unit of the figure.
    pub unit: String,
    /// What is required, or `reported`.
    pub required: String,
    /// What was measured.
    pub measured: Option<f64>,
    /// Its 95 % confidence interval.
    pub ci: [Option<f64>; 2],
    /// Permutation test of no difference.
    pub p: Option<f64>,
    /// What the samples show.
    pub verdict: Verdict,
}

impl Measured {
    /// What is kept of `experiment`, a result of `proof`.
    pub fn of(proof: &Proof, experiment: &ExperimentResult, commit: &str) -> Self {
        Self {
            schema: SCHEMA,
            experiment: experiment.name.clone(),
            title: experiment.title.clone(),
            started: proof.started.clone(),
            commit: commit.to_owned(),
            brisk: proof.brisk.clone(),
            device: proof.device.clone(),
            mode: experiment.mode,
            seed: experiment.seed,
            command: in_repository(&experiment.command),
            series: experiment.arms.iter().map(series).collect(),
            claims: experiment.claims.iter().map(claim).collect(),
        }
    }

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

fn series(arm: &ArmResult) -> Series {
    Series {
        arm: arm.name.clone(),
        point: arm.point.clone(),
        metric: arm.metric.clone(),
        unit: arm.unit.clone(),
        count: arm.samples.len(),
        rejected: arm.rejected,
        median: figure(arm.median),
        ci: arm.ci.map(figure),
        standard_deviation: figure(arm.standard_deviation),
        change: arm.change.and_then(|change| figure(change.percent)),
        change_ci: arm.change.map_or([None; 2], |change| change.ci.map(figure)),
    }
}

fn claim(claim: &ClaimResult) -> Claim {
    Claim {
        id: claim.id.clone(),
        arm: claim.arm.clone(),
        point: claim.point.clone(),
        unit: claim.unit.clone(),
        required: claim.required.clone(),
        measured: figure(claim.measured),
        ci: claim.ci.map(figure),
        p: claim.p.and_then(figure),
        verdict: claim.verdict,
    }
}

/// Six digits are more than any experiment resolves; `None` where a figure is not available.
fn figure(figure: f64) -> Option<f64> {
    Some(figure).filter(|figure| figure.is_finite()).and_then(|figure| format!("{figure:.5e}").parse().ok())
}

/// `command` as it is typed in the repository: the experiment's file may have been given by its path on one machine.
fn in_repository(command: &str) -> String {
    let file = |word: &str| match Path::new(word).file_name() {
        Some(name) if Path::new(word).is_absolute() => format!("experiments/{}", name.display()),
        _ => word.to_owned(),
    };
    command.split(' ').map(file).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_names_no_folder_of_one_machine() {
        for (given, kept) in [
            ("brisk prove /home/me/brisk/experiments/a.toml --full", "brisk prove experiments/a.toml --full"),
            ("brisk prove experiments/a.toml --full", "brisk prove experiments/a.toml --full"),
            ("brisk prove a --full", "brisk prove a --full"),
        ] {
            assert_eq!(in_repository(given), kept);
        }
    }

    #[test]
    fn figures_have_six_digits_or_are_missing() {
        assert_eq!(figure(139.800_234_56), Some(139.8));
        assert_eq!(figure(-4_752.4), Some(-4752.4));
        assert_eq!((figure(f64::NAN), figure(f64::INFINITY), figure(0.0)), (None, None, Some(0.0)));
    }
}
