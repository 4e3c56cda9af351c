//! CPU time and memory of the daemon when nothing happens.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use super::device::{Daemon, Tree};

/// The killer with everything on, and a process that it may kill.
const KILLS_ONE: &str = "[launch]\nenabled = false\n[memory.killer]\nenabled = true\nprefetch = true\nlowest_adj = 1000\n\
                         reserve_kib = 67108864\npageout.target_kib = 67108864\nwriteback.daily_kib = 8192\n";
pub(super) const IDLE: Duration = Duration::from_secs(30);

pub(super) struct Idle {
    pub(super) cpu_percent: f64,
    pub(super) resident_kib: u64,
    pub(super) guardian_kib: u64,
}

/// Only an announced launch is a trigger: the daemon counts no activity of the machine as a launch.
// Verifies COST-2.
pub(super) fn idle(brisk: &Path, tree: &Tree) -> anyhow::Result<Idle> {
    let daemon = Daemon::start(brisk, tree, "[launch]\ntriggers = [\"announced\"]\n")?;
    sleep(Duration::from_secs(1));
    let before = daemon.cpu_time()?;
    sleep(IDLE);
    let spent = daemon.cpu_time()? - before;
    let pid = daemon.child.id();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let guardian_kib = children.split_ascii_whitespace().map(resident_kib).sum::<anyhow::Result<u64>>()?;
    let cpu_percent = spent.as_secs_f64() / IDLE.as_secs_f64() * 100.0;
    Ok(Idle { cpu_percent, resident_kib: resident_kib(&pid.to_string())?, guardian_kib })
}

fn resident_kib(pid: &str) -> anyhow::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    Ok(line.split_ascii_whitespace().next().context("an empty VmRSS")?.parse()?)
}

/// The memory that the daemon and its children have locked, after the killer has ended a process: the resident part of all
/// locked mappings, each page as often as it is mapped.
// Verifies COST-3.
pub(super) fn locked(brisk: &Path, tree: &Tree) -> anyhow::Result<u64> {
    let mut victim = Command::new(std::env::current_exe()?).arg("receiver").stdin(Stdio::piped()).spawn()?;
    fs::write(format!("/proc/{}/oom_score_adj", victim.id()), "1000")?;
    let daemon = Daemon::start(brisk, tree, KILLS_ONE)?;
    ensure!(!victim.wait()?.success(), "no process was killed");
    let pid = daemon.child.id();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
    let pids = children.split_ascii_whitespace().map(str::to_owned).chain([pid.to_string()]);
    pids.map(|pid| Ok(locked_in(&fs::read_to_string(format!("/proc/{pid}/smaps"))?))).sum()
}

fn locked_in(smaps: &str) -> u64 {
    let mut resident_kib = 0;
    let mut locked_kib = 0;
    for line in smaps.lines() {
        if let Some(size) = line.strip_prefix("Rss:") {
            resident_kib = size.split_ascii_whitespace().next().and_then(|kib| kib.parse().ok()).unwrap_or(0);
        } else if line.starts_with("VmFlags:") && line.split_ascii_whitespace().any(|flag| flag == "lo") {
            locked_kib += resident_kib;
        }
    }
    locked_kib
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_parts_of_locked_mappings_are_summed() {
        let mapping = |kib, flags| {
            format!("7f00-7f10 rw-p 0 0:0 0\nSize: 99 kB\nRss: {kib} kB\nLocked: 1 kB\nVmFlags: {flags}\n")
        };
        assert_eq!(locked_in(&[mapping(40, "rd wr lo lf"), mapping(7, "rd wr"), mapping(2, "rd lo")].concat()), 42);
    }
}
