//! cpufreq policies and their governors' tunables, in every layout since Linux 2.6
//! (Documentation/admin-guide/pm/cpufreq.rst; before 4.2 only `cpuN/cpufreq` exists).

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::cpu::hotplug::{self, CPU_FOLDER};
use crate::{DeviceError, Root};
use brisk_base::insertion_sort::insertion_sort;

/// One cpufreq policy: CPUs that change frequency together, and their governor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FrequencyPolicy {
    /// `policy0`, after its first CPU; also on kernels that only have `cpu0/cpufreq`.
    pub name: String,
    /// Its folder as named on the device: `/sys/devices/system/cpu/cpufreq/policy0` or `.../cpu0/cpufreq`.
    pub folder: PathBuf,
    /// The online CPUs that it governs, ascending; never empty.
    pub cpus: Vec<u32>,
    /// The current governor (`scaling_governor`).
    pub governor: String,
    /// The governors that can be chosen now; one in a module that is not yet loaded is missing.
    pub available_governors: Vec<String>,
    /// The lowest frequency that the governor may choose (`scaling_min_freq`), in kHz.
    pub minimum_khz: Option<u32>,
    /// The highest (`scaling_max_freq`), in kHz.
    pub maximum_khz: Option<u32>,
    /// The lowest frequency of the hardware (`cpuinfo_min_freq`), in kHz.
    pub hardware_minimum_khz: Option<u32>,
    /// The highest frequency of the hardware (`cpuinfo_max_freq`), in kHz.
    pub hardware_maximum_khz: Option<u32>,
    /// The driver (`scaling_driver`): `cpufreq-dt`, `intel_pstate`, ...
    pub driver: Option<String>,
}

/// All policies of a device, and the errors of those that could not be read.
#[derive(Debug, Default)]
pub struct Policies {
    /// The policies that govern at least one online CPU, by their first CPU.
    pub list: Vec<FrequencyPolicy>,
    /// Names of policies whose CPUs are all offline: the kernel answers EBUSY or an empty `affected_cpus` for them.
    pub offline: Vec<String>,
    /// Policies that exist but could not be parsed; they are not in `list`.
    pub faults: Vec<DeviceError>,
}

impl Policies {
    /// Reads every policy. A device without cpufreq has none; a policy that cannot be read is a fault and hides no other.
    pub fn read(root: &Root) -> Self {
        let mut policies = Self::default();
        for folder in policy_folders(root) {
            match read_policy(root, &folder) {
                // Before 4.2 each CPU of a policy exposes the same policy under its own name.
                Ok(policy) if policies.list.iter().any(|other| other.cpus == policy.cpus) => {}
                Ok(policy) if policy.cpus.is_empty() => policies.offline.push(policy.name),
                Ok(policy) => policies.list.push(policy),
                Err(error) if is_inactive(&error) => policies.offline.push(name_of(&folder, &[])),
                Err(error) => policies.faults.push(error),
            }
        }
        insertion_sort(&mut policies.list, |one, next| one.cpus[0] > next.cpus[0]);
        policies
    }
}

/// The folder that holds the tunables of the policy's governor, as named on the device, if there is one:
/// `policyN/ondemand` where each policy has its own, else the global `/sys/devices/system/cpu/cpufreq/ondemand`.
/// Governors without tunables (performance, intel_pstate's own) have none.
pub fn governor_tunables(root: &Root, policy: &FrequencyPolicy) -> Option<PathBuf> {
    governor_folder(root, &policy.folder, &policy.governor)
}

/// The same, by the policy's folder and a governor's name.
pub(super) fn governor_folder(root: &Root, policy_folder: &Path, governor: &str) -> Option<PathBuf> {
    if !is_plain_word(governor) {
        return None;
    }
    [policy_folder.join(governor), Path::new(CPU_FOLDER).join("cpufreq").join(governor)]
        .into_iter()
        .find(|folder| root.is_folder(folder))
}

/// A governor's name becomes part of a path, so one that is not a plain word is refused.
pub(super) fn is_plain_word(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}

/// The folders that may be policies, as named on the device.
fn policy_folders(root: &Root) -> Vec<PathBuf> {
    let numbered = |folder: &str, prefix: &str| -> Vec<(u32, String)> {
        let mut names: Vec<(u32, String)> = root
            .list(folder)
            .unwrap_or_default()
            .into_iter()
            .filter_map(|name| Some((name.strip_prefix(prefix)?.parse().ok()?, name)))
            .collect();
        insertion_sort(&mut names, |one, next| one > next);
        names
    };
    let folder = format!("{CPU_FOLDER}/cpufreq");
    let policies: Vec<PathBuf> =
        numbered(&folder, "policy").into_iter().map(|(_, name)| Path::new(&folder).join(name)).collect();
    if !policies.is_empty() {
        return policies;
    }
    let per_cpu = numbered(CPU_FOLDER, "cpu").into_iter().map(|(_, name)| Path::new(CPU_FOLDER).join(name));
    per_cpu.map(|cpu| cpu.join("cpufreq")).filter(|folder| root.is_folder(folder)).collect()
}

fn read_policy(root: &Root, folder: &Path) -> Result<FrequencyPolicy, DeviceError> {
    let file = folder.join("affected_cpus");
    let text = root.read(&file)?;
    let mut cpus = hotplug::parse_words(&text)
        .ok_or_else(|| DeviceError::malformed(&root.path(&file), "CPU numbers separated by blanks", &text))?;
    cpus.sort_unstable();
    let name = name_of(folder, &cpus);
    let word = |name: &str| root.read(folder.join(name)).ok().filter(|text| !text.is_empty());
    let frequency = |name: &str| root.read_number(folder.join(name)).ok();
    let governor = if cpus.is_empty() { String::new() } else { read_governor(root, folder)? };
    Ok(FrequencyPolicy {
        name,
        folder: folder.to_owned(),
        cpus,
        governor,
        available_governors: word("scaling_available_governors")
            .map(|text| text.split_ascii_whitespace().map(str::to_owned).collect())
            .unwrap_or_default(),
        minimum_khz: frequency("scaling_min_freq"),
        maximum_khz: frequency("scaling_max_freq"),
        hardware_minimum_khz: frequency("cpuinfo_min_freq"),
        hardware_maximum_khz: frequency("cpuinfo_max_freq"),
        driver: word("scaling_driver"),
    })
}

fn read_governor(root: &Root, folder: &Path) -> Result<String, DeviceError> {
    let file = folder.join("scaling_governor");
    let governor = root.read(&file)?;
    if !is_plain_word(&governor) {
        return Err(DeviceError::malformed(&root.path(&file), "the name of a governor", &governor));
    }
    Ok(governor)
}

fn name_of(folder: &Path, cpus: &[u32]) -> String {
    let last = folder.file_name().unwrap_or_default().to_string_lossy();
    if last.starts_with("policy") {
        return last.into_owned();
    }
    let parent = folder.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    match cpus.first() {
        Some(first) => format!("policy{first}"),
        None => parent.replacen("cpu", "policy", 1),
    }
}

/// Since 4.2 an inactive policy keeps its folder, and its attributes answer EBUSY.
fn is_inactive(error: &DeviceError) -> bool {
    error.cause().is_some_and(|cause| cause.kind() == std::io::ErrorKind::ResourceBusy)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join("sys/devices/system/cpu").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let root = Root::at(folder.path());
        (folder, root)
    }

    #[test]
    fn policies_of_a_new_kernel_are_read_in_the_order_of_their_cpus() {
        let (_folder, root) = tree(&[
            ("cpufreq/policy10/affected_cpus", "10 11\n"),
            ("cpufreq/policy10/scaling_governor", "schedutil\n"),
            ("cpufreq/policy0/affected_cpus", "0 1 2 3\n"),
            ("cpufreq/policy0/scaling_governor", "ondemand\n"),
            ("cpufreq/policy0/scaling_available_governors", "ondemand performance \n"),
            ("cpufreq/policy0/cpuinfo_max_freq", "1800000\n"),
            ("cpufreq/policy0/scaling_min_freq", "lowest\n"),
            ("cpufreq/policy0/ondemand/sampling_rate", "10000\n"),
            ("cpufreq/policy12/affected_cpus", "\n"),
            ("cpufreq/policy14/affected_cpus", "14\n"),
            ("cpufreq/policy14/scaling_governor", "\n"),
        ]);
        let policies = Policies::read(&root);
        let names: Vec<_> = policies.list.iter().map(|policy| policy.name.as_str()).collect();
        assert_eq!(names, ["policy0", "policy10"]);
        assert_eq!(policies.offline, ["policy12"]);
        assert_eq!(policies.faults.len(), 1);
        let first = &policies.list[0];
        assert_eq!(first.available_governors, ["ondemand", "performance"]);
        assert_eq!((first.hardware_maximum_khz, first.minimum_khz), (Some(1_800_000), None));
        let own = Path::new("/sys/devices/system/cpu/cpufreq/policy0/ondemand");
        assert_eq!(governor_tunables(&root, first).as_deref(), Some(own));
        assert_eq!(governor_tunables(&root, &policies.list[1]), None);
    }

    #[test]
    fn an_old_kernel_shows_one_policy_under_each_of_its_cpus() {
        let (_folder, root) = tree(&[
            ("cpu0/cpufreq/affected_cpus", "0 1 \n"),
            ("cpu0/cpufreq/scaling_governor", "ondemand\n"),
            ("cpu1/cpufreq/affected_cpus", "0 1 \n"),
            ("cpu1/cpufreq/scaling_governor", "ondemand\n"),
            ("cpufreq/ondemand/sampling_rate", "100000\n"),
            ("cpuidle/current_driver", "none\n"),
        ]);
        let policies = Policies::read(&root);
        assert_eq!(policies.list.len(), 1);
        assert_eq!(policies.list[0].name, "policy0");
        let global = Path::new("/sys/devices/system/cpu/cpufreq/ondemand");
        assert_eq!(governor_tunables(&root, &policies.list[0]).as_deref(), Some(global));
    }

    #[test]
    fn a_governor_that_is_no_word_is_never_a_path() {
        let (_folder, root) = tree(&[("cpufreq/ondemand/sampling_rate", "1\n")]);
        for governor in ["", "..", "../cpufreq/ondemand", "a/b"] {
            assert_eq!(governor_folder(&root, Path::new("/sys"), governor), None, "{governor:?}");
        }
    }
}
