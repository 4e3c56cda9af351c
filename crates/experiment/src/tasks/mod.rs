//! Simulated programs of the experiments about placement: the foreground, and the background programs.
//!
//! Each loads a scheduler as programs of its kind do: by its running time, its waits, and its number of threads or processes.
//! Only the download and the programs of `storage` use a disk; the others compete only for CPUs.

mod background;
mod browsing;
mod foreground;
mod growth;
mod messages;
mod network;
mod periodic;
mod player;
mod storage;
mod suite;
mod transfer;

use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use brisk_base::work::Work;
use brisk_sys::sched::thread_switches::Switches;

pub use messages::calibrate_rounds;
pub(crate) use storage::warm_up_disk;
pub use suite::{ENGINE, Suite};

/// The work of a build's short-lived process, besides its start and end.
const PIECE_MS: u64 = 20;
/// Processes of a build that live at the same time.
const JOBS: usize = 2;
/// Threads of a background program that uses a disk or a network.
const DISK_THREADS: usize = 8;
const UPLOAD_THREADS: usize = 8;

/// How tasks run on this device.
#[derive(Debug, Clone)]
pub struct TaskRunner {
    /// Turns of the work loop in a millisecond at the highest frequency.
    pub turns_per_ms: u64,
    /// How many times longer work, periods and waits take; 1 outside experiments with time dilation.
    pub time_dilation: u32,
    /// This program, which is also a build's short-lived process.
    pub program: PathBuf,
    /// Where a download is written.
    pub folder: PathBuf,
    /// The block device of programs that wait for a disk.
    pub disk: PathBuf,
}

/// A foreground's report at its end: one JSON line on standard output.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ForegroundReport {
    /// The user's wait, in milliseconds.
    pub foreground_ms: f64,
    /// The median of the times of which that is the 95th percentile, of a foreground that waits for a disk or a network.
    #[serde(default)]
    pub median_ms: Option<f64>,
    /// The switches of its threads that are alive at its end; `None` where the kernel does not report them.
    #[serde(default)]
    pub switches: Option<Switches>,
    /// Its CPU time as a share of the time in which it was runnable, of a foreground that has one thread and waits.
    #[serde(default)]
    pub cpu_while_runnable_percent: Option<f64>,
}

/// A neighbour's report at its end, about the time since its start command.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BackgroundReport {
    /// CPU time of it and its children, in milliseconds.
    pub cpu_ms: f64,
    /// Its periods, where it has any.
    pub periods: u32,
    /// The periods whose work was not done in time.
    pub missed: u32,
    /// What a program in bulk has moved, in bytes.
    #[serde(default)]
    pub moved_bytes: Option<u64>,
}

impl TaskRunner {
    fn work(&self, milliseconds: u64) {
        self.work_us(milliseconds * 1000);
    }

    fn work_us(&self, microseconds: u64) {
        Work::of_turns(microseconds * u64::from(self.time_dilation) * self.turns_per_ms / 1000).run();
    }

    fn wait(&self, length: Duration) {
        thread::sleep(self.dilated(length));
    }

    fn dilated(&self, length: Duration) -> Duration {
        length * self.time_dilation
    }

    /// One short-lived process of a build, from its start to its end.
    ///
    /// # Errors
    /// When it cannot be started or fails.
    fn compile_one(&self) -> io::Result<()> {
        let mut command = Command::new(&self.program);
        command.args(["task", "--piece", "--turns-per-ms"]).arg(self.turns_per_ms.to_string());
        command.arg(format!("--time-dilation={}", self.time_dilation));
        let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status()?;
        if status.success() {
            Ok(())
        } else {
            Err(io::Error::other(format!("a process of the build ended with {status}")))
        }
    }

    /// The work of such a process.
    pub fn compile_piece(&self) {
        self.work(PIECE_MS);
    }
}

#[cfg(test)]
impl TaskRunner {
    /// One so fast that only paced work takes its time; it has no program, and its files are in `folder`.
    fn of_tests(folder: &std::path::Path) -> Self {
        let disk = folder.join("disk");
        Self { turns_per_ms: 1, time_dilation: 1, program: "none".into(), folder: folder.to_owned(), disk }
    }
}

/// A thread with a name, which tools that list threads show.
fn spawn_named<'scope, T: Send + 'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    name: &str,
    body: impl FnOnce() -> T + Send + 'scope,
) -> io::Result<thread::ScopedJoinHandle<'scope, T>> {
    thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, body)
}

/// A result of a thread, which does not panic.
fn join_thread<T>(handle: thread::ScopedJoinHandle<'_, io::Result<T>>) -> io::Result<T> {
    handle.join().unwrap_or_else(|_| Err(io::Error::other("a thread has panicked")))
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
