//! Questions that a mechanism may ask the engine, and the answers: plain data, fetched at normal priority unless urgent.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use brisk_sys::BootTime;
use brisk_sys::Target;
use brisk_sys::cgroup::memory::GroupSample;
use brisk_sys::io::io_priority::IoPriority;
use brisk_sys::network::queues::InterfaceQueue;
use brisk_sys::network::sockets::Socket;
use brisk_sys::process::ProcessIdentity;
use brisk_sys::process::kinship::Kin;
use brisk_sys::system::other_managers::FoundManager;

/// A question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// How long processes wait for storage.
    StorageWait {
        /// Their process ids.
        processes: BTreeSet<u32>,
    },
    /// How much every process reads from and writes to storage.
    StorageUse {
        /// A control group whose members are wanted as well.
        group: Option<PathBuf>,
        /// The answer lists the threads and children that these processes have created since the given times.
        parents: Vec<(ProcessIdentity, BootTime)>,
    },
    /// The threads of processes.
    Threads {
        /// The processes. Kernel threads and processes that have ended yield none.
        processes: Vec<ProcessIdentity>,
    },
    /// What waits in the network's queues.
    NetworkUse {
        /// Processes whose control groups are wanted as well.
        processes: BTreeSet<u32>,
        /// True: also what each connection has sent.
        sockets: bool,
    },
    /// The control groups with these numbers.
    ControlGroups {
        /// The numbers: see [`brisk_sys::cgroup::id`].
        ids: Vec<u64>,
    },
    /// How much memory control groups hold.
    MemoryGroups,
    /// Whether the kernel's own limit of zram write-back can be used.
    WritebackLimit,
    /// Which other managers run.
    OtherManagers,
}

impl Question {
    /// True when a late answer is useless: it is fetched with real-time priority.
    pub fn is_urgent(&self) -> bool {
        matches!(self, Self::MemoryGroups)
    }
}

/// An answer, named like its question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "facts", rename_all = "kebab-case")]
pub enum Facts {
    /// How long the processes wait for storage.
    StorageWait {
        /// The control group that contains only these processes, where there is one.
        group: Option<PathBuf>,
        /// How long some task in it has waited since boot; `None` where the kernel does not report it.
        waited: Option<Duration>,
    },
    /// How much every process reads and writes.
    StorageUse {
        /// How long disks were busy since boot, summed over the disks.
        busy: Duration,
        /// Bytes that each process has read and written, the daemon excepted. Processes that may not be read are missing.
        moved: Vec<(ProcessIdentity, u64)>,
        /// The group's members.
        members: Vec<u32>,
        /// Threads and children that each of the parents has created since.
        children: Vec<(ProcessIdentity, Vec<Kin>)>,
    },
    /// The threads of the processes.
    Threads {
        /// In no particular order.
        threads: Vec<ThreadOfProcess>,
    },
    /// What waits in the network's queues.
    NetworkUse {
        /// The queue of each interface; none where the kernel does not report them.
        queues: Vec<InterfaceQueue>,
        /// The TCP connections, where they were asked for.
        sockets: Option<Vec<Socket>>,
        /// The control groups of version 2 of the processes, by number and path.
        groups: Vec<(u64, PathBuf)>,
    },
    /// The control groups of version 2 with the numbers. The root is not among them, nor is one that was removed.
    ControlGroups {
        /// Where they are mounted.
        mount: PathBuf,
        /// Their numbers and paths (`/apps/one`).
        groups: Vec<(u64, PathBuf)>,
    },
    /// How much memory control groups hold.
    MemoryGroups {
        /// The leaf groups.
        groups: Vec<GroupSample>,
    },
    /// Whether the kernel's own limit of zram write-back can be used.
    WritebackLimit {
        /// The file that enables it, while it is disabled.
        switch: Option<Target>,
    },
    /// Which other managers run.
    OtherManagers {
        /// Each manager once.
        found: Vec<FoundManager>,
    },
}

/// A thread with its id, name and I/O priority.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadOfProcess {
    /// Its thread id.
    pub tid: u32,
    /// Field 22 of /proc/TID/stat.
    pub start_time_ticks: u64,
    /// Its name (`comm`).
    pub command: String,
    /// The priority of its storage requests.
    pub io_priority: IoPriority,
}

/// The bytes that each process has moved, as a map.
pub fn by_life(moved: &[(ProcessIdentity, u64)]) -> BTreeMap<ProcessIdentity, u64> {
    moved.iter().copied().collect()
}
