//! All threads of user space and what each uses, cheap enough to look many times a second.
//!
//! Two sensors see them: files of /proc that stay open ([`Files`]), and a program in the kernel ([`Tasks`]). Who is known,
//! who is new and what counts as used is the same with both.

mod files;
mod known;
mod tasks;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use self::files::Files;
pub use self::files::parse_status;
use self::known::Known;
use crate::bpf::{Refusal, Tasks};
use crate::process::schedstat::Usage;
use crate::{BootTime, DeviceError, Root, process};

/// The number of the parent of the kernel's own threads, where they can be seen.
const KTHREADD: u32 = 2;
/// Threads that may be new in a sample, for which there is room beside those that are known.
const ROOM_FOR_NEW: usize = 64;

/// By what threads are sampled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sensing {
    /// Their `schedstat`.
    #[default]
    Schedstat,
    /// A program that the kernel's iterator of tasks runs, where it can be had; else their `schedstat`.
    Bpf,
    /// The same, and nothing need be done where it cannot be had.
    Auto,
}

/// What was seen in one look.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// Threads that ran or waited since they were sampled last, those among them that were born and busy since then.
    pub used: Vec<ThreadUsage>,
    /// Threads that were not known before.
    pub born: Vec<Thread>,
    /// Threads that have ended.
    pub ended: Vec<u32>,
}

/// What one thread used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadUsage {
    /// The thread.
    pub tid: u32,
    /// Since it was sampled last.
    #[serde(flatten)]
    pub usage: Usage,
}

/// A thread, as it was when it was found.
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

/// The threads that are known.
#[derive(Debug)]
pub struct Threads {
    root: Root,
    known: BTreeMap<u32, Known>,
    sampled_at: Option<BootTime>,
    left_out: LeftOut,
    sensor: Sensor,
}

#[derive(Debug)]
enum Sensor {
    Files(Files),
    Tasks(Tasks),
}

/// The processes whose threads are not sampled.
#[derive(Debug, Clone, Copy)]
struct LeftOut {
    /// In a container another process may have that number.
    kthreadd: Option<u32>,
    /// The sampling thread is busy by sampling, and waits where all are busy: that says nothing of the others.
    own: Option<u32>,
}

impl LeftOut {
    fn has(self, pid: u32, parent: u32) -> bool {
        self.kthreadd.is_some_and(|kthreadd| [pid, parent].contains(&kthreadd)) || self.own == Some(pid)
    }
}

impl Threads {
    /// Of the system below `root`, by their files; no thread is known yet.
    pub fn new(root: &Root) -> Self {
        Self {
            root: root.clone(),
            known: BTreeMap::new(),
            sampled_at: None,
            left_out: LeftOut {
                kthreadd: process::command(root, KTHREADD).ok().filter(|name| name == "kthreadd").map(|_| KTHREADD),
                own: root.is_system().then(std::process::id),
            },
            sensor: Sensor::Files(Files::new(root)),
        }
    }

    /// Of the system below `root`, by what `sensing` says as far as it can be had, which [`refusal`] tells.
    pub fn by(root: &Root, sensing: Sensing) -> Self {
        let mut threads = Self::new(root);
        threads.turn_to(sensing);
        threads
    }

    /// Looks by what `sensing` says from now on, as far as it can be had, and still knows who is known.
    pub fn turn_to(&mut self, sensing: Sensing) {
        let tasks = match sensing {
            Sensing::Schedstat => None,
            Sensing::Bpf | Sensing::Auto => Tasks::open(&self.root, std::process::id())
                .inspect_err(|refusal| tracing::debug!("threads are sampled by their files: {refusal}"))
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

    /// By what they are sampled now.
    pub fn sensing(&self) -> Sensing {
        match self.sensor {
            Sensor::Files(_) => Sensing::Schedstat,
            Sensor::Tasks(_) => Sensing::Bpf,
        }
    }

    /// How many are known.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// True when no thread is known.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Looks at the threads that are there at `now`.
    ///
    /// # Errors
    /// When /proc cannot be read at all; what happens to single threads is part of the look.
    pub fn sample(&mut self, now: BootTime) -> Result<Sample, DeviceError> {
        let mut sample = Sample::default();
        let sampled_at = self.sampled_at.replace(now);
        if let Sensor::Tasks(tasks) = &self.sensor {
            match tasks.sample(self.known.len() + ROOM_FOR_NEW) {
                Ok(tasks) => {
                    tasks::take(&mut self.known, &tasks, (sampled_at, now), self.left_out, &mut sample);
                    return Ok(sample);
                }
                Err(error) => {
                    tracing::warn!(
                        "threads are sampled by their files from now on: the kernel's iterator says {error}"
                    );
                    self.turn_to(Sensing::Schedstat);
                }
            }
        }
        if let Sensor::Files(files) = &mut self.sensor {
            files.sample(&mut self.known, (sampled_at, now), self.left_out, &mut sample)?;
        }
        Ok(sample)
    }

    /// Looks at every thread next time, whether it was quiet or not: something has changed.
    pub fn wake_all(&mut self) {
        self.known.values_mut().for_each(Known::wake);
    }
}

/// Why threads of the system below `root` cannot be sampled as `sensing` says; `None` where they can.
pub fn refusal(root: &Root, sensing: Sensing) -> Option<Refusal> {
    match sensing {
        Sensing::Schedstat => None,
        Sensing::Bpf | Sensing::Auto => Tasks::open(root, std::process::id()).err(),
    }
}

#[cfg(test)]
mod tests;
