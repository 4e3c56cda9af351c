//! All threads of user space and their CPU usage, cheap enough to sample many times a second.
//!
//! There are two sensors: files of /proc that stay open ([`Files`]), and a program in the kernel ([`Tasks`]). Both apply the
//! same definition of known threads, new threads and usage.

mod files;
mod tasks;
mod tracked_thread;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use self::files::Files;
pub use self::files::parse_status;
pub use self::tracked_thread::NEW_AND_BUSY_DIVISOR;
use self::tracked_thread::TrackedThread;
use crate::bpf::{BpfError, Tasks};
use crate::process::schedstat::Usage;
use crate::{BootTime, DeviceError, Root, process};

/// The number of the parent of kernel threads, where these are visible.
const KTHREADD: u32 = 2;
/// Capacity of a sample for new threads, beside the known ones.
const NEW_THREADS_CAPACITY: usize = 64;

/// How threads are sampled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sensing {
    /// By their `schedstat`.
    #[default]
    Schedstat,
    /// By a program that the kernel's task iterator runs, where supported; else by their `schedstat`.
    Bpf,
    /// The same, but where it is not supported the user need not do anything.
    Auto,
}

/// The result of one sample.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// Threads that ran or waited since their last sample, including new ones that were busy since their creation.
    pub used: Vec<ThreadUsage>,
    /// Threads that were not known before.
    pub born: Vec<Thread>,
    /// Threads that have exited.
    pub ended: Vec<u32>,
}

/// The usage of one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadUsage {
    /// The thread.
    pub tid: u32,
    /// Since its last sample.
    #[serde(flatten)]
    pub usage: Usage,
}

/// A thread, at the time when it was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    /// Its number.
    pub tid: u32,
    /// Its process.
    pub pid: u32,
    /// Its process's parent.
    pub parent: u32,
    /// Its name (`comm`).
    pub command: String,
}

/// The known threads.
#[derive(Debug)]
pub struct Threads {
    root: Root,
    known: BTreeMap<u32, TrackedThread>,
    sampled_at: Option<BootTime>,
    excluded: Excluded,
    sensor: Sensor,
}

#[derive(Debug)]
enum Sensor {
    Files(Files),
    Tasks(Tasks),
}

/// The processes whose threads are not sampled.
#[derive(Debug, Clone, Copy)]
struct Excluded {
    /// In a container another process may have this number.
    kthreadd: Option<u32>,
    /// The sampling thread is busy with sampling, and waits where all threads do: that says nothing about other threads.
    own: Option<u32>,
}

impl Excluded {
    fn has(self, pid: u32, parent: u32) -> bool {
        self.kthreadd.is_some_and(|kthreadd| [pid, parent].contains(&kthreadd)) || self.own == Some(pid)
    }
}

impl Threads {
    /// For the system below `root`, by files; no thread is known yet.
    pub fn new(root: &Root) -> Self {
        Self {
            root: root.clone(),
            known: BTreeMap::new(),
            sampled_at: None,
            excluded: Excluded {
                kthreadd: process::command(root, KTHREADD).ok().filter(|name| name == "kthreadd").map(|_| KTHREADD),
                own: root.is_system().then(std::process::id),
            },
            sensor: Sensor::Files(Files::new(root)),
        }
    }

    /// For the system below `root`, by `sensing` as far as it is supported, which [`unsupported_reason`] reports.
    pub fn by(root: &Root, sensing: Sensing) -> Self {
        let mut threads = Self::new(root);
        threads.switch_to(sensing);
        threads
    }

    /// Samples by `sensing` from now on, as far as it is supported; known threads stay known.
    pub fn switch_to(&mut self, sensing: Sensing) {
        let tasks = match sensing {
            Sensing::Schedstat => None,
            Sensing::Bpf | Sensing::Auto => Tasks::open(&self.root, std::process::id())
                .inspect_err(|unsupported_reason| {
                    tracing::debug!("threads are sampled by their files: {unsupported_reason}");
                })
                .ok(),
        };
        match (tasks, &self.sensor) {
            (Some(tasks), _) => {
                self.known.values_mut().for_each(|known| known.file = None);
                self.sensor = Sensor::Tasks(tasks);
            }
            (None, Sensor::Tasks(_)) => self.sensor = Sensor::Files(Files::new(&self.root)),
            (None, Sensor::Files(_)) => {}
        }
    }

    /// How threads are sampled now.
    pub fn sensing(&self) -> Sensing {
        match self.sensor {
            Sensor::Files(_) => Sensing::Schedstat,
            Sensor::Tasks(_) => Sensing::Bpf,
        }
    }

    /// The number of known threads.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// True when no thread is known.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Samples all current threads at `now`.
    ///
    /// # Errors
    /// When /proc cannot be read at all; a single thread that cannot be read counts as ended.
    pub fn sample(&mut self, now: BootTime) -> Result<Sample, DeviceError> {
        let mut sample = Sample::default();
        let sampled_at = self.sampled_at.replace(now);
        if let Sensor::Tasks(tasks) = &self.sensor {
            match tasks.sample(self.known.len() + NEW_THREADS_CAPACITY) {
                Ok(tasks) => {
                    tasks::take(&mut self.known, &tasks, (sampled_at, now), self.excluded, &mut sample);
                    return Ok(sample);
                }
                Err(error) => {
                    tracing::warn!(
                        "threads are sampled by their files from now on: the kernel's iterator failed: {error}"
                    );
                    self.switch_to(Sensing::Schedstat);
                }
            }
        }
        if let Sensor::Files(files) = &mut self.sensor {
            files.sample(&mut self.known, (sampled_at, now), self.excluded, &mut sample)?;
        }
        Ok(sample)
    }

    /// Samples every thread next time, quiet or not: something has changed.
    pub fn wake_all(&mut self) {
        self.known.values_mut().for_each(TrackedThread::wake);
    }
}

/// Why threads of the system below `root` cannot be sampled by `sensing`; `None` where they can.
pub fn unsupported_reason(root: &Root, sensing: Sensing) -> Option<BpfError> {
    match sensing {
        Sensing::Schedstat => None,
        Sensing::Bpf | Sensing::Auto => Tasks::open(root, std::process::id()).err(),
    }
}

#[cfg(test)]
mod tests;
