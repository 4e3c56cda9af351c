//! Reads what this device offers to the launch mechanism: once, and again when CPUs or governors change.

use std::path::{Path, PathBuf};

use super::config::LaunchConfig;
use crate::Job;
use brisk_sys::cpu::cpufreq::{self, FrequencyPolicy, Policies};
use brisk_sys::cpu::hotplug;
use brisk_sys::kernel;
use brisk_sys::sched::uclamp;
use brisk_sys::system::other_managers;
use brisk_sys::{DeviceError, Root};

/// Facts about a device, as plain data; `actuator.rs` decides from them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LaunchDevice {
    /// The cpufreq policies that govern an online CPU.
    pub policies: Vec<PolicyFacts>,
    /// Read errors, in words.
    pub faults: Vec<String>,
    /// The number of online CPUs; at least one.
    pub cpu_count: u32,
    /// The kernel version, where it could be read.
    pub kernel: Option<(u32, u32)>,
    /// The kernel clamps utilisation (CONFIG_UCLAMP_TASK).
    pub uclamp: bool,
    /// The kernel reports process events (CONFIG_PROC_EVENTS).
    pub process_events: bool,
    /// Android's `top-app` cpuset exists.
    pub top_app: bool,
    /// Other programs that manage frequencies (`Job::managers`), where that was probed.
    pub managers: Option<String>,
}

/// Facts about one cpufreq policy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicyFacts {
    /// `policy0`.
    pub name: String,
    /// Its folder, as a path on the device.
    pub folder: PathBuf,
    /// The current governor.
    pub governor: String,
    pub driver: Option<String>,
    /// The folder of the governor's tunables, as a path on the device.
    pub tunables: Option<PathBuf>,
    /// The frequencies that the governor may currently choose, ascending; empty when the limits cannot be read.
    pub frequencies_khz: Vec<u32>,
    /// `sampling_rate` of ondemand and its derivatives.
    pub sampling_rate_us: Option<u64>,
    /// The least value that `sampling_rate` accepts, on kernels that expose it.
    pub sampling_rate_minimum_us: Option<u64>,
    /// `io_is_busy` exists.
    pub io_is_busy: bool,
    /// conservative's `freq_step`.
    pub freq_step_percent: Option<u64>,
    /// `cpu_capacity` of its CPUs, 1024 for the device's fastest. Kernels that expose it know the current speed of a CPU
    /// (frequency invariance).
    pub capacity: Option<u64>,
    /// schedutil's `rate_limit_us`; Android kernels have `up_rate_limit_us` instead.
    pub rate_limit: Option<(&'static str, u64)>,
    /// interactive's `boostpulse` exists.
    pub boostpulse: bool,
    /// The duration of a boost pulse (`boostpulse_duration`).
    pub boostpulse_duration_us: Option<u64>,
    /// interactive's `hispeed_freq`.
    pub hispeed_khz: Option<u32>,
    /// interactive's `timer_rate`.
    pub timer_rate_us: Option<u64>,
    /// interactive's first `above_hispeed_delay`.
    pub above_hispeed_delay_us: Option<u64>,
    /// Samsung's `flexrate_request` exists.
    pub flexrate_request: bool,
}

impl LaunchDevice {
    /// Reads the device below `root`. A missing file is a fact; a read error goes to `faults`.
    pub fn probe(root: &Root) -> Self {
        let policies = Policies::read(root);
        Self {
            policies: policies.list.iter().map(|policy| PolicyFacts::probe(root, policy)).collect(),
            faults: policies.faults.iter().map(DeviceError::to_string).collect(),
            cpu_count: hotplug::online(root).map_or(1, |cpus| cpus.len().max(1) as u32),
            kernel: kernel::release(root).and_then(|release| kernel::version(&release)),
            uclamp: uclamp::support_file(root).is_some(),
            process_events: root.read("/proc/net/connector").is_ok_and(|text| has_process_connector(&text)),
            top_app: root.exists("/dev/cpuset/top-app/cgroup.procs"),
            managers: None,
        }
    }

    /// Like [`LaunchDevice::probe`], but also finds other frequency managers if `config` defers to them, because that probe is
    /// expensive.
    pub fn probe_for(root: &Root, config: &LaunchConfig) -> Self {
        let managers = if config.defers() { Job::Frequency.managers(&other_managers::find(root)) } else { None };
        Self { managers, ..Self::probe(root) }
    }

    /// True when the kernel is known to be older than `version`.
    pub fn is_older_than(&self, version: (u32, u32)) -> bool {
        self.kernel.is_some_and(|kernel| kernel < version)
    }
}

impl PolicyFacts {
    fn probe(root: &Root, policy: &FrequencyPolicy) -> Self {
        let tunables = cpufreq::governor_tunables(root, policy);
        let file = |name: &str| tunables.as_deref().map(|folder| folder.join(name));
        let number = |name: &str| file(name).and_then(|path| first_number(root, &path));
        let exists = |name: &str| file(name).is_some_and(|path| root.exists(path));
        let rate_limit = ["rate_limit_us", "up_rate_limit_us"].into_iter().find_map(|name| Some((name, number(name)?)));
        Self {
            name: policy.name.clone(),
            folder: policy.folder.clone(),
            governor: policy.governor.clone(),
            driver: policy.driver.clone(),
            frequencies_khz: frequencies(root, policy),
            sampling_rate_us: number("sampling_rate"),
            sampling_rate_minimum_us: number("sampling_rate_min"),
            io_is_busy: exists("io_is_busy"),
            freq_step_percent: number("freq_step"),
            capacity: root.read_number(format!("{}/cpu{}/cpu_capacity", hotplug::CPU_FOLDER, policy.cpus[0])).ok(),
            rate_limit,
            boostpulse: exists("boostpulse"),
            boostpulse_duration_us: number("boostpulse_duration"),
            hispeed_khz: number("hispeed_freq").and_then(|khz| u32::try_from(khz).ok()),
            timer_rate_us: number("timer_rate"),
            above_hispeed_delay_us: number("above_hispeed_delay"),
            flexrate_request: exists("flexrate_request"),
            tunables,
        }
    }
}

/// The frequencies within the policy's limits: from the driver's table where it exists, else only the limits.
fn frequencies(root: &Root, policy: &FrequencyPolicy) -> Vec<u32> {
    let minimum = policy.minimum_khz.or(policy.hardware_minimum_khz);
    let maximum = policy.maximum_khz.or(policy.hardware_maximum_khz);
    let (Some(minimum), Some(maximum)) = (minimum, maximum) else { return Vec::new() };
    let table = root.read(policy.folder.join("scaling_available_frequencies")).unwrap_or_default();
    let listed = table.split_ascii_whitespace().filter_map(|word| word.parse().ok());
    let mut frequencies: Vec<u32> =
        listed.chain([minimum, maximum]).filter(|khz| (minimum..=maximum).contains(khz)).collect();
    frequencies.sort_unstable();
    frequencies.dedup();
    frequencies
}

/// The first number in a tunable: interactive's lists (`20000 1400000:40000`) start with the value that applies first.
fn first_number(root: &Root, file: &Path) -> Option<u64> {
    let text = root.read(file).ok()?;
    text.split(|character: char| !character.is_ascii_digit()).next()?.parse().ok()
}

/// `/proc/net/connector` lists the kernel's connector users by name: `cn_proc 1:1`.
fn has_process_connector(text: &str) -> bool {
    text.lines().any(|line| line.split_ascii_whitespace().next() == Some("cn_proc"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn an_ondemand_policy_is_read_completely() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("proc/sys/kernel/osrelease", "6.1.0-56-amd64\n"),
            ("proc/net/connector", "Name            ID\ncn_proc         1:1\n"),
            ("sys/devices/system/cpu/online", "0-1\n"),
            ("sys/devices/system/cpu/cpufreq/policy0/affected_cpus", "0 1\n"),
            ("sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "ondemand\n"),
            ("sys/devices/system/cpu/cpufreq/policy0/scaling_min_freq", "500000\n"),
            ("sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq", "1200000\n"),
            (
                "sys/devices/system/cpu/cpufreq/policy0/scaling_available_frequencies",
                "200000 500000 1000000 1200000 \n",
            ),
            ("sys/devices/system/cpu/cpufreq/policy0/ondemand/sampling_rate", "100000\n"),
            ("sys/devices/system/cpu/cpufreq/policy0/ondemand/io_is_busy", "0\n"),
        ] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let facts = LaunchDevice::probe(&Root::at(folder.path()));
        assert_eq!((facts.kernel, facts.cpu_count, facts.process_events, facts.uclamp), (Some((6, 1)), 2, true, false));
        assert!(facts.is_older_than((6, 2)) && !facts.is_older_than((4, 7)));
        let policy = &facts.policies[0];
        assert_eq!(policy.frequencies_khz, [500_000, 1_000_000, 1_200_000]);
        assert_eq!((policy.sampling_rate_us, policy.io_is_busy), (Some(100_000), true));
    }

    #[test]
    fn either_name_of_the_uclamp_sysctl_is_detected() {
        for name in ["sched_util_clamp_min", "sched_uclamp_util_min"] {
            let folder = tempfile::tempdir().unwrap();
            fs::create_dir_all(folder.path().join("proc/sys/kernel")).unwrap();
            fs::write(folder.path().join("proc/sys/kernel").join(name), "1024\n").unwrap();
            assert!(LaunchDevice::probe(&Root::at(folder.path())).uclamp, "{name}");
        }
    }

    #[test]
    fn an_empty_tree_yields_default_facts() {
        let folder = tempfile::tempdir().unwrap();
        let facts = LaunchDevice::probe(&Root::at(folder.path()));
        assert_eq!(facts, LaunchDevice { cpu_count: 1, ..LaunchDevice::default() });
    }
}
