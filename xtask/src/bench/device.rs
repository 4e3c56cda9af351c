//! The device and the daemon of a benchmark.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use brisk::daemon::status::metrics::Histogram;
use rustix::process::{Pid, Signal, kill_process};

/// The files of the tree except /proc, which is the machine's own.
const TREE: [(&str, &str); 8] = [
    ("sys/devices/system/cpu/online", "0\n"),
    ("sys/devices/system/cpu/present", "0\n"),
    ("sys/devices/system/cpu/cpufreq/policy0/affected_cpus", "0\n"),
    ("sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "ondemand\n"),
    ("sys/devices/system/cpu/cpufreq/policy0/scaling_min_freq", "200000\n"),
    ("sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq", "1200000\n"),
    ("sys/devices/system/cpu/cpufreq/ondemand/sampling_rate", "100000\n"),
    ("sys/devices/system/cpu/cpufreq/ondemand/io_is_busy", "0\n"),
];

/// The files that the daemon reads and writes, and a folder on a tmpfs that is removed with this value.
pub(super) struct Tree {
    root: PathBuf,
    folder: PathBuf,
}

impl Tree {
    /// A separate device tree.
    pub(super) fn make() -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("brisk-bench-").tempdir_in("/dev/shm")?.keep();
        let tree = Self { root: folder.clone(), folder };
        for (name, text) in TREE {
            let path = tree.folder.join(name);
            fs::create_dir_all(path.parent().context("a file in a folder")?)?;
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
        fs::create_dir(tree.folder.join("run"))?;
        std::os::unix::fs::symlink("/proc", tree.folder.join("proc"))?;
        Ok(tree)
    }

    /// The guest's own files, with a slow ondemand; only for a machine that ends with this process.
    pub(super) fn of_the_guest() -> anyhow::Result<Self> {
        let cpufreq = Path::new("/sys/devices/system/cpu/cpufreq");
        fs::write(cpufreq.join("policy0/scaling_governor"), "ondemand")?;
        fs::write(cpufreq.join("ondemand/sampling_rate"), "100000")?;
        let folder = PathBuf::from("/run/brisk-bench");
        fs::create_dir_all(&folder)?;
        Ok(Self { root: PathBuf::from("/"), folder })
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A running daemon; dropping this ends it, with everything restored.
pub(super) struct Daemon {
    pub(super) child: Child,
    brisk: PathBuf,
    root: PathBuf,
}

impl Daemon {
    pub(super) fn start(brisk: &Path, tree: &Tree, config: &str) -> anyhow::Result<Self> {
        let file = tree.folder.join("brisk.toml");
        fs::write(&file, config)?;
        let mut command = Command::new(brisk);
        command.arg("--root").arg(&tree.root).arg("daemon").arg("--config").arg(&file);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let mut daemon = Self { child, brisk: brisk.to_owned(), root: tree.root.clone() };
        let start = Instant::now();
        while daemon.status().is_err() {
            if let Some(status) = daemon.child.try_wait()? {
                bail!("the daemon ended at once ({status}); process events need CAP_NET_ADMIN, so run this as root");
            }
            ensure!(start.elapsed() < Duration::from_secs(10), "the daemon does not answer on its control socket");
            sleep(Duration::from_millis(20));
        }
        Ok(daemon)
    }

    pub(super) fn status(&self) -> anyhow::Result<serde_json::Value> {
        let output = Command::new(&self.brisk).arg("--root").arg(&self.root).args(["status", "--json"]).output()?;
        ensure!(output.status.success(), "brisk status: {}", String::from_utf8_lossy(&output.stderr).trim());
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// From event to write, and the daemon's own part of it.
    pub(super) fn latencies(&self) -> anyhow::Result<[Histogram; 2]> {
        let mut metrics = self.status()?["metrics"].take();
        let mut histogram = |name: &str| {
            serde_json::from_value(metrics[name].take()).with_context(|| format!("no {name} in brisk status"))
        };
        Ok([histogram("event_to_write")?, histogram("wake_to_write")?])
    }

    pub(super) fn cpu_time(&self) -> anyhow::Result<Duration> {
        let text = fs::read_to_string(format!("/proc/{}/schedstat", self.child.id()))?;
        let nanoseconds = text.split_ascii_whitespace().next().context("an empty schedstat")?;
        Ok(Duration::from_nanos(nanoseconds.parse()?))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Not Child::kill, which is SIGKILL: the daemon must restore everything.
        if let Some(pid) = Pid::from_raw(self.child.id().cast_signed()) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let _ = self.child.wait();
    }
}
