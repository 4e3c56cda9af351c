//! What a lease can hold: a thing with a value that can be read, written and given back.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A thing with a value that can be read, written and given back.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// A kernel tunable: a file of /proc or /sys, named as on the device.
    Tunable(PathBuf),
    /// A process's lower utilisation clamp (sched_setattr(2), 0 to 1024), bound to one life of the process.
    UtilizationClampMinimum {
        /// The process.
        pid: u32,
        /// Field 22 of /proc/PID/stat in clock ticks: with the pid it names one process for ever.
        start_time_ticks: u64,
    },
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tunable(path) => write!(f, "{}", path.display()),
            Self::UtilizationClampMinimum { pid, .. } => write!(f, "uclamp.min of process {pid}"),
        }
    }
}
