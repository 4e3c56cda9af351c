//! Kills one process: holds it by a pidfd, kills it, reaps its memory, and measures how much memory that returns.

use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use brisk_mechanism::memory::config::KillerConfig;
use brisk_mechanism::memory::victim::{Candidate, Victim};
use brisk_sys::memory::{meminfo, process_memory};
use brisk_sys::process::process_kill::{MemoryRelease, ProcessHandle, kill_by_pid};
use brisk_sys::{BootTime, Root, process};

/// The nice value of a victim, which has nothing left to do but exit.
const VICTIM_NICE: i32 = -20;

/// The result of a kill.
#[derive(Debug)]
pub(super) struct KillResult {
    /// When it was killed.
    pub(super) killed_at: BootTime,
    /// When its memory was free; `None` when it has not exited.
    pub(super) freed_at: Option<BootTime>,
    /// How much memory that freed.
    pub(super) returned_kib: Option<i64>,
    /// Its exact memory figures, if configured.
    pub(super) audit: Option<Audit>,
}

/// The exact memory figures of a process, and the time to read them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Audit {
    pub(super) exact: process_memory::ProportionalMemory,
    /// The time to read the cheap figures.
    pub(super) estimated_in: Duration,
    /// The time to read the exact ones.
    pub(super) audited_in: Duration,
}

impl Audit {
    fn of(root: &Root, pid: u32) -> Option<Self> {
        let begun = BootTime::now();
        process_memory::read(root, pid).ok()?;
        let estimated = BootTime::now();
        let exact = process_memory::proportional(root, pid).ok()?;
        let audited_in = BootTime::now().since(estimated);
        Some(Self { exact, estimated_in: estimated.since(begun), audited_in })
    }
}

/// The process to kill, as it was when memory was sampled.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chosen<'a> {
    pub(super) victim: &'a Victim,
    pub(super) candidate: &'a Candidate,
    /// The time of the sample, before any process was read.
    pub(super) sampled_at: BootTime,
}

/// Kills the chosen process if it is still the one that was sampled; `None` when it was not killed.
///
/// # Errors
/// When the free memory cannot be read.
pub(super) fn end(root: &Root, config: &KillerConfig, chosen: Chosen<'_>) -> anyhow::Result<Option<KillResult>> {
    let victim = chosen.victim;
    // First the hold: while the held process lives, its pid cannot be reused, so all reads by pid after this are of it.
    let hold = ProcessHandle::on(victim.pid);
    if !is_same_process(root, &chosen) {
        return Ok(None);
    }
    let audit = if config.audit { Audit::of(root, victim.pid) } else { None };
    let free_before_kib = meminfo::read(root)?.free_kib;
    let killed = match &hold {
        Ok(hold) => hold.kill(),
        Err(_) => kill_by_pid(victim.pid),
    };
    let killed_at = BootTime::now();
    if let Err(error) = killed {
        tracing::debug!("{} was not killed: {error}", victim.name);
        return Ok(None);
    }
    let freed_at = wait_for_exit(config, victim, hold.ok().as_ref(), killed_at);
    let returned_kib = match freed_at {
        Some(_) => Some(meminfo::read(root)?.free_kib as i64 - free_before_kib as i64),
        None => None,
    };
    Ok(Some(KillResult { killed_at, freed_at, returned_kib, audit }))
}

/// True while the pid is that of the sampled process, since the kernel reuses pids. A process that started before the sample
/// had the pid then, so it is the same one; one that started within the same clock tick may be another and is not killed. The
/// properties that made it the victim must not have changed either.
fn is_same_process(root: &Root, Chosen { candidate, sampled_at, .. }: &Chosen<'_>) -> bool {
    let pid = candidate.pid;
    let sampled_ticks = sampled_at.nanoseconds() / (process::TICK_MS * 1_000_000);
    process::start_time_ticks(root, pid).is_ok_and(|ticks| ticks < sampled_ticks)
        && process_memory::oom_score_adj(root, pid).is_ok_and(|adj| adj == candidate.oom_score_adj)
        && process_memory::read_with_owner(root, pid).is_ok_and(|found| {
            found.is_some_and(|(owner, _)| {
                owner.uid == candidate.uid && owner.name.is_none_or(|name| name == candidate.name)
            })
        })
}

/// Waits until `victim` has exited, and returns when its memory was free; `None` after the configured patience.
fn wait_for_exit(
    config: &KillerConfig,
    victim: &Victim,
    hold: Option<&ProcessHandle>,
    killed_at: BootTime,
) -> Option<BootTime> {
    let limit = killed_at + Duration::from_millis(config.patience_ms);
    let Some(hold) = hold else {
        while BootTime::now() < limit {
            if process::has_ended(victim.pid) {
                return Some(BootTime::now());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        return None;
    };
    if let Some(pid) = process::id(victim.pid) {
        // Shortens the victim's run-queue delay. Without the permission, its exit takes longer.
        let _ = rustix::process::setpriority_process(Some(pid), VICTIM_NICE);
    }
    let released_at = (hold.release_memory() == MemoryRelease::Released).then(BootTime::now);
    loop {
        let left = Timespec::try_from(limit.since(BootTime::now())).ok();
        match poll(&mut [PollFd::new(hold, PollFlags::IN)], left.as_ref()) {
            Ok(0) => {
                tracing::warn!("{} ({}) still exists {} ms after SIGKILL", victim.name, victim.pid, config.patience_ms);
                return released_at;
            }
            Ok(_) => return Some(released_at.unwrap_or_else(BootTime::now)),
            Err(Errno::INTR) => {}
            Err(_) => return released_at,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;
    use brisk_mechanism::memory::candidates;
    use brisk_mechanism::memory::killer::{self, Sample};

    /// A child process that waits for its input, and its candidate as in a sample.
    fn started() -> (Child, Candidate) {
        let child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let (root, pid) = (Root::system(), child.id());
        // Until exec, its name is that of this program.
        while process::command(&root, pid).unwrap() != "cat" {
            std::thread::yield_now();
        }
        let oom_score_adj = process_memory::oom_score_adj(&root, pid).unwrap();
        let uid = Some(rustix::process::getuid().as_raw());
        // It must have started in an earlier tick than that of the sample.
        std::thread::sleep(Duration::from_millis(2 * process::TICK_MS));
        (child, Candidate { pid, name: "cat".to_owned(), uid, oom_score_adj, ..Candidate::default() })
    }

    fn end_of(candidate: &Candidate, sampled_at: BootTime) -> Option<KillResult> {
        let Candidate { pid, name, .. } = candidate.clone();
        let victim = Victim { pid, name, oom_score_adj: 0, predicted_kib: 0, reason: String::new() };
        let chosen = Chosen { victim: &victim, candidate, sampled_at };
        end(&Root::system(), &KillerConfig::default(), chosen).unwrap()
    }

    // Verifies MEMORY-3.
    #[test]
    fn a_process_other_than_the_chosen_one_is_not_killed() {
        let before = BootTime::now();
        let (mut child, candidate) = started();
        assert!(end_of(&candidate, before).is_none(), "its pid may have been another process's at the sample");
        assert!(child.try_wait().unwrap().is_none(), "it lives");
        let uid = Some(candidate.uid.unwrap() + 1);
        for other in [
            Candidate { uid, ..candidate.clone() },
            Candidate { name: "gallery".to_owned(), ..candidate.clone() },
            Candidate { oom_score_adj: candidate.oom_score_adj - 1, ..candidate.clone() },
        ] {
            assert!(end_of(&other, BootTime::now()).is_none(), "{other:?}");
            assert!(child.try_wait().unwrap().is_none(), "it lives");
        }
        let ending = end_of(&candidate, BootTime::now()).unwrap();
        assert!(ending.freed_at.is_some_and(|freed_at| freed_at >= ending.killed_at) && ending.returned_kib.is_some());
        assert!(!child.wait().unwrap().success());
    }

    /// A process of user `uid` with the name of a system process, and its candidate as the killer finds it.
    fn disguised(folder: &std::path::Path, uid: Option<u32>) -> (Child, Candidate) {
        let program = folder.join("systemd-x");
        if !program.exists() {
            std::os::unix::fs::symlink("/bin/cat", &program).unwrap();
        }
        let mut command = Command::new(&program);
        if let Some(uid) = uid {
            std::os::unix::process::CommandExt::uid(&mut command, uid);
        }
        let child = command.stdin(Stdio::piped()).spawn().unwrap();
        while process::command(&Root::system(), child.id()).unwrap() != "systemd-x" {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(2 * process::TICK_MS));
        let found = candidates(&Root::system(), i16::MIN, false, &|_| false, &mut Vec::new()).unwrap();
        let own = found.into_iter().find(|candidate| candidate.pid == child.id()).unwrap();
        (child, own)
    }

    // Verifies MEMORY-3.
    #[test]
    fn a_user_process_with_a_system_name_is_killed() {
        let is_root = rustix::process::geteuid().is_root();
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let config = KillerConfig { lowest_adj: -999, ..KillerConfig::default() };
        let protection = killer::protection(&config, false);
        let group_of = |pid| process::group(&Root::system(), pid);
        for (uid, is_killed) in [(is_root.then_some(12_345), true), (None, !is_root)] {
            let (mut child, candidate) = disguised(folder.path(), uid);
            let mut found = [candidate];
            let sampled_at = BootTime::now();
            let chosen = killer::choose(&config, &Sample::default(), i16::MIN, &mut found, (&protection, &group_of));
            let ending = chosen.and_then(|victim| {
                end(&Root::system(), &config, Chosen { victim: &victim, candidate: &found[0], sampled_at }).unwrap()
            });
            assert_eq!(ending.is_some(), is_killed, "{found:?}");
            drop(child.stdin.take());
            assert_eq!(child.wait().unwrap().success(), !is_killed);
        }
    }

    // Verifies MEMORY-3.
    #[test]
    fn no_kill_is_reported_for_a_victim_that_exited_before() {
        let (mut child, candidate) = started();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(end_of(&candidate, BootTime::now()).is_none());
    }
}
