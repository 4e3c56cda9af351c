//! A point of a workload: the work of a launch, an idle time, a number of lookups, or what runs together.

use serde::{Deserialize, Serialize};

use brisk_mechanism::lookup::Traces;

/// One point of the workload.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Point {
    /// One launch that takes this much CPU time at the highest frequency, in milliseconds.
    Work(u32),
    /// No launch for this long, in milliseconds.
    Idle(u32),
    /// So many service lookups in a row.
    Lookups(u32),
    /// So many openings of applications, one after another.
    Openings(u32),
    /// One boot, from the kernel to the first screen.
    Boot,
    /// So many rounds of reading processes' memory.
    Readings(u32),
    /// So many clients that look services up at the same time.
    Clients(u32),
    /// The lookups of one modelled application: its index in [`Traces::built_in`].
    Application(usize),
    /// A foreground with background programs, by the combination's name.
    Combination(String),
}

impl std::fmt::Display for Point {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Work(work_ms) => write!(f, "work {work_ms} ms"),
            Self::Boot => f.write_str("boot"),
            Self::Combination(name) => f.write_str(name),
            Self::Openings(1) => f.write_str("1 opening"),
            Self::Openings(count) => write!(f, "{count} openings"),
            Self::Readings(count) => write!(f, "{count} readings"),
            Self::Lookups(count) => write!(f, "{count} lookups"),
            Self::Clients(1) => f.write_str("1 client"),
            Self::Clients(count) => write!(f, "{count} clients"),
            Self::Application(index) => match Traces::built_in().traces.get(*index) {
                Some(trace) => f.write_str(&trace.name),
                None => write!(f, "application {index}"),
            },
            Self::Idle(idle_ms) => write!(f, "idle {} s", f64::from(*idle_ms) / 1000.0),
        }
    }
}
