//! The frequency of the CPUs in the course of a boot, which the boot paper's figure 6 draws.

use std::time::Duration;

use super::sampler::Sampler;
use brisk_sys::cpu::current_frequency::CurrentFrequencies;
use brisk_sys::{BootTime, Root};

/// Half of the shortest period after which the paper's governor changes the frequency.
const PERIOD: Duration = Duration::from_millis(50);
/// The parts of a boot, of which each has one figure.
const STEPS: usize = 20;

/// Samples in the background until it ends, in every arm alike.
pub(super) struct FrequencySamples(Sampler<Sample>);

/// The mean of all CPUs.
struct Sample {
    at: BootTime,
    mhz: f64,
}

impl FrequencySamples {
    pub(super) fn start(root: &Root) -> Self {
        let mut frequencies = CurrentFrequencies::find(root);
        Self(Sampler::start(PERIOD, move || sample(&mut frequencies)))
    }

    /// Ends, and returns the mean frequency in MHz of each twentieth of the boot between `began` and `ended`; nothing where the
    /// device tells none.
    pub(super) fn end(self, began: BootTime, ended: BootTime) -> Vec<f64> {
        course(&self.0.end(), began, ended)
    }
}

fn sample(frequencies: &mut CurrentFrequencies) -> Option<Sample> {
    let (mut sum_khz, mut cpus) = (0, 0);
    frequencies.read(&mut |_, khz, _| (sum_khz, cpus) = (sum_khz + khz, cpus + 1));
    (cpus > 0).then(|| Sample { at: BootTime::now(), mhz: sum_khz as f64 / 1000.0 / f64::from(cpus) })
}

fn course(samples: &[Sample], began: BootTime, ended: BootTime) -> Vec<f64> {
    let Some(first) = samples.first() else { return Vec::new() };
    let length_s = ended.since(began).as_secs_f64();
    let step_of = |sample: &Sample| sample.at.since(began).as_secs_f64() / length_s * STEPS as f64;
    let mut latest = first.mhz;
    let means = (0..STEPS).map(|step| {
        let within = samples.iter().filter(|sample| (step as f64..(step + 1) as f64).contains(&step_of(sample)));
        let (sum, count) = within.fold((0.0, 0), |(sum, count), sample| (sum + sample.mhz, count + 1));
        if count > 0 {
            latest = sum / f64::from(count);
        }
        latest
    });
    means.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // Verifies PROVE-8.
    #[test]
    fn each_twentieth_of_a_boot_has_its_mean_frequency() {
        let at = |ms: u64, mhz: f64| Sample { at: BootTime::from_milliseconds(100 + ms), mhz };
        let [began, ended] = [100, 2100].map(BootTime::from_milliseconds);
        let samples = [at(0, 800.0), at(50, 1200.0), at(120, 400.0), at(350, 600.0), at(1999, 1200.0), at(2040, 9e9)];
        let found = course(&samples, began, ended);
        assert_eq!(found.len(), STEPS);
        assert_eq!(found[..5], [1000.0, 400.0, 400.0, 600.0, 600.0], "one without a sample is as the one before");
        assert_eq!((found[18], found[19]), (600.0, 1200.0), "what comes after the boot does not count");
        assert_eq!(course(&[], began, ended), Vec::<f64>::new());
    }

    #[test]
    fn the_cpus_mean_is_sampled_until_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let nothing = FrequencySamples::start(&root);
        assert_eq!(nothing.end(BootTime::now(), BootTime::now()), Vec::<f64>::new());
        for (policy, khz) in [(0, "600000"), (1, "1400000")] {
            let folder = folder.path().join(format!("sys/devices/system/cpu/cpufreq/policy{policy}"));
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("affected_cpus"), policy.to_string()).unwrap();
            std::fs::write(folder.join("scaling_governor"), "ondemand\n").unwrap();
            std::fs::write(folder.join("scaling_cur_freq"), khz).unwrap();
        }
        let began = BootTime::now();
        let samples = FrequencySamples::start(&root);
        assert_eq!(samples.end(began, began + Duration::from_secs(60)), [1000.0; STEPS]);
    }
}
