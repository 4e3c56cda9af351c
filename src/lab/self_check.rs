//! Does the virtual frequency really slow the CPU? Fixed work must take time proportional to 1/f.

use serde::{Deserialize, Serialize};

/// The largest deviation from 1/f that is accepted, as a share.
pub const TOLERANCE: f64 = 0.02;

/// Fixed work at every frequency of a device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SelfCheck {
    /// One measurement a frequency, highest first.
    pub points: Vec<SelfCheckPoint>,
}

/// Fixed work at one frequency.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SelfCheckPoint {
    /// The cpufreq policy (`policy0`).
    pub policy: String,
    /// The frequency that the userspace governor was told.
    pub frequency_khz: u32,
    /// What the work took.
    pub time_us: u64,
    /// By how much that misses the time at the highest frequency times f_max / f, as a share; positive is slower.
    pub deviation: f64,
}

impl SelfCheck {
    /// True when every frequency is within [`TOLERANCE`] and there is more than one to compare.
    pub fn passed(&self) -> bool {
        self.points.len() > 1 && self.points.iter().all(|point| point.deviation.abs() <= TOLERANCE)
    }

    /// The figures in a line for people.
    pub fn figures(&self) -> String {
        let point = |point: &SelfCheckPoint| {
            format!(
                "{} {} MHz {:.1} ms ({:+.2} %)",
                point.policy,
                point.frequency_khz / 1000,
                point.time_us as f64 / 1000.0,
                point.deviation * 100.0
            )
        };
        self.points.iter().map(point).collect::<Vec<_>>().join(", ")
    }
}
