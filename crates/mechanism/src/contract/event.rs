//! What sensors tell the mechanisms: plain data, with every fact that a policy needs already fetched.

use serde::{Deserialize, Serialize};

use super::facts::Facts;
use brisk_sys::cgroup::weight::WeighedGroup;
use brisk_sys::sched::thread_facts::ThreadFacts;
use brisk_sys::sched::threads::Sample;

/// Something that happened on the device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// A process was born, became another program, changed its name or owner, or ended.
    Process(ProcessEvent),
    /// The kernel dropped process events (ENOBUFS): what a mechanism believes about processes may be stale.
    ProcessEventsLost,
    /// The set of foreground processes changed (Android's `top-app` cpuset, a compositor, the control socket).
    Foreground {
        /// The processes now in the foreground.
        processes: Vec<Process>,
    },
    /// The foreground session changed (logind): coarser than [`Event::Foreground`], and nothing that is launched.
    Session {
        /// Its processes.
        pids: Vec<u32>,
    },
    /// A person or a program announced a launch by name (`brisk launch`, the control socket).
    LaunchAnnounced {
        /// The launching process, where it is known.
        process: Option<Process>,
        /// The application's name, under which durations are learned.
        application: String,
    },
    /// A person or a program said that the announced launch is over.
    LaunchFinished {
        /// The application's name as announced.
        application: String,
    },
    /// The share of all CPUs that was busy since the last sample.
    Load {
        /// 0 to 1000.
        busy_permille: u16,
    },
    /// What threads used since they were looked at last.
    Threads {
        /// Who used what, who came and who went.
        sample: Sample,
        /// What was asked for about single threads.
        facts: Vec<ThreadFacts>,
        /// The CPUs that are online; empty when that is not known.
        online: Vec<u32>,
        /// The groups of the sub-tree that is delegated to brisk, where they were asked for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        groups: Option<Vec<WeighedGroup>>,
    },
    /// CPUs came or went, or a cpufreq policy changed its governor: tunables must be looked up again.
    DeviceChanged,
    /// Tasks wait for memory, so long as the mechanism's interest says.
    MemoryStall,
    /// Whether the device tells of such stalls has changed.
    StallsWatched {
        /// True when it does.
        is_on: bool,
    },
    /// The child of the mechanism that hears this was started, or has ended.
    Child {
        /// Its process id.
        pid: Option<u32>,
    },
    /// The answer to a question of the mechanism that hears this.
    Facts(Facts),
    /// The deadline that a mechanism asked for has come.
    Deadline,
}

/// A process event from the kernel's connector, with what /proc told about the process at that moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessEvent {
    /// What happened.
    pub kind: ProcessEventKind,
    /// The process that it happened to; for a fork, the child.
    #[serde(flatten)]
    pub process: Process,
}

/// A process (thread group) and what was looked up about it: only facts that a mechanism wants are fetched.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    pub parent: Option<u32>,
    /// Its parent's name (`comm`).
    pub parent_command: Option<String>,
    /// Its real user id.
    pub uid: Option<u32>,
    /// Its name (`comm`, at most 15 bytes).
    pub command: Option<String>,
    /// Its cgroup path (v2, or v1's cpuset).
    pub cgroup: Option<String>,
    /// Field 22 of /proc/PID/stat in clock ticks: with the pid it names one process for ever.
    pub start_time_ticks: Option<u64>,
}

/// The kinds of process events (linux/cn_proc.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProcessEventKind {
    /// A new process.
    Fork,
    /// It runs another program.
    Exec,
    /// It changed its name: Android's zygote children do so when they become an application.
    Comm,
    /// It changed its user.
    Uid,
    /// It ended.
    Exit,
}
