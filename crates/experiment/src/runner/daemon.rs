//! The brisk daemon during an arm: the real one, with the arm's configuration.

#[cfg(feature = "lab")]
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Signal, kill_process};

#[cfg(feature = "lab")]
use brisk_mechanism::memory::policy::PAGEOUT;
#[cfg(feature = "lab")]
use brisk_sys::memory::process_memory;
#[cfg(feature = "lab")]
use brisk_sys::process::StatFacts;
use brisk_sys::process::parent_death;
#[cfg(feature = "lab")]
use brisk_sys::process::schedstat;
use brisk_sys::{BootTime, Root, process};

/// Limit for an answer of the daemon.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The CPU time of a daemon.
#[cfg(feature = "lab")]
#[derive(Debug, Clone, Copy)]
pub(super) struct CpuTime {
    /// Of it, its guardian, its killer and their exited children.
    pub(super) all: Duration,
    /// Of the thread that swaps out ahead of need.
    pub(super) pageout: Duration,
}

/// A running daemon; dropping it ends it, and it restores what it holds.
pub(super) struct Daemon {
    child: Child,
    socket: PathBuf,
}

impl Daemon {
    /// Starts `brisk daemon` and returns once its control socket answers.
    pub(super) fn start(root: &Root, folder: &Path, configuration: &toml::Table) -> anyhow::Result<Self> {
        let file = folder.join("arm.toml");
        fs::write(&file, with_launch_enabled(configuration).to_string())
            .with_context(|| format!("cannot write {}", file.display()))?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("--root").arg(root.path("/")).arg("daemon").arg("--config").arg(&file);
        // The daemon restores what it holds even when the experiment is killed.
        parent_death::die_with_parent(&mut command, Signal::TERM);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().context("cannot start brisk daemon")?;
        let mut daemon = Self { child, socket: root.runtime_folder().join("control") };
        let limit = BootTime::now() + ANSWER_TIMEOUT;
        while daemon.status().is_err() {
            if let Some(status) = daemon.child.try_wait()? {
                bail!("brisk daemon ended at once with {status}; see its message on stderr");
            }
            if BootTime::now() > limit {
                bail!("brisk daemon does not answer on {}", daemon.socket.display());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(daemon)
    }

    /// The number of decisions that it has carried out; an error when one failed or the daemon has exited.
    pub(super) fn actions(&mut self) -> anyhow::Result<u64> {
        if let Some(status) = self.child.try_wait()? {
            bail!("the daemon ended during the replicate with {status}");
        }
        let status = self.status()?;
        let metrics = &status["result"]["metrics"];
        match (metrics["decisions"].as_u64(), metrics["failures"].as_u64()) {
            (Some(decisions), Some(0)) => Ok(decisions),
            (Some(_), Some(failures)) => {
                let decisions = status["result"]["decisions"].as_array();
                let error = decisions.into_iter().flatten().rev().find_map(|decision| decision["error"].as_str());
                bail!("{failures} of the daemon's decisions failed: {}", error.unwrap_or("no longer in the status"))
            }
            _ => bail!("the daemon's status has no counters: {status}"),
        }
    }

    /// The CPU time that it and its processes have used.
    #[cfg(feature = "lab")]
    pub(super) fn cpu_time(&self, root: &Root) -> anyhow::Result<CpuTime> {
        let own = self.child.id();
        // If a process exits meanwhile, its parent counts it, at the latest in the next reading.
        let processes: BTreeMap<u32, StatFacts> = process_memory::pids(root)?
            .into_iter()
            .filter_map(|pid| Some((pid, process::stat(root, pid).ok()?)))
            .collect();
        let belongs = |&(&pid, _): &(&u32, &StatFacts)| {
            let parent = |pid: &u32| processes.get(pid).map(|stat| stat.parent);
            std::iter::successors(Some(pid), parent).any(|pid| pid == own)
        };
        let ticks = processes.iter().filter(belongs).map(|(_, stat)| stat.cpu_ticks + stat.children_ticks);
        let all = Duration::from_millis(ticks.sum::<u64>() * process::TICK_MS);
        let pageout = processes.iter().filter(belongs).map(|(&pid, _)| run_time(root, pid, PAGEOUT)).sum();
        Ok(CpuTime { all, pageout })
    }

    /// Terminates it, and waits until it has restored everything.
    #[cfg(feature = "lab")]
    pub(super) fn end(mut self) -> anyhow::Result<()> {
        self.terminate();
        let status = self.child.wait()?;
        if !status.success() {
            bail!("the daemon ended with {status}");
        }
        Ok(())
    }

    fn terminate(&self) {
        if let Some(pid) = process::id(self.child.id()) {
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    /// Sends it the foreground.
    pub(super) fn set_foreground(&self, pid: u32) -> anyhow::Result<()> {
        let answer = self.ask(&format!("{{\"version\":1,\"request\":\"foreground\",\"pids\":[{pid}]}}\n"))?;
        if answer["ok"] == true { Ok(()) } else { bail!("the daemon refused the foreground: {answer}") }
    }

    fn status(&self) -> anyhow::Result<serde_json::Value> {
        self.ask("{\"version\":1,\"request\":\"status\"}\n")
    }

    fn ask(&self, request: &str) -> anyhow::Result<serde_json::Value> {
        let mut stream = UnixStream::connect(&self.socket)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        stream.write_all(request.as_bytes())?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line)?;
        Ok(serde_json::from_slice(line.as_bytes())?)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.terminate();
        let _ = self.child.wait();
    }
}

/// Run time of the threads of process `pid` that have this name; zero without such a thread.
#[cfg(feature = "lab")]
fn run_time(root: &Root, pid: u32, name: &str) -> Duration {
    let folder = format!("/proc/{pid}/task");
    let tids = root.list(&folder).unwrap_or_default();
    let named = tids.iter().filter(|tid| root.read(format!("{folder}/{tid}/comm")).is_ok_and(|comm| comm == name));
    let texts = named.filter_map(|tid| root.read(format!("{folder}/{tid}/schedstat")).ok());
    texts.filter_map(|text| schedstat::parse(text.as_bytes())).map(|stat| Duration::from_nanos(stat.run_ns)).sum()
}

/// `configuration` with launches enabled even where another manager exists: an arm measures brisk.
pub(super) fn with_launch_enabled(configuration: &toml::Table) -> toml::Table {
    let mut configuration = configuration.clone();
    let launch = configuration.entry("launch").or_insert_with(|| toml::Table::new().into());
    if let Some(launch) = launch.as_table_mut() {
        launch.entry("enabled").or_insert(true.into());
    }
    configuration
}
