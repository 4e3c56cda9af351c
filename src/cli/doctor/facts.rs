//! The facts of a device that decide what brisk can do on it, each with the file that says so.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::device::cgroup::membership::{Choice, Groups};
use crate::device::cpufreq::{self, Policies, Policy};
use crate::device::energy::Meter;
use crate::device::journal::JournalState;
use crate::device::process_events::ProcessEvents;
use crate::device::{DeviceError, Root, foreground, hotplug, kernel, psi, uclamp};
use crate::experiment::runner;

/// Capabilities of linux/capability.h that the daemon uses.
const CAPABILITIES: [(u32, &str); 4] = [
    (1, "CAP_DAC_OVERRIDE (tunables of another user)"),
    (12, "CAP_NET_ADMIN (process events)"),
    (23, "CAP_SYS_NICE (utilisation clamps)"),
    (24, "CAP_SYS_RESOURCE (a guardian that the OOM killer spares)"),
];

/// What the device is and has.
#[derive(Debug, Serialize)]
pub struct DeviceReport {
    /// The kernel's release, where it is known.
    pub kernel: Option<String>,
    /// CPUs online in the kernel's list format, where they are known.
    pub cpus_online: Option<String>,
    /// CPUs present.
    pub cpus_present: Option<String>,
    /// The cpufreq policies that govern an online CPU.
    pub policies: Vec<PolicyReport>,
    /// Policies whose CPUs are all offline.
    pub policies_offline: Vec<String>,
    /// One entry a kernel interface.
    pub interfaces: Vec<Interface>,
    /// The daemon's journal.
    pub journal: JournalReport,
    /// The journal of `brisk prove --here`, when there is anything to say of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub experiment_journal: Option<JournalReport>,
    /// What is there but could not be understood.
    pub faults: Vec<String>,
}

/// A policy and the tunables of its governor.
#[derive(Debug, PartialEq, Serialize)]
pub struct PolicyReport {
    /// The policy.
    #[serde(flatten)]
    pub policy: Policy,
    /// The folder of the governor's tunables, as named on the device.
    pub tunables_folder: Option<PathBuf>,
    /// Their values; a tunable that cannot be read (some are for writing alone) has none.
    pub tunables: BTreeMap<String, Option<String>>,
}

/// A kernel interface that some mechanism may use.
#[derive(Debug, Serialize)]
pub struct Interface {
    /// What it is, in the field's words.
    pub name: &'static str,
    /// True when it can be used now.
    pub available: bool,
    /// The deciding fact, with its file.
    pub reason: String,
    /// What a person can do; empty when there is nothing.
    pub advice: String,
}

/// A journal from outside.
#[derive(Debug, Serialize)]
pub struct JournalReport {
    /// Its folder, as named on the device.
    pub folder: PathBuf,
    /// What it looks like, where it can be seen.
    pub state: Option<JournalState>,
    /// Why it cannot be seen.
    pub fault: Option<String>,
}

impl DeviceReport {
    /// Looks at the device below `root`.
    pub fn of(root: &Root) -> Self {
        let mut faults = Vec::new();
        let policies = Policies::read(root);
        faults.extend(policies.faults.iter().map(|fault| root.as_on_device(fault)));
        let mut cpus = |read: fn(&Root) -> Result<Vec<u32>, DeviceError>| match read(root) {
            Ok(cpus) => Some(hotplug::format_list(&cpus)),
            Err(fault) => {
                faults.push(root.as_on_device(&fault));
                None
            }
        };
        let (cpus_online, cpus_present) = (cpus(hotplug::online), cpus(hotplug::present));
        Self {
            kernel: kernel::release(root),
            cpus_online,
            cpus_present,
            policies: policies.list.into_iter().map(|policy| PolicyReport::of(root, policy)).collect(),
            policies_offline: policies.offline,
            interfaces: vec![
                process_events(root),
                top_app(root),
                control_groups(root),
                utilization_clamps(root),
                pressure(root),
                energy(root),
                rights(root),
            ],
            journal: JournalReport::of(root, &root.runtime_folder()),
            experiment_journal: Some(JournalReport::of(root, &runner::runtime_folder(root)))
                .filter(|report| report.state != Some(JournalState::Empty)),
            faults,
        }
    }
}

impl PolicyReport {
    fn of(root: &Root, policy: Policy) -> Self {
        let tunables_folder = cpufreq::governor_tunables(root, &policy);
        let names = tunables_folder.as_ref().and_then(|folder| root.list(folder).ok()).unwrap_or_default();
        let value = |name: &String| {
            let file = tunables_folder.as_ref()?.join(name);
            root.read(file).ok().map(|text| text.lines().next().unwrap_or_default().chars().take(60).collect())
        };
        let tunables = names.into_iter().map(|name| (name.clone(), value(&name))).collect();
        Self { policy, tunables_folder, tunables }
    }
}

impl JournalReport {
    fn of(root: &Root, real: &Path) -> Self {
        let (state, fault) = match JournalState::of(real) {
            Ok(state) => (Some(state), None),
            Err(error) => (None, Some(root.as_on_device(&error))),
        };
        Self { folder: root.as_on_device(&real.display()).into(), state, fault }
    }
}

fn process_events(root: &Root) -> Interface {
    const LIST: &str = "/proc/net/connector";
    let listed = root.read(LIST).is_ok_and(|text| text.lines().any(|line| line.starts_with("cn_proc")));
    // On the running system the subscription itself says more than the list: rights, and containers.
    let outcome = match (listed, root.is_system()) {
        (false, _) => Err("use another trigger: the top-app cpuset, or `brisk launch`".to_owned()),
        (true, false) => Ok(()),
        (true, true) => ProcessEvents::open().map(drop).map_err(|error| error.to_string()),
    };
    let reason = if listed { format!("{LIST} lists cn_proc") } else { format!("{LIST} does not list cn_proc") };
    Interface { name: "process events", available: outcome.is_ok(), reason, advice: outcome.err().unwrap_or_default() }
}

fn top_app(root: &Root) -> Interface {
    let group = foreground::group(root);
    let reason = match &group {
        Some(group) => format!("{} holds the processes in front", group.display()),
        None => "/dev/cpuset/top-app does not exist (Android has it)".to_owned(),
    };
    Interface { name: "foreground group", available: group.is_some(), reason, advice: String::new() }
}

fn control_groups(root: &Root) -> Interface {
    let name = "control groups";
    let groups = Groups::of(root, &Choice::Auto);
    match &groups.refusal {
        None => Interface { name, available: true, reason: groups.describe(), advice: String::new() },
        Some(refusal) => {
            let advice =
                "placement uses masks and nice values; placement.groups names a sub-tree that is delegated to it";
            Interface { name, available: false, reason: refusal.clone(), advice: advice.to_owned() }
        }
    }
}

fn utilization_clamps(root: &Root) -> Interface {
    let (available, reason) = match uclamp::evidence(root) {
        Some(file) => (true, format!("{file} exists")),
        None => (false, "/proc/sys/kernel/sched_util_clamp_min does not exist (CONFIG_UCLAMP_TASK)".to_owned()),
    };
    Interface { name: "utilisation clamps", available, reason, advice: String::new() }
}

fn pressure(root: &Root) -> Interface {
    const FILE: &str = psi::MEMORY_FILE;
    const NO_PRESSURE: &str = "Linux has it since 4.20; boot with psi=1 where it is off by default";
    let (available, reason, advice) = match psi::memory(root) {
        Ok(_) => (true, format!("{FILE} can be read"), ""),
        Err(DeviceError::Malformed { .. }) => (false, format!("{FILE} is not as documented"), ""),
        Err(error) if error.is_missing() => (false, format!("{FILE} does not exist (CONFIG_PSI)"), NO_PRESSURE),
        Err(error) => (false, root.as_on_device(&error), error.advice()),
    };
    Interface { name: "pressure stall information", available, reason, advice: advice.to_owned() }
}

fn energy(root: &Root) -> Interface {
    let name = "energy";
    let all = Meter::all(root);
    if let Some(meter) = Meter::find(root) {
        let files: Vec<_> = meter.files().iter().map(|file| file.display().to_string()).collect();
        let reason = format!("{}: {}", meter.source().label(), files.join(", "));
        return Interface { name, available: true, reason, advice: String::new() };
    }
    let (reason, advice) = match all.first().map(|meter| meter.read(root)) {
        Some(Err(error)) => (root.as_on_device(&error), error.advice()),
        _ => ("neither powercap, nor a CPU's power rail, nor a battery".to_owned(), ""),
    };
    Interface { name, available: false, reason, advice: advice.to_owned() }
}

fn rights(root: &Root) -> Interface {
    const FILE: &str = "/proc/self/status";
    let name = "rights";
    let status = root.read(FILE).unwrap_or_default();
    let Some(held) = parse_effective_capabilities(&status) else {
        let reason = format!("{FILE} does not say which capabilities this process has");
        return Interface { name, available: false, reason, advice: String::new() };
    };
    let missing: Vec<&str> =
        CAPABILITIES.into_iter().filter(|(bit, _)| held >> bit & 1 == 0).map(|(_, name)| name).collect();
    if missing.is_empty() {
        let reason = "this process has every capability that the daemon uses".to_owned();
        return Interface { name, available: true, reason, advice: String::new() };
    }
    let reason = format!("this process lacks {}", missing.join(", "));
    Interface { name, available: false, reason, advice: "run doctor as root to see what the daemon sees".to_owned() }
}

/// The `CapEff:` mask of /proc/self/status (capabilities(7)).
pub fn parse_effective_capabilities(status: &str) -> Option<u64> {
    let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_capability_mask_is_hexadecimal() {
        for (status, mask) in [
            ("Name:\tsh\nCapEff:\t000001ffffffffff\n", Some(0x1ff_ffff_ffff)),
            ("CapEff:\t0000000000000000\n", Some(0)),
            ("CapEff:\tall\n", None),
            ("", None),
        ] {
            assert_eq!(parse_effective_capabilities(status), mask, "{status:?}");
        }
    }
}
