//! Checks that the virtual frequency slows the CPU: fixed work must take time proportional to 1/f.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};

use brisk_base::work::Work;
use brisk_sys::Root;

/// The work's duration at the highest frequency: one quantum of the driver more or less is below the tolerance.
const WORK: Duration = Duration::from_millis(100);

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
    /// The frequency that was set in the userspace governor.
    pub frequency_khz: u32,
    /// The duration of the work.
    pub time_us: u64,
    /// The deviation from the time at the highest frequency times f_max / f, as a share; positive is slower.
    pub deviation: f64,
}

impl SelfCheck {
    /// True when every frequency is within [`TOLERANCE`] and there is more than one to compare.
    pub fn passed(&self) -> bool {
        self.points.len() > 1 && self.points.iter().all(|point| point.deviation.abs() <= TOLERANCE)
    }

    /// The figures in one readable line.
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

    /// Runs fixed work at every frequency of every cpufreq policy, with the userspace governor. The previous governors are
    /// restored, their tunables are not: this is for a device that has just started.
    ///
    /// # Errors
    /// When there is no cpufreq policy with several frequencies and a userspace governor, or a file cannot be accessed.
    pub fn measure(root: &Root) -> anyhow::Result<Self> {
        const FOLDER: &str = "/sys/devices/system/cpu/cpufreq";
        let names = root.list(FOLDER).context("the guest has no cpufreq driver: load one, or leave self_check out")?;
        let mut points = Vec::new();
        let all_cpus = sched_getaffinity(None)?;
        for name in names.into_iter().filter(|name| name.starts_with("policy")) {
            measure_policy(root, &PathBuf::from(FOLDER).join(&name), &name, &mut points)?;
        }
        sched_setaffinity(None, &all_cpus)?;
        Ok(Self { points })
    }
}

fn measure_policy(
    root: &Root,
    folder: &std::path::Path,
    name: &str,
    points: &mut Vec<SelfCheckPoint>,
) -> anyhow::Result<()> {
    let words = |file: &str| -> anyhow::Result<Vec<String>> {
        Ok(root.read(folder.join(file))?.split_whitespace().map(str::to_owned).collect())
    };
    let numbers = |file: &str| -> anyhow::Result<Vec<u32>> {
        words(file)?.iter().map(|word| word.parse().with_context(|| format!("{file} holds {word:?}"))).collect()
    };
    let mut frequencies_khz = numbers("scaling_available_frequencies")?;
    frequencies_khz.sort_unstable_by(|a, b| b.cmp(a));
    let cpu = *numbers("affected_cpus")?.first().context("affected_cpus is empty")?;
    let governor = root.read(folder.join("scaling_governor"))?;
    root.write(folder.join("scaling_governor"), "userspace")
        .context("the self-check needs the userspace governor: add the module cpufreq_userspace to the scenario")?;
    let mut one_cpu = CpuSet::new();
    one_cpu.set(cpu as usize);
    sched_setaffinity(None, &one_cpu)?;

    let mut work = None;
    let mut reference = None;
    for frequency_khz in frequencies_khz {
        root.write(folder.join("scaling_setspeed"), &frequency_khz.to_string())?;
        let work = *work.get_or_insert_with(|| Work::calibrated_for(WORK));
        let time = work.time();
        let (highest_khz, shortest) = *reference.get_or_insert((frequency_khz, time));
        let expected = shortest.as_secs_f64() * f64::from(highest_khz) / f64::from(frequency_khz);
        points.push(SelfCheckPoint {
            policy: name.to_owned(),
            frequency_khz,
            time_us: u64::try_from(time.as_micros()).unwrap_or(u64::MAX),
            deviation: time.as_secs_f64() / expected - 1.0,
        });
    }
    root.write(folder.join("scaling_governor"), governor.trim())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(deviations: &[f64]) -> SelfCheck {
        let point = |&deviation: &f64| SelfCheckPoint {
            policy: "policy0".into(),
            frequency_khz: 200_000,
            time_us: 600_300,
            deviation,
        };
        SelfCheck { points: deviations.iter().map(point).collect() }
    }

    // Verifies LAB-1.
    #[test]
    fn every_frequency_must_be_within_the_tolerance() {
        for (deviations, expected) in [
            (&[0.0, 0.0199, -0.0199][..], true),
            (&[0.0, 0.0201], false),
            (&[0.0, -0.0201], false),
            (&[0.0, f64::NAN], false),
            (&[0.0], false),
            (&[], false),
        ] {
            assert_eq!(check(deviations).passed(), expected, "{deviations:?}");
        }
    }

    #[test]
    fn the_figures_name_frequency_time_and_deviation() {
        assert_eq!(check(&[0.00123]).figures(), "policy0 200 MHz 600.3 ms (+0.12 %)");
    }
}
