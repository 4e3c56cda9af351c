//! The outcome of experiments as `brisk prove --json` prints it.
//!
//! The schema is stable from the first release: fields are only added; [`SCHEMA`] is raised when one changes.

use serde::{Deserialize, Serialize};

/// The number of this schema.
pub const SCHEMA: u32 = 1;

/// Everything one `brisk prove` found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Proof {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The version of brisk that measured.
    pub brisk: String,
    /// Where it was measured.
    pub device: DeviceDescription,
    /// The experiments, in the order in which they were asked for.
    pub experiments: Vec<ExperimentResult>,
}

/// The device that was measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceDescription {
    /// `lab` or `here`.
    pub place: String,
    /// Kernel release and version, as uname(2) tells.
    pub kernel: String,
    /// Processor model and, for the lab, how it was emulated.
    pub processor: String,
    /// CPUs online.
    pub cpu_count: u32,
    /// Memory in KiB.
    pub memory_kib: u64,
    /// Where energy figures come from, if there are any (`rapl`, `power-rail`, `battery`, `model`).
    pub energy_source: Option<String>,
}

/// How time was kept, which decides what a figure may claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// The lab with guest time counted in instructions: repeatable, one CPU.
    Deterministic,
    /// The lab with host time on several CPUs: only paired ratios.
    Parallel,
    /// The user's own device.
    Native,
}

/// One experiment's outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExperimentResult {
    /// The experiment's name, that of its file.
    pub name: String,
    /// A heading for people.
    pub title: String,
    /// What it asks and how, in a few sentences.
    pub description: String,
    /// The mechanism it is about.
    pub mechanism: String,
    /// How time was kept.
    pub mode: Mode,
    /// True for the quick form.
    pub quick: bool,
    /// The seed of the order and the phases, so that it can be repeated.
    pub seed: u64,
    /// The series that were measured.
    pub arms: Vec<ArmResult>,
    /// The claims and their verdicts.
    pub claims: Vec<ClaimResult>,
    /// What a reader must know: refusals, deviations, labels such as `instructions`.
    pub notes: Vec<String>,
}

/// One series of samples: an arm at one point of the workload, in one metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmResult {
    /// The arm's name.
    pub name: String,
    /// The point of the workload (`work 200 ms`); empty where there is only one.
    pub point: String,
    /// What was measured (`launch`, `energy`).
    pub metric: String,
    /// The unit of the samples.
    pub unit: String,
    /// Accepted samples, in the order of measurement.
    pub samples: Vec<f64>,
    /// Their median.
    pub median: f64,
    /// The 95 % bootstrap interval of the median.
    pub ci: [f64; 2],
    /// Their standard deviation.
    pub standard_deviation: f64,
    /// Replicates refused (disturbed by the host, failed self-check), by this arm and point.
    pub rejected: u32,
    /// True for the arm that the others are compared with.
    pub baseline: bool,
}

/// One claim's outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClaimResult {
    /// `mechanism.claim`, as SPECIFICATION.md names it.
    pub id: String,
    /// The claim in words.
    pub text: String,
    /// The arm that it is about, where it is about one.
    pub arm: Option<String>,
    /// The point of the workload that it is about; empty for all of them.
    pub point: String,
    /// The unit of the figures.
    pub unit: String,
    /// What is required (`>= 90`), or what is only reported (`reported`).
    pub required: String,
    /// What was measured.
    pub measured: f64,
    /// Its 95 % confidence interval.
    pub ci: [f64; 2],
    /// Permutation test of no difference from the baseline, where there is one.
    pub p: Option<f64>,
    /// The paper's own figure, as printed there.
    pub paper: Option<String>,
    /// What the samples show.
    pub verdict: Verdict,
}

/// What the samples say about a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The whole confidence interval meets the requirement.
    Shown,
    /// The whole confidence interval misses it.
    NotShown,
    /// The interval holds both.
    Inconclusive,
}
