//! Other programs that manage what brisk could: services that set governors, priorities and zram, or kill.
//!
//! A systemd service is recognised by its control group (systemd.unit(5): `system.slice/NAME.service`), whatever its process is
//! called; any other program by a process of its name that belongs to the system, since any user may give a process any name. A
//! program that leaves no process behind is recognised by its files.

use std::fmt;
use std::path::Path;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::memory::zram_owner;
use crate::{Root, process};

/// A program that does a job which brisk could do as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtherManager {
    /// tuned: profiles of governors, their tunables and sysctls.
    Tuned,
    /// power-profiles-daemon: the power profile that a desktop's user chooses.
    PowerProfilesDaemon,
    /// TLP: governors by source of power.
    Tlp,
    /// auto-cpufreq: governors by load and source of power.
    AutoCpufreq,
    /// GameMode: a governor for as long as a game runs.
    GameMode,
    /// ananicy or ananicy-cpp: nice values and classes by name.
    Ananicy,
    /// earlyoom: kills when little memory is left.
    Earlyoom,
    /// systemd-oomd: kills control groups by memory pressure.
    SystemdOomd,
    /// nohang: kills by memory pressure.
    Nohang,
    /// zram-generator of systemd.
    ZramGenerator,
    /// zramswap of Debian's zram-tools.
    Zramswap,
    /// Android's low memory killer daemon.
    Lmkd,
    /// Android's memory management daemon, which sets up zram.
    Mmd,
    /// Android's power HAL, which boosts the CPU at launches.
    PowerHal,
}

impl OtherManager {
    const ALL: [Self; 14] = [
        Self::Tuned,
        Self::PowerProfilesDaemon,
        Self::Tlp,
        Self::AutoCpufreq,
        Self::GameMode,
        Self::Ananicy,
        Self::Earlyoom,
        Self::SystemdOomd,
        Self::Nohang,
        Self::ZramGenerator,
        Self::Zramswap,
        Self::Lmkd,
        Self::Mmd,
        Self::PowerHal,
    ];
}

impl fmt::Display for OtherManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tuned => "tuned",
            Self::PowerProfilesDaemon => "power-profiles-daemon",
            Self::Tlp => "TLP",
            Self::AutoCpufreq => "auto-cpufreq",
            Self::GameMode => "GameMode",
            Self::Ananicy => "ananicy",
            Self::Earlyoom => "earlyoom",
            Self::SystemdOomd => "systemd-oomd",
            Self::Nohang => "nohang",
            Self::ZramGenerator => "zram-generator",
            Self::Zramswap => "zramswap",
            Self::Lmkd => "lmkd",
            Self::Mmd => "mmd",
            Self::PowerHal => "Android's power HAL",
        })
    }
}

impl Serialize for OtherManager {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for OtherManager {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let manager = Self::ALL.into_iter().find(|manager| manager.to_string() == name);
        manager.ok_or_else(|| D::Error::custom(format!("{name:?} is no manager that brisk knows")))
    }
}

/// A manager that was found, and the evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundManager {
    /// The manager.
    pub name: OtherManager,
    /// The control group, process or file, as named on the device.
    pub evidence: String,
}

/// How a manager is recognised: the names of its units without `.service`, and of its processes as in `comm`.
struct Signature {
    manager: OtherManager,
    units: &'static [&'static str],
    processes: &'static [&'static str],
}

const fn signature(
    manager: OtherManager,
    units: &'static [&'static str],
    processes: &'static [&'static str],
) -> Signature {
    Signature { manager, units, processes }
}

/// The kernel truncates names of processes to 15 bytes.
const SIGNATURES: [Signature; 10] = [
    signature(OtherManager::Tuned, &["tuned"], &["tuned"]),
    signature(OtherManager::PowerProfilesDaemon, &["power-profiles-daemon"], &["power-profiles-"]),
    signature(OtherManager::AutoCpufreq, &["auto-cpufreq"], &["auto-cpufreq"]),
    signature(OtherManager::GameMode, &[], &["gamemoded"]),
    signature(OtherManager::Ananicy, &["ananicy-cpp", "ananicy"], &["ananicy-cpp", "ananicy"]),
    signature(OtherManager::Earlyoom, &["earlyoom"], &["earlyoom"]),
    signature(OtherManager::SystemdOomd, &["systemd-oomd"], &["systemd-oomd"]),
    signature(OtherManager::Nohang, &["nohang", "nohang-desktop"], &["nohang"]),
    signature(OtherManager::Lmkd, &[], &["lmkd"]),
    signature(OtherManager::Mmd, &[], &["mmd"]),
];

/// Where systemd keeps the groups of services: the unified hierarchy, and its own ones beside version 1.
const SLICES: [&str; 3] =
    ["/sys/fs/cgroup/system.slice", "/sys/fs/cgroup/unified/system.slice", "/sys/fs/cgroup/systemd/system.slice"];
/// TLP leaves no process behind; it keeps its state here while it is in force.
const TLP_STATE: &str = "/run/tlp";
/// The program that enforces it.
const TLP: &str = "tlp";
/// Prefixes of the programs of Android's power HALs: its interface since Android 11 and before, MediaTek's, and Qualcomm's.
/// `android.hardware.power.stats` measures energy and is none.
const POWER_HALS: [&str; 4] = [
    "android.hardware.power-service",
    "android.hardware.power@",
    "vendor.mediatek.hardware.mtkpower",
    "vendor.qti.hardware.perf",
];
/// How the `comm` of all of them begins.
const POWER_HAL_NAMES: [&str; 2] = ["android.hardwar", "vendor."];
/// System users have lower numbers than these.
const FIRST_REGULAR_UID: u32 = 1000;
const FIRST_APPLICATION_UID: u32 = 10_000;
/// The users that `DynamicUser=` of systemd chooses from.
const DYNAMIC_USERS: std::ops::RangeInclusive<u32> = 61_184..=65_519;

/// All known managers that are present, each once. An unreadable file is no evidence.
pub fn find(root: &Root) -> Vec<FoundManager> {
    let mut found: Vec<FoundManager> = SIGNATURES
        .iter()
        .filter_map(|signature| {
            let evidence = signature.units.iter().find_map(|unit| running_unit(root, unit))?;
            Some(FoundManager { name: signature.manager, evidence })
        })
        .collect();
    if root.exists(TLP_STATE) {
        found.push(FoundManager { name: OtherManager::Tlp, evidence: format!("{TLP_STATE} exists") });
    }
    found.extend(zram_owner::owners(root).iter().filter_map(|owner| {
        let name = match owner.name {
            "zram-generator" => OtherManager::ZramGenerator,
            "zramswap" => OtherManager::Zramswap,
            _ => return None,
        };
        Some(FoundManager { name, evidence: owner.files.join(", ") })
    }));
    for (name, pid) in processes(root) {
        if !found.iter().any(|other| other.name == name) {
            found.push(FoundManager { name, evidence: format!("process {pid}") });
        }
    }
    found
}

/// True where a process called `command` (`comm`) may be a manager, or may have started one.
pub fn may_be_manager(command: &str) -> bool {
    command == TLP
        || SIGNATURES.iter().any(|signature| signature.processes.contains(&command))
        || POWER_HAL_NAMES.iter().any(|name| command.starts_with(name))
}

/// The control group of `unit`, where it or a group below it has a process.
fn running_unit(root: &Root, unit: &str) -> Option<String> {
    SLICES.iter().map(|slice| format!("{slice}/{unit}.service")).find(|group| {
        let is_populated = |text: String| text.lines().any(|line| line == "populated 1");
        root.read(format!("{group}/cgroup.events")).is_ok_and(is_populated)
            || root.read(format!("{group}/cgroup.procs")).is_ok_and(|pids| !pids.is_empty())
    })
}

/// Processes of the system with a name in [`SIGNATURES`], ordered by number.
fn processes(root: &Root) -> Vec<(OtherManager, u32)> {
    let entries = root.list("/proc").unwrap_or_default();
    let mut pids: Vec<u32> = entries.iter().filter_map(|name| name.parse().ok()).collect();
    pids.sort_unstable();
    pids.into_iter().filter_map(|pid| Some((manager_of(root, pid)?, pid))).collect()
}

fn manager_of(root: &Root, pid: u32) -> Option<OtherManager> {
    let command = process::command(root, pid).ok()?;
    let known = SIGNATURES
        .iter()
        .find(|signature| signature.processes.contains(&command.as_str()))
        .map(|signature| signature.manager);
    let manager = match known {
        // It runs as the player's user.
        Some(OtherManager::GameMode) => return Some(OtherManager::GameMode),
        Some(manager) => manager,
        None if is_power_hal(root, pid, &command) => OtherManager::PowerHal,
        None => return None,
    };
    let status = root.read(format!("/proc/{pid}/status")).ok()?;
    let uid = process::parse_real_uid(&status)?;
    let first_regular_uid = if root.is_android() { FIRST_APPLICATION_UID } else { FIRST_REGULAR_UID };
    (uid < first_regular_uid || (!root.is_android() && DYNAMIC_USERS.contains(&uid))).then_some(manager)
}

/// `comm` is too short to distinguish them from other HALs.
fn is_power_hal(root: &Root, pid: u32, command: &str) -> bool {
    if !POWER_HAL_NAMES.iter().any(|name| command.starts_with(name)) {
        return false;
    }
    let words = root.read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let program = words.split('\0').next().unwrap_or_default();
    let name = Path::new(program).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    POWER_HALS.iter().any(|hal| name.starts_with(hal))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_trees::root_of;

    fn found(files: &[(&str, &str)]) -> Vec<(OtherManager, String)> {
        let (_folder, root) = root_of(files);
        find(&root).into_iter().map(|found| (found.name, found.evidence)).collect()
    }

    // Verifies ON-2.
    #[test]
    fn a_service_is_seen_while_its_control_group_has_a_process() {
        for (unit, manager) in [
            ("tuned", OtherManager::Tuned),
            ("power-profiles-daemon", OtherManager::PowerProfilesDaemon),
            ("auto-cpufreq", OtherManager::AutoCpufreq),
            ("ananicy", OtherManager::Ananicy),
            ("ananicy-cpp", OtherManager::Ananicy),
            ("earlyoom", OtherManager::Earlyoom),
            ("systemd-oomd", OtherManager::SystemdOomd),
            ("nohang", OtherManager::Nohang),
            ("nohang-desktop", OtherManager::Nohang),
        ] {
            for slice in SLICES {
                let group = format!("{slice}/{unit}.service");
                let file = |name: &str| format!("{}/{name}", &group[1..]);
                for (name, text) in [("cgroup.procs", "412\n"), ("cgroup.events", "populated 1\nfrozen 0\n")] {
                    assert_eq!(found(&[(&file(name), text)]), [(manager, group.clone())], "{name}");
                }
                assert!(found(&[(&file("cgroup.procs"), ""), (&file("cgroup.events"), "populated 0\n")]).is_empty());
            }
        }
    }

    // Verifies ON-2.
    #[test]
    fn only_system_processes_count_as_managers_by_their_name() {
        for signature in &SIGNATURES {
            for name in signature.processes {
                for (uid, is_system) in [(0, true), (999, true), (61_200, true), (1000, false), (65_534, false)] {
                    let status = format!("Name:\t{name}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n");
                    let is_found = found(&[("proc/7/comm", name), ("proc/7/status", &status)]);
                    let expected = is_system || signature.manager == OtherManager::GameMode;
                    assert_eq!(is_found.len(), usize::from(expected), "{name} of user {uid}: {is_found:?}");
                    assert!(is_found.iter().all(|found| *found == (signature.manager, "process 7".to_owned())));
                }
            }
        }
    }

    // Verifies ON-2.
    #[test]
    fn managers_without_a_process_are_found_by_files() {
        assert_eq!(found(&[("run/tlp/last_pwr", "0\n")]), [(OtherManager::Tlp, "/run/tlp exists".to_owned())]);
        assert_eq!(
            found(&[("etc/systemd/zram-generator.conf", "[zram0]\n")]),
            [(OtherManager::ZramGenerator, "/etc/systemd/zram-generator.conf".to_owned())]
        );
        let zramswap = found(&[("etc/default/zramswap", "PERCENT=50\n")]);
        assert_eq!(zramswap, [(OtherManager::Zramswap, "/etc/default/zramswap".to_owned())]);
        assert!(found(&[]).is_empty());
    }

    // Verifies ON-2.
    #[test]
    fn androids_daemons_are_found_and_energy_counters_are_no_hal() {
        let phone = |name: &str, program: &str, uid: u32| {
            let status = format!("Uid:\t{uid}\t{uid}\t{uid}\t{uid}\n");
            found(&[
                ("system/build.prop", ""),
                ("proc/612/comm", name),
                ("proc/612/cmdline", &format!("{program}\0--x\0")),
                ("proc/612/status", &status),
            ])
        };
        for (name, program, uid, expected) in [
            ("lmkd", "/system/bin/lmkd", 1069, Some(OtherManager::Lmkd)),
            ("mmd", "/system/bin/mmd", 1095, Some(OtherManager::Mmd)),
            ("lmkd", "/data/local/lmkd", 10_057, None),
            ("android.hardwar", "/vendor/bin/hw/android.hardware.power-service.pixel", 0, Some(OtherManager::PowerHal)),
            (
                "android.hardwar",
                "/vendor/bin/hw/android.hardware.power@1.3-service",
                1000,
                Some(OtherManager::PowerHal),
            ),
            ("vendor.qti.hard", "/vendor/bin/hw/vendor.qti.hardware.perf2-service", 1000, Some(OtherManager::PowerHal)),
            ("android.hardwar", "/vendor/bin/hw/android.hardware.power.stats-service", 1000, None),
            ("android.hardwar", "/vendor/bin/hw/android.hardware.light-service", 1000, None),
        ] {
            let found: Vec<OtherManager> = phone(name, program, uid).into_iter().map(|found| found.0).collect();
            assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{program}");
        }
    }

    // Verifies ON-2.
    #[test]
    fn process_names_show_which_may_be_a_manager() {
        for signature in &SIGNATURES {
            assert!(signature.processes.iter().all(|name| may_be_manager(name)), "{}", signature.manager);
        }
        for (command, expected) in
            [("tlp", true), ("android.hardwar", true), ("vendor.qti.hard", true), ("tlp-stat", false), ("sh", false)]
        {
            assert_eq!(may_be_manager(command), expected, "{command}");
        }
    }

    // Verifies ON-2.
    #[test]
    fn found_managers_survive_a_round_trip_as_json() {
        let all = OtherManager::ALL.map(|name| FoundManager { name, evidence: "x".to_owned() });
        let text = serde_json::to_string(&all).unwrap();
        assert_eq!(serde_json::from_str::<Vec<FoundManager>>(&text).unwrap(), all);
        assert!(serde_json::from_str::<OtherManager>("\"untuned\"").is_err());
    }

    #[test]
    fn a_manager_with_two_signs_is_reported_once() {
        let files = [
            ("sys/fs/cgroup/system.slice/tuned.service/cgroup.procs", "7\n"),
            ("proc/7/comm", "tuned\n"),
            ("proc/7/status", "Uid:\t0\t0\t0\t0\n"),
        ];
        assert_eq!(found(&files), [(OtherManager::Tuned, "/sys/fs/cgroup/system.slice/tuned.service".to_owned())]);
    }
}
