//! Ending one process: held, killed, its memory taken and counted.

use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::device::process_kill::{Hold, Release, kill_by_number};
use crate::device::{BootTime, Root, meminfo, process, process_memory};
use crate::mechanism::memory::config::KillerConfig;
use crate::mechanism::memory::victim::{Candidate, Victim};

/// A victim works for nobody but its own end.
const VICTIM_NICE: i32 = -20;

/// What became of a victim.
#[derive(Debug)]
pub(super) struct Ending {
    /// When it was killed.
    pub(super) killed_at: BootTime,
    /// When its memory was back; `None` when it has not gone.
    pub(super) back_at: Option<BootTime>,
    /// What it returned then.
    pub(super) returned_kib: Option<i64>,
    /// Its exact figures, where they were asked for.
    pub(super) audit: Option<Audit>,
}

/// The exact figures of a process, and what it takes to read them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Audit {
    pub(super) exact: process_memory::ProportionalMemory,
    /// Of the cheap figures.
    pub(super) estimated_in: Duration,
    /// Of the exact ones.
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

/// Ends `victim` if it is still the process that `candidate` was; `None` when nobody was killed.
///
/// # Errors
/// When it cannot be told how much memory is free.
pub(super) fn end(
    root: &Root,
    config: &KillerConfig,
    victim: &Victim,
    candidate: &Candidate,
) -> anyhow::Result<Option<Ending>> {
    let hold = Hold::on(victim.pid);
    if !is_still(root, candidate) {
        return Ok(None);
    }
    let audit = if config.audit { Audit::of(root, victim.pid) } else { None };
    let free_before_kib = meminfo::read(root)?.free_kib;
    let killed = match &hold {
        Ok(hold) => hold.kill(),
        Err(_) => kill_by_number(victim.pid),
    };
    let killed_at = BootTime::now();
    if let Err(error) = killed {
        tracing::debug!("{} was not killed: {error}", victim.name);
        return Ok(None);
    }
    let back_at = wait_for_end(config, victim, hold.ok().as_ref(), killed_at);
    let returned_kib = match back_at {
        Some(_) => Some(meminfo::read(root)?.free_kib as i64 - free_before_kib as i64),
        None => None,
    };
    Ok(Some(Ending { killed_at, back_at, returned_kib, audit }))
}

/// True while `candidate` is the process that was looked at: a number goes to another one when its owner has ended.
fn is_still(root: &Root, candidate: &Candidate) -> bool {
    process::command(root, candidate.pid).is_ok_and(|name| name == candidate.name)
        && process_memory::oom_score_adj(root, candidate.pid).is_ok_and(|adj| adj == candidate.oom_score_adj)
}

/// Waits until `victim` has gone, and says when its memory was back; `None` when it is given up.
fn wait_for_end(config: &KillerConfig, victim: &Victim, hold: Option<&Hold>, killed_at: BootTime) -> Option<BootTime> {
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
        // It may be one of those that wait longest for a CPU. Without the right to, it takes its time.
        let _ = rustix::process::setpriority_process(Some(pid), VICTIM_NICE);
    }
    let released_at = (hold.release_memory() == Release::Released).then(BootTime::now);
    loop {
        let left = Timespec::try_from(limit.since(BootTime::now())).ok();
        match poll(&mut [PollFd::new(hold, PollFlags::IN)], left.as_ref()) {
            Ok(0) => {
                tracing::warn!("{} ({}) has not gone after {} ms", victim.name, victim.pid, config.patience_ms);
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

    /// A process of ours that waits for its input, and what a look at it says.
    fn started() -> (Child, Candidate) {
        let child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let (root, pid) = (Root::system(), child.id());
        // Until then it is still this program.
        while process::command(&root, pid).unwrap() != "cat" {
            std::thread::yield_now();
        }
        let oom_score_adj = process_memory::oom_score_adj(&root, pid).unwrap();
        (child, Candidate { pid, name: "cat".to_owned(), oom_score_adj, ..Candidate::default() })
    }

    fn end_of(pid: u32, candidate: &Candidate) -> Option<Ending> {
        let name = candidate.name.clone();
        let victim = Victim { pid, name, oom_score_adj: 0, predicted_kib: 0, reason: String::new() };
        end(&Root::system(), &KillerConfig::default(), &victim, candidate).unwrap()
    }

    #[test]
    fn a_process_that_is_not_the_one_that_was_chosen_lives() {
        let (mut child, candidate) = started();
        for other in [
            Candidate { name: "gallery".to_owned(), ..candidate.clone() },
            Candidate { oom_score_adj: candidate.oom_score_adj - 1, ..candidate.clone() },
        ] {
            assert!(end_of(child.id(), &other).is_none(), "{other:?}");
            assert!(child.try_wait().unwrap().is_none(), "it lives");
        }
        let ending = end_of(child.id(), &candidate).unwrap();
        assert!(ending.back_at.is_some_and(|back_at| back_at >= ending.killed_at) && ending.returned_kib.is_some());
        assert!(!child.wait().unwrap().success());
    }

    #[test]
    fn a_process_that_has_gone_meanwhile_is_nobodys_death() {
        let (mut child, candidate) = started();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(end_of(child.id(), &candidate).is_none());
    }
}
