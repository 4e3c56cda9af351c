//! Checks that the virtual frequency slows each CPU: fixed work must take time proportional to 1/f. Where CPUs are unequal, it
//! must also take time in proportion to their stated capacities, which the kernel must know and use.

use std::cmp::Reverse;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};

use super::cluster::FULL_CAPACITY;
use super::energy_aware::{self, SchedulerLog};
use brisk_base::work::Work;
use brisk_sys::Root;

/// The work's duration at the highest frequency.
const WORK: Duration = Duration::from_millis(100);
/// The largest deviation, as a share: where instructions are counted, one quantum of the driver more or less is below it.
const TOLERANCE: f64 = 0.02;

/// Fixed work at every frequency of a device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SelfCheck {
    /// One measurement a frequency, the fastest CPU's highest first.
    pub points: Vec<SelfCheckPoint>,
    /// False on the host's clock, which other programs of the host disturb: the times are only reported.
    pub times_count: bool,
    /// What the kernel does not know of unequal CPUs, or not use.
    pub faults: Vec<String>,
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
    /// The deviation from the expected time, as a share; positive is slower. Expected is the time on the fastest CPU at its
    /// highest frequency, times that CPU's speed over this one's.
    pub deviation: f64,
}

impl SelfCheck {
    /// True when every frequency is within the tolerance, as far as times count, there is more than one to compare, and nothing
    /// else is wrong.
    pub fn passed(&self) -> bool {
        let fits = |point: &SelfCheckPoint| point.deviation.abs() <= TOLERANCE;
        let are_right = !self.times_count || self.points.iter().all(fits);
        self.points.len() > 1 && are_right && self.faults.is_empty()
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
        let points = self.points.iter().map(point).collect::<Vec<_>>().join(", ");
        let of_host = (!self.times_count).then(|| "times by the host's clock are not judged".to_owned());
        [points].into_iter().chain(of_host).chain(self.faults.iter().cloned()).collect::<Vec<_>>().join("; ")
    }

    /// Runs fixed work at every frequency of every cpufreq policy, with the userspace governor. The previous governors are
    /// restored, their tunables are not: this is for a device that has just started. `capacities` has each CPU's where they
    /// are unequal, or else nothing.
    ///
    /// # Errors
    /// When there is no cpufreq policy with several frequencies and a userspace governor, or a file cannot be accessed.
    pub fn measure(root: &Root, capacities: &[u32]) -> anyhow::Result<Self> {
        const FOLDER: &str = "/sys/devices/system/cpu/cpufreq";
        let names = root.list(FOLDER).context("the guest has no cpufreq driver: load one, or leave self_check out")?;
        let names = names.into_iter().filter(|name| name.starts_with("policy"));
        let policy = |name: String| Policy::read(root, PathBuf::from(FOLDER).join(&name), name, capacities);
        let mut policies: Vec<Policy> = names.map(policy).collect::<anyhow::Result<_>>()?;
        policies.sort_by_key(|policy| Reverse(policy.capacity));

        let log = if capacities.is_empty() { None } else { Some(SchedulerLog::follow(root)?) };
        let all_cpus = sched_getaffinity(None)?;
        let (mut points, mut reference) = (Vec::new(), Reference::default());
        for policy in &policies {
            policy.measure(root, &mut reference, &mut points)?;
        }
        sched_setaffinity(None, &all_cpus)?;
        let mut faults = Vec::new();
        if let Some(log) = log {
            faults = energy_aware::faults(root, capacities);
            faults.extend(log.end(root)?);
        }
        // Unequal CPUs are two, and two run on the host's clock.
        Ok(Self { points, times_count: capacities.is_empty(), faults })
    }
}

/// Work, and its time at the highest frequency of the fastest CPU, once they are known.
#[derive(Default)]
struct Reference {
    work: Option<Work>,
    time: Option<Duration>,
}

/// One cpufreq policy.
struct Policy {
    name: String,
    folder: PathBuf,
    /// The first CPU that it covers.
    cpu: u32,
    capacity: u32,
    /// Descending.
    frequencies_khz: Vec<u32>,
}

impl Policy {
    fn read(root: &Root, folder: PathBuf, name: String, capacities: &[u32]) -> anyhow::Result<Self> {
        let numbers = |file: &str| -> anyhow::Result<Vec<u32>> {
            let text = root.read(folder.join(file))?;
            let number = |word: &str| word.parse().with_context(|| format!("{file} holds {word:?}"));
            text.split_whitespace().map(number).collect()
        };
        let mut frequencies_khz = numbers("scaling_available_frequencies")?;
        frequencies_khz.sort_unstable_by_key(|&khz| Reverse(khz));
        let cpu = *numbers("affected_cpus")?.first().context("affected_cpus is empty")?;
        let capacity = capacities.get(cpu as usize).copied().unwrap_or(FULL_CAPACITY);
        Ok(Self { name, folder, cpu, capacity, frequencies_khz })
    }

    /// How many times slower than the fastest CPU at its highest frequency a CPU is at `frequency_khz`.
    fn slowness(&self, frequency_khz: u32) -> f64 {
        let highest_khz = self.frequencies_khz.first().copied().unwrap_or(frequency_khz);
        f64::from(highest_khz) / f64::from(frequency_khz) * f64::from(FULL_CAPACITY) / f64::from(self.capacity)
    }

    /// Times the work at each frequency. The first policy that is measured sets the reference.
    fn measure(&self, root: &Root, reference: &mut Reference, points: &mut Vec<SelfCheckPoint>) -> anyhow::Result<()> {
        let governor = root.read(self.folder.join("scaling_governor"))?;
        root.write(self.folder.join("scaling_governor"), "userspace")
            .context("the self-check needs the userspace governor: add the module cpufreq_userspace to the scenario")?;
        let mut one_cpu = CpuSet::new();
        one_cpu.set(self.cpu as usize);
        sched_setaffinity(None, &one_cpu)?;
        for &frequency_khz in &self.frequencies_khz {
            root.write(self.folder.join("scaling_setspeed"), &frequency_khz.to_string())?;
            let work = *reference.work.get_or_insert_with(|| Work::calibrated_for(WORK));
            let time = work.time();
            let fastest = *reference.time.get_or_insert(time);
            let expected = fastest.as_secs_f64() * self.slowness(frequency_khz);
            points.push(SelfCheckPoint {
                policy: self.name.clone(),
                frequency_khz,
                time_us: u64::try_from(time.as_micros()).unwrap_or(u64::MAX),
                deviation: time.as_secs_f64() / expected - 1.0,
            });
        }
        root.write(self.folder.join("scaling_governor"), governor.trim())?;
        Ok(())
    }
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
        let points = deviations.iter().map(point).collect();
        SelfCheck { points, times_count: true, faults: Vec::new() }
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

    // Verifies LAB-1.
    #[test]
    fn a_kernel_that_does_not_know_its_cpus_fails() {
        let mut check = check(&[0.00123, 0.5]);
        assert!(!check.passed());
        check.times_count = false;
        assert!(check.passed(), "the host may have been busy");
        check.faults.push("CPU 0 has no energy model".into());
        assert!(!check.passed());
        check.points.pop();
        assert_eq!(
            check.figures(),
            "policy0 200 MHz 600.3 ms (+0.12 %); times by the host's clock are not judged; CPU 0 has no energy model"
        );
        check.faults.clear();
        assert!(!check.passed(), "one point shows nothing");
    }

    // Verifies LAB-3.
    #[test]
    fn a_cpu_is_slower_by_its_capacity_and_its_frequency() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        for (file, text) in [("scaling_available_frequencies", "200000 500000 800000 \n"), ("affected_cpus", "0\n")] {
            std::fs::write(folder.path().join(file), text).unwrap();
        }
        for (capacities, khz, expected) in [
            (&[][..], 800_000, 1.0),
            (&[], 200_000, 4.0),
            (&[512, 1024], 800_000, 2.0),
            (&[512, 1024], 200_000, 8.0),
            (&[1024, 512], 500_000, 1.6),
        ] {
            let policy = Policy::read(&root, "/".into(), "policy0".into(), capacities).unwrap();
            assert_eq!(policy.frequencies_khz, [800_000, 500_000, 200_000]);
            assert!((policy.slowness(khz) - expected).abs() < 1e-9, "{capacities:?} {khz}");
        }
    }
}
