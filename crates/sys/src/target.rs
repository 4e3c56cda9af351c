//! What a lease can hold: a setting that can be read, written and restored.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::cgroup::hierarchy::Hierarchy;

/// A setting that can be read, written and restored.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// A kernel tunable: a file of /proc or /sys, named as on the device.
    Tunable(PathBuf),
    /// A cpufreq policy's governor with the tunables that are lost when the governor is switched, by the policy's folder.
    Governor(PathBuf),
    /// A process's lower utilisation clamp (sched_setattr(2), 0 to 1024), bound to one life of the process.
    UtilizationClampMinimum {
        /// The process.
        pid: u32,
        /// Field 22 of /proc/PID/stat in clock ticks: together with the pid it identifies one process for ever.
        start_time_ticks: u64,
    },
    /// The CPUs that a thread may run on (sched_setaffinity(2), `0-3,5`), bound to one life of the thread.
    CpuAffinity {
        /// The thread.
        tid: u32,
        /// As above.
        start_time_ticks: u64,
    },
    /// A thread's scheduling policy and nice value (sched_setattr(2), `other 10`), bound to one life of the thread.
    Priority {
        /// The thread.
        tid: u32,
        /// As above.
        start_time_ticks: u64,
    },
    /// A thread's I/O priority (ioprio_set(2), `best-effort 7`), bound to one life of the thread.
    IoPriority {
        /// The thread.
        tid: u32,
        /// As above.
        start_time_ticks: u64,
    },
    /// The compression algorithm of a zram device that has no size yet: `zram0`.
    ZramAlgorithm(String),
    /// The block device that a zram device without a size writes back to, or `none`.
    ZramBacking(String),
    /// The size of a zram device in bytes; zero resets it.
    ZramSize(String),
    /// A zram device as swap: `off`, or `on PRIORITY`.
    ZramSwap(String),
    /// A control group that brisk makes, by its folder: `absent`, or `made`; it is made with settings (`cpu.weight=10`).
    Group(PathBuf),
    /// A thread's group in a hierarchy (`/others`), bound to one life of the thread.
    GroupMember {
        hierarchy: Hierarchy,
        /// The thread.
        tid: u32,
        /// As above.
        start_time_ticks: u64,
    },
    /// The weight of a control group of version 2 among its siblings, by its folder: `100`, or `idle`.
    GroupWeight(PathBuf),
    /// The priority of the packets that a control group of version 2 sends, by its folder: `none`, or a number. It ends with the
    /// process that holds it.
    EgressPriority(PathBuf),
    /// The nice value of a session against other sessions, by the number of its autogroup.
    Autogroup(u64),
    /// The profile of a context manager in the binder driver's cache of a context (`kernel/binder-cache`), or `none`.
    LookupProfile(String),
}

impl Target {
    /// The thread that this is a property of; `None` for a property of the device.
    pub fn thread(&self) -> Option<u32> {
        match self {
            Self::Tunable(_)
            | Self::Governor(_)
            | Self::ZramAlgorithm(_)
            | Self::ZramBacking(_)
            | Self::ZramSize(_)
            | Self::ZramSwap(_)
            | Self::Group(_)
            | Self::GroupWeight(_)
            | Self::EgressPriority(_)
            | Self::Autogroup(_)
            | Self::LookupProfile(_) => None,
            Self::UtilizationClampMinimum { pid, .. } => Some(*pid),
            Self::CpuAffinity { tid, .. }
            | Self::Priority { tid, .. }
            | Self::IoPriority { tid, .. }
            | Self::GroupMember { tid, .. } => Some(*tid),
        }
    }

    /// `value` of this target for the user: a size has its unit.
    pub fn with_unit<'value>(&self, value: &'value str) -> Cow<'value, str> {
        match (self, value.parse::<u64>()) {
            (Self::ZramSize(_), Ok(bytes)) => format!("{} KiB", bytes >> 10).into(),
            _ => value.into(),
        }
    }

    /// The same property of another thread; `None` for a property that is not inherited.
    pub fn of_child(&self, tid: u32, start_time_ticks: u64) -> Option<Self> {
        match *self {
            Self::UtilizationClampMinimum { .. } => Some(Self::UtilizationClampMinimum { pid: tid, start_time_ticks }),
            Self::CpuAffinity { .. } => Some(Self::CpuAffinity { tid, start_time_ticks }),
            Self::Priority { .. } => Some(Self::Priority { tid, start_time_ticks }),
            Self::IoPriority { .. } => Some(Self::IoPriority { tid, start_time_ticks }),
            Self::GroupMember { hierarchy, .. } => Some(Self::GroupMember { hierarchy, tid, start_time_ticks }),
            _ => None,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tunable(path) => write!(f, "{}", path.display()),
            Self::Governor(folder) => write!(f, "governor of {}", folder.display()),
            Self::UtilizationClampMinimum { pid, .. } => write!(f, "uclamp.min of process {pid}"),
            Self::CpuAffinity { tid, .. } => write!(f, "CPU mask of thread {tid}"),
            Self::Priority { tid, .. } => write!(f, "priority of thread {tid}"),
            Self::IoPriority { tid, .. } => write!(f, "storage priority of thread {tid}"),
            Self::ZramAlgorithm(name) => write!(f, "algorithm of {name}"),
            Self::ZramBacking(name) => write!(f, "backing device of {name}"),
            Self::ZramSize(name) => write!(f, "size of {name}"),
            Self::ZramSwap(name) => write!(f, "swap on {name}"),
            Self::Group(folder) => write!(f, "control group {}", folder.display()),
            Self::GroupMember { tid, .. } => write!(f, "control group of thread {tid}"),
            Self::GroupWeight(folder) => write!(f, "weight of control group {}", folder.display()),
            Self::EgressPriority(folder) => write!(f, "packets' priority of control group {}", folder.display()),
            Self::Autogroup(id) => write!(f, "nice value of autogroup {id}"),
            Self::LookupProfile(context) => write!(f, "lookup profile of {context}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_shown_with_its_unit() {
        let size = Target::ZramSize("zram0".into());
        for (target, value, expected) in [
            (&size, "67108864", "65536 KiB"),
            (&size, "unknown", "unknown"),
            (&Target::Tunable("/proc/sys/vm/swappiness".into()), "150", "150"),
        ] {
            assert_eq!(target.with_unit(value), expected, "{target}");
        }
    }
}
