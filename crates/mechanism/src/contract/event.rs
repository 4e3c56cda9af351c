//! Events from the sensors to the mechanisms: plain data, with every fact that a policy needs already fetched.

use serde::{Deserialize, Serialize};

use super::facts::Facts;
use brisk_sys::sched::thread_facts::ThreadFacts;
use brisk_sys::sched::threads::Sample;

/// Something that happened on the device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// A process was forked, executed a program, changed its name or user, or exited.
    Process(ProcessEvent),
    /// The kernel dropped process events (ENOBUFS): a mechanism's knowledge of processes may be stale.
    ProcessEventsLost,
    /// The set of foreground processes changed (Android's `top-app` cpuset, a compositor, the control socket).
    Foreground {
        /// The processes now in the foreground.
        processes: Vec<Process>,
    },
    /// The foreground session changed (logind): coarser than [`Event::Foreground`], and not a launch.
    Session {
        /// Its processes.
        pids: Vec<u32>,
    },
    /// A user or a program announced a launch by name (`brisk launch`, the control socket).
    LaunchAnnounced {
        /// The launching process, where it is known.
        process: Option<Process>,
        /// The application's name, under which durations are learned.
        application: String,
    },
    /// A user or a program reported that the announced launch is over.
    LaunchFinished {
        /// The application's name as announced.
        application: String,
    },
    /// The share of all CPUs that was busy since the last sample.
    Load {
        /// 0 to 1000.
        busy_permille: u16,
    },
    /// What threads used since the last sample.
    Threads {
        /// CPU use of threads, new threads and ended threads.
        sample: Sample,
        /// The facts about single threads that were requested.
        facts: Vec<ThreadFacts>,
        /// The CPUs that are online; empty when unknown.
        online: Vec<u32>,
    },
    /// CPUs went online or offline, or a cpufreq policy changed its governor: tunables must be looked up again.
    DeviceChanged,
    /// Tasks stalled on memory for as long as the mechanism's interest specifies.
    MemoryStall,
    /// The device started or stopped reporting memory stalls.
    StallsWatched {
        /// True when it reports them.
        is_on: bool,
    },
    /// The receiving mechanism's child was started or has ended.
    Child {
        /// Its process id; `None` when it has ended.
        pid: Option<u32>,
    },
    /// The receiving mechanism's child has written a line.
    ChildSaid {
        /// Without its newline.
        line: String,
    },
    /// The answer to a question of the receiving mechanism.
    Facts(Facts),
    /// The deadline that a mechanism asked for has passed.
    Deadline,
}

/// A process event from the kernel's connector, with the facts that /proc held about the process at that moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessEvent {
    /// What happened.
    pub kind: ProcessEventKind,
    /// The process concerned; for a fork, the child.
    #[serde(flatten)]
    pub process: Process,
}

/// A process (thread group) and its facts: only facts that a mechanism wants are fetched.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its process id.
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
    /// Field 22 of /proc/PID/stat in clock ticks: with the pid it identifies one process uniquely.
    pub start_time_ticks: Option<u64>,
}

/// The kinds of process events (linux/cn_proc.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProcessEventKind {
    /// A new process.
    Fork,
    /// It executed another program.
    Exec,
    /// It changed its name, as Android's zygote children do when they become an application.
    Comm,
    /// It changed its user.
    Uid,
    /// It exited.
    Exit,
}
