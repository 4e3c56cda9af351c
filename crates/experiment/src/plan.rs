//! The plan that a device runs, and the lines that the device answers with.
//!
//! A plan is one JSON object; the answer is one line about the device, then one JSON line for each replicate.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::point::Point;
use super::spec::{Arm, Workload};
use brisk_report::proof::{DeviceDescription, SelfCheck};

/// One device's share of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The experiment's name.
    pub experiment: String,
    /// The arms, which replicates name by index.
    pub arms: Vec<Arm>,
    /// The points, which replicates name by index.
    pub points: Vec<Point>,
    /// The lab's scenario, or none on the user's own device.
    pub scenario: Option<String>,
    /// What a replicate runs.
    pub workload: Workload,
    /// Whether a guardian restores everything when the runner is killed: on a device that outlives the runner.
    pub guarded: bool,
    /// True for a plan whose figures must not depend on any other plan: a block of a shard in deterministic mode. Its guest boots
    /// for it alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub independent: bool,
    /// The replicates in the order in which they are run.
    pub replicates: Vec<Replicate>,
}

/// One run of one arm at one point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replicate {
    /// Its number, unique in the experiment.
    pub id: u32,
    /// Its block: replicates of one block and point share phase and background, so that arms are compared in pairs.
    pub block: u32,
    /// Index into [`Plan::arms`].
    pub arm: usize,
    /// Index into [`Plan::points`].
    pub point: usize,
    /// How long the device rests between setting the arm and the launch, in microseconds.
    pub settle_us: u64,
    /// Seed of the background load.
    pub seed: u64,
    /// True when it is run but not counted.
    pub warm_up: bool,
}

/// One line of a device's answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Line {
    /// A finished replicate.
    Measured(Measured),
    /// A replicate begins. From this line to its [`Measured`] line, the host must not disturb it.
    Started {
        /// [`Replicate::id`].
        started: u32,
    },
    /// The device's description: the first line.
    Device { device: DeviceDescription },
    /// A check of the device before any sample is accepted.
    SelfCheck {
        /// The assertion and its outcome.
        self_check: SelfCheck,
    },
    /// The device cannot run the plan; its last line.
    Failed {
        /// Why, in words.
        failed: String,
    },
    /// Something that a reader of the result must know.
    Note {
        /// In words.
        note: String,
    },
}

/// A quantity that is recorded step by step during a replicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepMetric {
    /// Live applications.
    Alive,
    /// Free memory, in MiB.
    Free,
    /// Pages of files, in MiB.
    Files,
    /// Swapped-out memory, in MiB.
    Swapped,
    /// The mean frequency of the CPUs in each twentieth of a boot, in MHz.
    Frequency,
}

impl StepMetric {
    /// All of them, in the order of a report.
    pub const ALL: [Self; 5] = [Self::Alive, Self::Free, Self::Files, Self::Swapped, Self::Frequency];

    /// Its name in a report, and its unit.
    pub fn what(self) -> (&'static str, &'static str) {
        match self {
            Self::Alive => ("applications alive", ""),
            Self::Free => ("free memory", "MiB"),
            Self::Files => ("pages of files", "MiB"),
            Self::Swapped => ("on swap", "MiB"),
            Self::Frequency => ("frequency in each twentieth of the boot", "MHz"),
        }
    }
}

/// The memory of a process after each step of a replicate, in MiB; zero while it does not run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessCourse {
    /// Resident pages, shared ones included.
    pub resident_mib: Vec<f64>,
    /// Pages on swap, before compression.
    pub swapped_mib: Vec<f64>,
}

/// What one replicate measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// [`Replicate::id`].
    pub replicate: u32,
    /// The arm's name.
    pub arm: String,
    /// The point, as [`Point`] prints it.
    pub point: String,
    /// The figures, by [`crate::metric::Metric::key`].
    pub metrics: BTreeMap<String, f64>,
    /// The single events behind aggregated figures, by the same keys.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub events: BTreeMap<String, Vec<f64>>,
    /// Quantities recorded step by step.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub courses: BTreeMap<StepMetric, Vec<f64>>,
    /// The same for each process, by its name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub processes: BTreeMap<String, ProcessCourse>,
    /// Why the replicate is refused, if it is.
    pub rejected: Option<String>,
}
