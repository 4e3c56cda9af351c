//! The outcome of experiments as `brisk prove --json` prints it.
//!
//! The schema is stable from the first release: fields are only added; [`SCHEMA`] is raised when one changes.
//! A figure that is not available (the median of no samples) is NaN here and `null` in JSON.

use serde::{Deserialize, Deserializer, Serialize};

/// The number of this schema.
pub const SCHEMA: u32 = 1;

/// All results of one `brisk prove`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Proof {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The version of brisk that measured.
    pub brisk: String,
    /// When the run began, in RFC 3339 (`2026-11-20T19:30:00Z`); empty where it is not known.
    #[serde(default)]
    pub started: String,
    /// The device that was measured.
    pub device: DeviceDescription,
    /// The experiments, in the order in which they were asked for.
    pub experiments: Vec<ExperimentResult>,
}

/// The device that was measured; only its place is known where nothing could be measured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceDescription {
    /// `lab` or `here`.
    pub place: String,
    /// Kernel release and version, from uname(2).
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
pub enum Timekeeping {
    /// The lab with guest time counted in instructions: repeatable, one CPU.
    Deterministic,
    /// The lab with host time on several CPUs: only paired ratios.
    Parallel,
    /// The user's own device.
    Native,
}

impl Timekeeping {
    /// Its name in the schema and in reports.
    pub fn word(self) -> &'static str {
        match self {
            Self::Deterministic => "deterministic",
            Self::Parallel => "parallel",
            Self::Native => "native",
        }
    }
}

/// One experiment's outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExperimentResult {
    /// The experiment's name, that of its file.
    pub name: String,
    /// A heading.
    pub title: String,
    /// What it asks and how, in a few sentences.
    pub description: String,
    /// The mechanism it is about.
    pub mechanism: String,
    /// How time was kept.
    pub mode: Timekeeping,
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
    /// The command that repeats it, as typed in a shell; empty where it is not known.
    #[serde(default)]
    pub command: String,
    /// The checks of the device before any sample was accepted.
    #[serde(default)]
    pub self_checks: Vec<SelfCheck>,
    /// Why replicates were refused; an arm's `rejected` says how many.
    #[serde(default)]
    pub rejections: Vec<Rejection>,
    /// Quantities in the course of a replicate, where they were recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub courses: Vec<StepSeries>,
    /// The memory of each process in the first replicate of each arm, where it was recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<ProcessSeries>,
    /// Why it failed, if it did; its earlier measurements remain valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

/// An experiment that failed; the others ran on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What failed.
    pub of: FailureOf,
    /// The reason in words; the first line is its summary.
    pub reason: String,
}

/// What failed in an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureOf {
    /// The lab: a package could not be fetched, a virtual device did not boot. Another run may succeed.
    Lab,
    /// The experiment: its device cannot run it, or its results could not be stored.
    Experiment,
}

/// One quantity in the course of an arm's replicates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepSeries {
    /// The arm's name.
    pub arm: String,
    /// The recorded quantity (`applications alive`).
    pub what: String,
    /// The unit of the figures; empty for counts.
    pub unit: String,
    /// At each step, the median over the replicates.
    #[serde(deserialize_with = "numbers_or_nan")]
    pub medians: Vec<f64>,
}

/// The memory of one process after each step of an arm's replicate, in MiB; zero while it does not run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProcessSeries {
    /// The arm's name.
    pub arm: String,
    /// The process's name.
    pub process: String,
    /// Resident pages, shared ones included.
    #[serde(deserialize_with = "numbers_or_nan")]
    pub resident_mib: Vec<f64>,
    /// Pages on swap, before compression.
    #[serde(deserialize_with = "numbers_or_nan")]
    pub swapped_mib: Vec<f64>,
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
    #[serde(deserialize_with = "numbers_or_nan")]
    pub samples: Vec<f64>,
    /// Their median.
    #[serde(deserialize_with = "number_or_nan")]
    pub median: f64,
    /// The 95 % bootstrap interval of the median.
    #[serde(deserialize_with = "interval_or_nan")]
    pub ci: [f64; 2],
    /// Their standard deviation.
    #[serde(deserialize_with = "number_or_nan")]
    pub standard_deviation: f64,
    /// Replicates refused (disturbed by the host, failed self-check), by this arm and point.
    pub rejected: u32,
    /// True for the arm that the others are compared with.
    pub baseline: bool,
    /// How the median differs from the baseline's at the same point; `None` for the baseline itself, or where nothing
    /// can be compared.
    #[serde(default)]
    pub change: Option<MedianChange>,
    /// True where more is better (a throughput); times and energies are better when less.
    #[serde(default)]
    pub higher_is_better: bool,
}

/// The difference of an arm's median from its baseline's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MedianChange {
    /// In percent of the baseline; negative is less.
    #[serde(deserialize_with = "number_or_nan")]
    pub percent: f64,
    /// The 95 % bootstrap interval of `percent`.
    #[serde(deserialize_with = "interval_or_nan")]
    pub ci: [f64; 2],
}

/// One check of the device that measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelfCheck {
    /// What was checked and what was found (`work time is proportional to 1/f: 0.4 % off, 2 % allowed`).
    pub text: String,
    /// Whether it held.
    pub passed: bool,
}

/// Replicates that were refused for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejection {
    /// The arm; empty where the reason applies to all of them.
    pub arm: String,
    /// The point of the workload; empty for all of them.
    pub point: String,
    /// Why, in words (`the vCPU waited 4.1 % of wall time for the host; 3 % is allowed`).
    pub reason: String,
    /// How many replicates.
    pub count: u32,
}

/// One claim's outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClaimResult {
    /// `mechanism.claim`.
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
    #[serde(deserialize_with = "number_or_nan")]
    pub measured: f64,
    /// Its 95 % confidence interval.
    #[serde(deserialize_with = "interval_or_nan")]
    pub ci: [f64; 2],
    /// Permutation test of no difference from the baseline, where there is one.
    pub p: Option<f64>,
    /// Cliff's delta of the arm against what it is compared with, from -1 (all less) to 1 (all more), where there is
    /// one: the mean over the points.
    #[serde(default)]
    pub effect: Option<f64>,
    /// The figure that the paper prints.
    pub paper: Option<String>,
    /// What the samples show.
    pub verdict: Verdict,
}

/// The verdict of the samples on a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The whole 95 % confidence interval meets the requirement.
    Shown,
    /// The whole 99.9 % confidence interval misses it.
    NotShown,
    /// Neither.
    Inconclusive,
}

fn number_or_nan<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

fn interval_or_nan<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[f64; 2], D::Error> {
    let ends: [Option<f64>; 2] = Deserialize::deserialize(deserializer)?;
    Ok(ends.map(|end| end.unwrap_or(f64::NAN)))
}

fn numbers_or_nan<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f64>, D::Error> {
    let numbers: Vec<Option<f64>> = Deserialize::deserialize(deserializer)?;
    Ok(numbers.into_iter().map(|number| number.unwrap_or(f64::NAN)).collect())
}
