//! Holders: each of brisk's journals has its own folder, and a list of the targets that it may hold.
//!
//! Root restores what the journals say, and the service's user could forge its own journal. So a target that is not on the
//! list is neither leased nor restored, by any process that replays the journal. Each list has only what its holder writes.

use std::path::{Component, Path, PathBuf};

use super::Lease;
use brisk_sys::binder::cache;
use brisk_sys::bpf::egress;
use brisk_sys::cgroup::hierarchy::{self, Mount};
use brisk_sys::cgroup::{group, memory};
use brisk_sys::cpu::hotplug::CPU_FOLDER;
use brisk_sys::memory::{vm_tunables, zram, zram_writeback};
use brisk_sys::sched::autogroup;
use brisk_sys::{Root, Target};

/// The part of brisk that keeps a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    /// The daemon. Its folder belongs to the user of the service.
    Daemon,
    /// `brisk boot hold`.
    Boot,
    /// `brisk memory apply`.
    Memory,
    /// The runner of `brisk prove --here`.
    Experiment,
}

impl Holder {
    /// All holders, in the order in which their journals are restored: in an experiment, the daemon leases on top of what
    /// the arm has set.
    pub const ALL: [Self; 4] = [Self::Daemon, Self::Boot, Self::Memory, Self::Experiment];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Daemon => "daemon",
            Self::Boot => "boot",
            Self::Memory => "memory",
            Self::Experiment => "experiment",
        }
    }

    /// The holder of this name.
    ///
    /// # Errors
    /// The list of names, when `name` is not one of them.
    pub fn of_name(name: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|holder| holder.name() == name);
        known.ok_or_else(|| format!("expected one of {}", Self::ALL.map(Self::name).join(", ")))
    }

    /// The folder of its journal, on a tmpfs: the real path, not the path as named on the device.
    pub fn folder(self, root: &Root) -> PathBuf {
        let daemon_folder = root.runtime_folder();
        match self {
            Self::Daemon => daemon_folder,
            _ => daemon_folder.with_file_name(format!("brisk-{}", self.name())),
        }
    }

    /// True when it may hold `target`. `mounts` are the cgroup hierarchies.
    pub(super) fn may_hold(self, target: &Target, mounts: &[Mount]) -> bool {
        let is_group = |folder: &Path| {
            let is_below = |mount: &Mount| folder != mount.folder && folder.starts_with(&mount.folder);
            is_plain(folder) && mounts.iter().any(is_below)
        };
        match target {
            Target::Tunable(file) => match self {
                Self::Daemon => {
                    is_cpufreq(file)
                        || is_of_memory(file)
                        || cache::is_control_file(file)
                        || (file.ends_with(memory::HIGH) && file.parent().is_some_and(is_group))
                }
                Self::Boot => false,
                Self::Memory => is_of_memory(file),
                Self::Experiment => is_cpufreq(file),
            },
            Target::Governor(folder) => self == Self::Boot && is_cpufreq(&folder.join("scaling_governor")),
            Target::ZramAlgorithm(name)
            | Target::ZramBacking(name)
            | Target::ZramSize(name)
            | Target::ZramSwap(name) => matches!(self, Self::Daemon | Self::Memory) && zram::is_name(name),
            Target::Group(folder) => self == Self::Daemon && group::is_brisk_group(folder) && is_group(folder),
            Target::GroupWeight(folder) | Target::EgressPriority(folder) => self == Self::Daemon && is_group(folder),
            Target::Autogroup(_) => self == Self::Daemon,
            Target::LookupProfile(context) => self == Self::Daemon && cache::is_context(context),
            Target::UtilizationClampMinimum { .. }
            | Target::CpuAffinity { .. }
            | Target::Priority { .. }
            | Target::IoPriority { .. }
            | Target::GroupMember { .. } => self == Self::Daemon,
        }
    }
}

/// True when the target of `lease` can have had its recorded original: restoring a journal must not create a swap area, use a
/// disk for write-back, or set files of a group.
pub(super) fn has_possible_original(lease: &Lease) -> bool {
    let original = lease.original.as_str();
    match &lease.target {
        Target::ZramBacking(_) => original == "none",
        Target::ZramSize(_) => original == "0",
        Target::ZramSwap(_) => original == "off",
        Target::Group(_) => original.starts_with(group::ABSENT),
        Target::GroupMember { .. } => hierarchy::is_plain(original),
        Target::Autogroup(_) => autogroup::parse_nice(original).is_some(),
        Target::EgressPriority(_) => original == egress::NONE,
        _ => true,
    }
}

/// True for an absolute path without `.` or `..`.
fn is_plain(path: &Path) -> bool {
    let mut parts = path.components();
    parts.next() == Some(Component::RootDir) && parts.all(|part| matches!(part, Component::Normal(_)))
}

/// True for a file of a cpufreq policy or governor: `cpufreq/policy0/scaling_min_freq`, `cpufreq/ondemand/sampling_rate`,
/// `cpufreq/policy0/schedutil/rate_limit_us`, and before Linux 4.2 `cpu0/cpufreq/...`.
fn is_cpufreq(file: &Path) -> bool {
    let Ok(rest) = file.strip_prefix(CPU_FOLDER) else { return false };
    let parts: Vec<_> = rest.iter().collect();
    is_plain(file) && matches!(parts.len(), 3 | 4) && (parts[0] == "cpufreq" || parts[1] == "cpufreq")
}

/// True for a file that `[memory.zram]` or the write-back budget sets.
fn is_of_memory(file: &Path) -> bool {
    let is_limit_switch = || {
        let name = file.parent().and_then(Path::file_name).and_then(|name| name.to_str());
        name.is_some_and(|name| zram::is_name(name) && file == Path::new(&zram_writeback::limit_switch(name)))
    };
    vm_tunables::ALL.iter().any(|known| file == Path::new(known)) || is_limit_switch()
}

#[cfg(test)]
mod tests {
    use super::*;
    use brisk_sys::BootTime;

    fn mounts() -> Vec<Mount> {
        hierarchy::parse_mounts("none /sys/fs/cgroup cgroup2 rw 0 0\nnone /dev/cpuset cgroup rw,cpuset 0 0\n")
    }

    /// The first letters of the holders that may hold `target`.
    fn holders(target: &Target) -> String {
        let may = Holder::ALL.into_iter().filter(|holder| holder.may_hold(target, &mounts()));
        may.map(|holder| &holder.name()[..1]).collect()
    }

    // Verifies SECURITY-1, LOOKUP-6.
    #[test]
    fn each_holder_may_hold_what_it_writes_and_nothing_else() {
        for (file, expected) in [
            ("/sys/devices/system/cpu/cpufreq/ondemand/sampling_rate", "de"),
            ("/sys/devices/system/cpu/cpufreq/policy0/schedutil/rate_limit_us", "de"),
            ("/sys/devices/system/cpu/cpufreq/policy0/scaling_min_freq", "de"),
            ("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "de"),
            ("/proc/sys/vm/swappiness", "dm"),
            ("/sys/kernel/mm/lru_gen/enabled", "dm"),
            ("/sys/block/zram0/writeback_limit_enable", "dm"),
            ("/sys/kernel/binder_cache/binder/mode", "d"),
            ("/sys/kernel/binder_cache/vndbinder.3/policy", "d"),
            ("/sys/kernel/binder_cache/binder/capacity", "d"),
            ("/sys/kernel/binder_cache/binder/flush", ""),
            ("/sys/kernel/binder_cache/binder/profile", ""),
            ("/sys/kernel/binder_cache/binder/uid_limit_bytes", ""),
            ("/sys/kernel/binder_cache/mode", ""),
            ("/sys/kernel/binder_cache/../mode", ""),
            ("/sys/kernel/binder_cache/../uevent_helper/mode", ""),
            ("/sys/kernel/binder_cache/binder/../../../module/binder_linux/parameters/mode", ""),
            ("/sys/kernel/binder_cache/binder/sub/mode", ""),
            ("/sys/fs/cgroup/user.slice/memory.high", "d"),
            ("/sys/fs/cgroup/memory.high", ""),
            ("/sys/fs/cgroup/../kernel/memory.high", ""),
            ("/sys/fs/cgroup/user.slice/cgroup.procs", ""),
            ("/sys/kernel/uevent_helper", ""),
            ("/proc/sys/kernel/core_pattern", ""),
            ("/proc/sys/vm/overcommit_memory", ""),
            ("/proc/sysrq-trigger", ""),
            ("/proc/1/oom_score_adj", ""),
            ("/proc/1/root/etc/passwd", ""),
            ("/proc/self/cwd/memory.high", ""),
            ("/sys/devices/system/cpu/cpufreq/../../../../kernel/uevent_helper", ""),
            ("/sys/devices/system/cpu/cpufreq/policy0/../../online", ""),
            ("/sys/devices/system/cpu/cpu1/online", ""),
            ("/sys/devices/system/cpu/cpufreq/boost", ""),
            ("/sys/devices/system/cpu/cpufreq/policy0/a/b/c", ""),
            ("/sys/block/../zram0/writeback_limit_enable", ""),
            ("/sys/block/sda/writeback_limit_enable", ""),
            ("/dev/mem", ""),
            ("sys/devices/system/cpu/cpufreq/ondemand/sampling_rate", ""),
            ("", ""),
        ] {
            assert_eq!(holders(&Target::Tunable(file.into())), expected, "{file}");
        }
        let (tid, start_time_ticks) = (1, 2);
        for (target, expected) in [
            (Target::Governor("/sys/devices/system/cpu/cpufreq/policy0".into()), "b"),
            (Target::Governor("/sys/devices/system/cpu/cpu0/cpufreq".into()), "b"),
            (Target::Governor("/proc/1/root/tmp".into()), ""),
            (Target::ZramSwap("zram0".into()), "dm"),
            (Target::ZramSize("../sda".into()), ""),
            (Target::Group("/dev/cpuset/brisk-threads".into()), "d"),
            (Target::Group("/dev/cpuset/others".into()), ""),
            (Target::Group("/tmp/brisk-threads".into()), ""),
            (Target::Group("/dev/cpuset/../../tmp/brisk-threads".into()), ""),
            (Target::LookupProfile("binder".into()), "d"),
            (Target::LookupProfile("../../module".into()), ""),
            (Target::LookupProfile("..".into()), ""),
            (Target::LookupProfile(String::new()), ""),
            (Target::GroupWeight("/sys/fs/cgroup/kiosk".into()), "d"),
            (Target::GroupWeight("/sys/fs/cgroup".into()), ""),
            (Target::GroupWeight("/proc/1/root/tmp".into()), ""),
            (Target::EgressPriority("/sys/fs/cgroup/backup".into()), "d"),
            (Target::EgressPriority("/sys/fs/cgroup".into()), ""),
            (Target::EgressPriority("/proc/1/root/tmp".into()), ""),
            (Target::Autogroup(12), "d"),
            (Target::CpuAffinity { tid, start_time_ticks }, "d"),
            (Target::Priority { tid, start_time_ticks }, "d"),
        ] {
            assert_eq!(holders(&target), expected, "{target}");
        }
    }

    // Verifies SECURITY-1.
    #[test]
    fn an_original_that_the_target_cannot_have_had_is_refused() {
        let member = Target::GroupMember { hierarchy: hierarchy::Hierarchy::Cpuset, tid: 1, start_time_ticks: 2 };
        for (target, original, expected) in [
            (Target::ZramSwap("zram0".into()), "off", true),
            (Target::ZramSwap("zram0".into()), "on 5", false),
            (Target::ZramBacking("zram0".into()), "none", true),
            (Target::ZramBacking("zram0".into()), "/dev/sda1", false),
            (Target::ZramSize("zram0".into()), "0", true),
            (Target::ZramSize("zram0".into()), "4096", false),
            (Target::Group("/dev/cpuset/brisk-threads".into()), "absent +cpu", true),
            (Target::Group("/dev/cpuset/brisk-threads".into()), "../../kernel/uevent_helper=/tmp/x", false),
            (Target::Autogroup(12), "-20", true),
            (Target::Autogroup(12), "20", false),
            (Target::Autogroup(12), "", false),
            (Target::EgressPriority("/sys/fs/cgroup/backup".into()), "none", true),
            (Target::EgressPriority("/sys/fs/cgroup/backup".into()), "257", false),
            (member.clone(), "/apps", true),
            (member, "/../../tmp", false),
        ] {
            let lease = Lease {
                target,
                original: original.into(),
                value: String::new(),
                observed: None,
                since: BootTime::default(),
                until: BootTime::default(),
                reason: String::new(),
            };
            assert_eq!(has_possible_original(&lease), expected, "{}: {original}", lease.target);
        }
    }

    #[test]
    fn a_holder_is_found_by_its_name_and_has_its_own_folder() {
        let root = Root::at("/tree");
        for (holder, folder) in Holder::ALL.into_iter().zip(["brisk", "brisk-boot", "brisk-memory", "brisk-experiment"])
        {
            assert_eq!(Holder::of_name(holder.name()), Ok(holder));
            assert_eq!(holder.folder(&root), Path::new("/tree/run").join(folder));
        }
        assert_eq!(Holder::of_name("root").unwrap_err(), "expected one of daemon, boot, memory, experiment");
    }
}
