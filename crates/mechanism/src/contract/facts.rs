//! What a mechanism may ask the engine beside events, and the answers: plain data, fetched at leisure.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use brisk_sys::BootTime;
use brisk_sys::Target;
use brisk_sys::cgroup::memory::GroupSample;
use brisk_sys::io::io_priority::IoPriority;
use brisk_sys::process::Life;
use brisk_sys::process::kinship::Kin;
use brisk_sys::system::other_managers::Found;

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// How long processes wait for storage.
    StorageWait {
        /// Which.
        processes: BTreeSet<u32>,
    },
    /// What every process moves from and to storage.
    StorageUse {
        /// A group whose members are wanted as well.
        group: Option<PathBuf>,
        /// Processes whose later threads and children are wanted, and since when.
        parents: Vec<(Life, BootTime)>,
    },
    /// The threads of processes.
    Threads {
        /// Which. Those of the kernel, and those that have ended, have none.
        processes: Vec<Life>,
    },
    /// What control groups hold of memory.
    MemoryGroups,
    /// Whether the kernel's own limit of what zram writes back can be used.
    WritebackLimit,
    /// Which other managers are there.
    OtherManagers,
}

impl Question {
    /// True when the answer is of no use later on: it is fetched in real time.
    pub fn is_urgent(&self) -> bool {
        matches!(self, Self::MemoryGroups)
    }
}

/// An answer, by the name of its question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "facts", rename_all = "kebab-case")]
pub enum Facts {
    /// How long the processes wait for storage.
    StorageWait {
        /// The control group that is theirs alone, where there is one.
        group: Option<PathBuf>,
        /// How long some task in it has waited since boot; `None` where the kernel does not say.
        waited: Option<Duration>,
    },
    /// What every process moves.
    StorageUse {
        /// How long disks were busy since boot, each for itself.
        busy: Duration,
        /// Bytes that each process has moved, the daemon excepted. Processes that may not be seen are missing.
        moved: Vec<(Life, u64)>,
        /// Who is in the group.
        members: Vec<u32>,
        /// Threads and children that each of the parents has made since.
        children: Vec<(Life, Vec<Kin>)>,
    },
    /// The threads of the processes.
    Threads {
        /// In no order.
        threads: Vec<ThreadOfProcess>,
    },
    /// What control groups hold of memory.
    MemoryGroups {
        /// Those without groups of their own.
        groups: Vec<GroupSample>,
    },
    /// Whether the kernel's own limit of what zram writes back can be used.
    WritebackLimit {
        /// The file that turns it on, while it is off.
        switch: Option<Target>,
    },
    /// Which other managers are there.
    OtherManagers {
        /// Each once.
        found: Vec<Found>,
    },
}

/// A thread by its number, its name and its rank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadOfProcess {
    /// Its number.
    pub tid: u32,
    /// Field 22 of /proc/TID/stat.
    pub start_time_ticks: u64,
    /// Its name (`comm`).
    pub command: String,
    /// How its requests to storage rank.
    pub io_priority: IoPriority,
}

/// The bytes that each process has moved, to be searched.
pub fn by_life(moved: &[(Life, u64)]) -> BTreeMap<Life, u64> {
    moved.iter().copied().collect()
}
