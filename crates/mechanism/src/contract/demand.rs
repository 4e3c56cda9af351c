//! What mechanisms need from the engine besides events: samples of threads, launch help, a child process, and a state file.

use crate::Support;
use brisk_sys::cgroup::membership::GroupChoice;
use brisk_sys::sched::threads::Sensing;

/// What a mechanism wants with the next sample of threads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ThreadDemand {
    /// The threads whose facts are wanted.
    pub facts: Vec<u32>,
}

/// How threads are sampled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ThreadSampling<'mechanism> {
    /// The kernel interface.
    pub sensing: Sensing,
    /// The control groups that threads may be moved to temporarily.
    pub groups: &'mechanism GroupChoice,
}

/// What a mechanism does for launches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaunchBoost<'mechanism> {
    /// Whether it can help launches on this device.
    pub support: &'mechanism Support,
    /// True while it helps a launch.
    pub is_active: bool,
}

/// A brisk process beside the daemon. It exits at the end of its standard input, and is ready once it writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Child {
    /// A different number requires a new process.
    pub generation: u64,
    /// The subcommand of `brisk`.
    pub subcommand: &'static str,
    /// The arguments of the subcommand.
    pub arguments: Vec<String>,
}

/// A state file in `/var/lib/brisk`, on Android in `/data/misc/brisk`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateFileSpec {
    pub name: &'static str,
    /// Its content, in words.
    pub what: &'static str,
    /// What happens when it is damaged, in words.
    pub if_damaged: &'static str,
    /// True when it must survive a power loss.
    pub is_durable: bool,
}

/// Learned state and its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedState {
    pub file: StateFileSpec,
    /// The current content.
    pub text: String,
}
