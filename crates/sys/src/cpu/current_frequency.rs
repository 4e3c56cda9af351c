//! The current frequency of each CPU: `scaling_cur_freq` of each cpufreq policy, on descriptors that stay open.

use crate::Root;
use crate::cpu::cpufreq::{FrequencyPolicy, Policies};
use crate::fields::number;
use crate::open_file::OpenFile;

/// The known policies.
#[derive(Debug)]
pub struct CurrentFrequencies {
    policies: Vec<OpenPolicy>,
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct OpenPolicy {
    cpus: Vec<u32>,
    maximum_khz: u64,
    file: OpenFile,
}

impl CurrentFrequencies {
    /// Finds the current policies. Repeat it from time to time: their driver may be loaded later, and CPUs go offline and come
    /// back.
    pub fn find(root: &Root) -> Self {
        let known = |policy: FrequencyPolicy| {
            let file = OpenFile::open(root, policy.folder.join("scaling_cur_freq")).ok()?;
            let maximum_khz = policy.hardware_maximum_khz.or(policy.maximum_khz).unwrap_or(0);
            Some(OpenPolicy { cpus: policy.cpus, maximum_khz: maximum_khz.into(), file })
        };
        Self { policies: Policies::read(root).list.into_iter().filter_map(known).collect(), buffer: Vec::new() }
    }

    /// Passes the number of each CPU, its current and its highest frequency in kHz to `each`. Policies without a value (a
    /// driver of old kernels answers `<unknown>`) are skipped.
    pub fn read(&mut self, each: &mut dyn FnMut(u32, u64, u64)) {
        for policy in &self.policies {
            let Ok(text) = policy.file.read(&mut self.buffer) else { continue };
            let Some(khz) = number(text.trim_ascii()) else { continue };
            for &cpu in &policy.cpus {
                each(cpu, khz, policy.maximum_khz.max(khz));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cpu_of_a_policy_has_its_frequency() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        for (policy, cpus, khz) in [(0, "0 1", "408000\n"), (4, "4", "1800000\n"), (6, "6", "<unknown>\n")] {
            let policy = folder.path().join(format!("sys/devices/system/cpu/cpufreq/policy{policy}"));
            std::fs::create_dir_all(&policy).unwrap();
            for (name, text) in [
                ("affected_cpus", cpus),
                ("scaling_governor", "ondemand\n"),
                ("cpuinfo_max_freq", "1416000\n"),
                ("scaling_cur_freq", khz),
            ] {
                std::fs::write(policy.join(name), text).unwrap();
            }
        }
        let mut found = Vec::new();
        CurrentFrequencies::find(&root).read(&mut |cpu, khz, maximum_khz| found.push((cpu, khz, maximum_khz)));
        assert_eq!(found, [(0, 408_000, 1_416_000), (1, 408_000, 1_416_000), (4, 1_800_000, 1_800_000)]);
    }
}
