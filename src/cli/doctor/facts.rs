//! The facts of a device that decide what brisk can do on it, each with the file that it was read from.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

use brisk_experiment::runner;
use brisk_sys::cgroup::membership::{GroupChoice, Groups};
use brisk_sys::cpu::cpufreq::{self, FrequencyPolicy, Policies};
use brisk_sys::cpu::energy::Meter;
use brisk_sys::cpu::hotplug;
use brisk_sys::io::{disk_stats, io_priority};
use brisk_sys::kernel;
use brisk_sys::memory::psi;
use brisk_sys::memory::zram::{self, Backing};
use brisk_sys::process::process_events::ProcessEvents;
use brisk_sys::sched::uclamp;
use brisk_sys::system::foreground;
use brisk_sys::{DeviceError, Root};
use brisk_undo::journal::JournalState;

/// Capabilities of linux/capability.h that the daemon uses: those of brisk.service, and what the killer needs in addition.
const CAPABILITIES: [(u32, &str); 3] = [
    (12, "CAP_NET_ADMIN (process events)"),
    (23, "CAP_SYS_NICE (utilisation clamps)"),
    (24, "CAP_SYS_RESOURCE (the killer: a lower oom_score_adj, short PSI windows)"),
];

/// What the device is and has.
#[derive(Debug, Serialize)]
pub struct DeviceReport {
    /// The kernel's release, if known.
    pub kernel: Option<String>,
    /// CPUs online in the kernel's list format, if known.
    pub cpus_online: Option<String>,
    /// CPUs present.
    pub cpus_present: Option<String>,
    /// The cpufreq policies that govern an online CPU.
    pub policies: Vec<PolicyReport>,
    /// Policies whose CPUs are all offline.
    pub policies_offline: Vec<String>,
    /// An entry for each kernel interface.
    pub interfaces: Vec<Interface>,
    /// The daemon's journal.
    pub journal: JournalReport,
    /// The journal of `brisk prove --here`, unless it is empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub experiment_journal: Option<JournalReport>,
    /// Files that exist but could not be parsed.
    pub faults: Vec<String>,
}

/// A policy and the tunables of its governor.
#[derive(Debug, PartialEq, Serialize)]
pub struct PolicyReport {
    /// The policy.
    #[serde(flatten)]
    pub policy: FrequencyPolicy,
    /// The folder of the governor's tunables, by its path on the device.
    pub tunables_folder: Option<PathBuf>,
    /// Their values; `None` for a tunable that cannot be read (some are write-only).
    pub tunables: BTreeMap<String, Option<String>>,
}

/// A kernel interface that a mechanism may use.
#[derive(Debug, Serialize)]
pub struct Interface {
    /// Its usual name.
    pub name: &'static str,
    /// True when it can be used now.
    pub available: bool,
    /// The deciding fact, with its file.
    pub reason: String,
    /// What the user can do; may be empty.
    pub advice: String,
}

/// A journal's state, read without opening it for use.
#[derive(Debug, Serialize)]
pub struct JournalReport {
    /// Its folder, by its path on the device.
    pub folder: PathBuf,
    /// Its state, if it can be read.
    pub state: Option<JournalState>,
    /// Why it cannot be read.
    pub fault: Option<String>,
}

impl DeviceReport {
    /// Reads the facts of the device below `root`, where `groups` is the configured `placement.groups`.
    pub fn of(root: &Root, groups: &GroupChoice) -> Self {
        let mut faults = Vec::new();
        let policies = Policies::read(root);
        faults.extend(policies.faults.iter().map(|fault| root.with_device_paths(fault)));
        let mut cpus = |read: fn(&Root) -> Result<Vec<u32>, DeviceError>| match read(root) {
            Ok(cpus) => Some(hotplug::format_list(&cpus)),
            Err(fault) => {
                faults.push(root.with_device_paths(&fault));
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
            interfaces: [
                process_events(root),
                top_app(root),
                control_groups(root, groups),
                utilization_clamps(root),
                pressure(root),
                energy(root),
                rights(root),
            ]
            .into_iter()
            .chain(storage_priorities(root))
            .chain(locked_memory(root))
            .collect(),
            journal: JournalReport::of(root, &root.runtime_folder()),
            experiment_journal: Some(JournalReport::of(root, &runner::runtime_folder(root)))
                .filter(|report| report.state != Some(JournalState::Empty)),
            faults,
        }
    }
}

impl PolicyReport {
    fn of(root: &Root, policy: FrequencyPolicy) -> Self {
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
            Err(error) => (None, Some(root.with_device_paths(&error))),
        };
        Self { folder: root.with_device_paths(&real.display()).into(), state, fault }
    }
}

fn process_events(root: &Root) -> Interface {
    const LIST: &str = "/proc/net/connector";
    let listed = root.read(LIST).is_ok_and(|text| text.lines().any(|line| line.starts_with("cn_proc")));
    // On the running system, subscribing also shows whether rights or a container prevent it.
    let outcome = match (listed, root.is_system()) {
        (false, _) if foreground::group(root).is_some() => Err("the foreground group reports launches".to_owned()),
        (false, _) => Err("announce launches: brisk launch, or the control socket".to_owned()),
        (true, false) => Ok(()),
        (true, true) => ProcessEvents::open().map(drop).map_err(|error| error.to_string()),
    };
    let reason = if listed { format!("{LIST} lists cn_proc") } else { format!("{LIST} does not list cn_proc") };
    Interface { name: "process events", available: outcome.is_ok(), reason, advice: outcome.err().unwrap_or_default() }
}

fn top_app(root: &Root) -> Interface {
    let group = foreground::group(root);
    let reason = match &group {
        Some(group) => format!("{} holds the foreground processes", group.display()),
        None => "/dev/cpuset/top-app does not exist (Android has it)".to_owned(),
    };
    Interface { name: "foreground group", available: group.is_some(), reason, advice: String::new() }
}

/// The groups that placement may use: those of the sub-tree that `choice` names, otherwise what the device offers.
fn control_groups(root: &Root, choice: &GroupChoice) -> Interface {
    let name = "control groups";
    let choice = if *choice == GroupChoice::Off { &GroupChoice::Auto } else { choice };
    let groups = Groups::of(root, choice);
    if let Some(reason) = groups.unused_tree(choice) {
        let advice = "placement uses masks and nice values; set placement.groups to a delegated sub-tree or \"auto\"";
        return Interface { name, available: false, reason, advice: advice.to_owned() };
    }
    match &groups.unsupported_reason {
        None => Interface { name, available: true, reason: groups.describe(), advice: String::new() },
        Some(unsupported_reason) => {
            let advice =
                "placement uses masks and nice values; placement.groups names a sub-tree that is delegated to it";
            Interface { name, available: false, reason: unsupported_reason.clone(), advice: advice.to_owned() }
        }
    }
}

fn utilization_clamps(root: &Root) -> Interface {
    let (available, reason) = match uclamp::support_file(root) {
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
        Err(error) if error.is_malformed() => (false, format!("{FILE} is not as documented"), ""),
        Err(error) if error.is_missing() => (false, format!("{FILE} does not exist (CONFIG_PSI)"), NO_PRESSURE),
        Err(error) => (false, root.with_device_paths(&error), error.advice()),
    };
    Interface { name: "pressure stall information", available, reason, advice: advice.to_owned() }
}

/// Whether zram can write back, and to which device; `None` without zram. `wished` is the device that the configuration names.
pub fn writeback(root: &Root, wished: &str) -> Option<Interface> {
    let devices = zram::devices(root).ok()?;
    let first = devices.first()?;
    let file = format!("/sys/block/{}/backing_dev", first.name);
    let written_to = devices.iter().find_map(|zram| Some((zram, zram.backing.as_ref()?)));
    let (available, reason, advice) = match written_to {
        _ if !first.writeback => (false, format!("{file} does not exist (CONFIG_ZRAM_WRITEBACK)"), ""),
        Some((zram, backing)) => {
            let Backing { path, written_kib, .. } = backing;
            (true, format!("{} writes back to {path}, {written_kib} KiB so far", zram.name), "")
        }
        None if wished.is_empty() => (
            true,
            format!("{file} exists; no device is configured"),
            "memory.zram.backing_device names one, memory.killer.writeback.daily_kib limits what is written in a day",
        ),
        None => match zram::ensure_unused(root, wished) {
            Ok(()) => (true, format!("{file} exists; {wished}, which is configured, is free"), ""),
            Err(error) => {
                (false, root.with_device_paths(&error), "see memory.zram.backing_device in the configuration")
            }
        },
    };
    Some(Interface { name: "writeback of zram", available, reason, advice: advice.to_owned() })
}

/// Whether a disk's scheduler honours I/O priorities; `None` without a disk.
fn storage_priorities(root: &Root) -> Option<Interface> {
    let disks = root.list("/sys/block").ok()?;
    disks.iter().find(|name| disk_stats::is_whole_disk(root, name))?;
    let (available, reason, advice) = match io_priority::lowest(root) {
        Some(lowest) => (true, format!("a disk's scheduler honours them; background processes get `{lowest}`"), ""),
        None => (
            false,
            "no disk has bfq, or mq-deadline of Linux 5.16, in /sys/block/*/queue/scheduler".to_owned(),
            "placement.storage has no effect; write bfq to that file to select it",
        ),
    };
    Some(Interface { name: "storage priorities", available, reason, advice: advice.to_owned() })
}

/// The limit of locked memory, where it is too low for the killer; `None` where it suffices or is not known.
fn locked_memory(root: &Root) -> Option<Interface> {
    const FILE: &str = "/proc/self/limits";
    const ENOUGH_KIB: u64 = 256 << 10;
    const CAP_IPC_LOCK: u32 = 14;
    let held = parse_effective_capabilities(&root.read("/proc/self/status").ok()?)?;
    let limit_kib = parse_lock_limit(&root.read(FILE).ok()?)?;
    if held >> CAP_IPC_LOCK & 1 == 1 || limit_kib >= ENOUGH_KIB {
        return None;
    }
    let reason = format!("{FILE}: this process may lock {limit_kib} KiB; the killer's own pages may be reclaimed");
    let advice = "give the daemon 256 MiB (LimitMEMLOCK=256M, packaging/systemd/memory.conf), or CAP_IPC_LOCK";
    Some(Interface { name: "locked memory", available: false, reason, advice: advice.to_owned() })
}

/// The soft limit of locked memory in /proc/PID/limits (proc(5)), in KiB; `None` without a limit.
pub fn parse_lock_limit(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"))?;
    Some(line.split_ascii_whitespace().next()?.parse::<u64>().ok()? >> 10)
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
        Some(Err(error)) => (root.with_device_paths(&error), error.advice()),
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
    Interface { name, available: false, reason, advice: advice_on_rights(&status).to_owned() }
}

/// How the missing capabilities can be had, by the effective user in /proc/self/status.
fn advice_on_rights(status: &str) -> &'static str {
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or_default();
    match ids.split_whitespace().nth(1) {
        Some("0") => "add them to the bounding set of the container or unit in which this runs",
        _ => "run doctor as root to see what the daemon sees",
    }
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
    fn root_is_not_told_to_become_root() {
        for (uids, advice) in [("1000\t1000\t1000\t1000", "as root"), ("1000\t0\t0\t0", "bounding set")] {
            let found = advice_on_rights(&format!("Name:\tbrisk\nUid:\t{uids}\nCapEff:\t0\n"));
            assert!(found.contains(advice), "{uids}: {found}");
        }
    }

    // Verifies MEMORY-5.
    #[test]
    fn the_limit_of_locked_memory_is_parsed_as_bytes() {
        let limits = |limit: &str| format!("Max processes 9 9 processes\nMax locked memory         {limit} bytes\n");
        for (limits, kib) in [
            (limits("8388608              8388608"), Some(8192)),
            (limits("65536                unlimited"), Some(64)),
            (limits("unlimited            unlimited"), None),
            (String::new(), None),
        ] {
            assert_eq!(parse_lock_limit(&limits), kib, "{limits:?}");
        }
    }

    // Verifies MEMORY-5.
    #[test]
    fn writeback_is_reported_with_its_device() {
        let device = |files: &[(&str, &str)], wished: &str| {
            let folder = tempfile::tempdir().unwrap();
            for (file, text) in [("disksize", "0\n")].iter().chain(files) {
                let path = folder.path().join("sys/block/zram0").join(file);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            writeback(&Root::at(folder.path()), wished).map(|it| (it.available, it.reason)).unwrap()
        };
        let none = [("backing_dev", "none\n")];
        let set = [("backing_dev", "/dev/mmcblk0p9\n"), ("bd_stat", "1 2 3\n")];
        for (files, wished, available, said) in [
            (&[][..], "", false, "CONFIG_ZRAM_WRITEBACK"),
            (&none, "", true, "no device is configured"),
            (&none, "/dev/none", false, "cannot open /dev/none"),
            (&none, "/sys/block/zram0/disksize", false, "it is no block device"),
            (&set, "/dev/mmcblk0p9", true, "zram0 writes back to /dev/mmcblk0p9, 12 KiB so far"),
        ] {
            let (is_available, reason) = device(files, wished);
            assert!(is_available == available && reason.contains(said), "{said}: {reason}");
        }
        assert!(writeback(&Root::at("/nowhere"), "").is_none());
    }

    #[test]
    fn doctor_asks_only_for_capabilities_of_the_packaged_units() {
        let given = |unit: &str| -> Vec<String> {
            let lines = unit.lines().filter_map(|line| line.strip_prefix("AmbientCapabilities="));
            lines.flat_map(str::split_ascii_whitespace).map(str::to_owned).collect()
        };
        let service = given(include_str!("../../../packaging/systemd/brisk.service"));
        let memory = given(include_str!("../../../packaging/systemd/memory.conf"));
        let asked: Vec<&str> = CAPABILITIES.iter().filter_map(|(_, name)| name.split(' ').next()).collect();
        assert!(service.iter().all(|capability| asked.contains(&capability.as_str())), "{service:?}");
        assert!(
            asked.iter().all(|name| service.iter().chain(&memory).any(|capability| capability == name)),
            "{asked:?}"
        );
        // It would let the daemon write every file; the packaged service gets single tunables instead.
        assert!(!asked.contains(&"CAP_DAC_OVERRIDE"));
    }

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
