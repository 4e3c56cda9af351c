//! What the guardian process does.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::sleep;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::READY;
use super::wait::Wait;
use crate::journal::{Holder, JournalError, Replay, Restoration, RestoreOutcome};
use brisk_sys::process::own_code;
use brisk_sys::{BootTime, Root};

/// A deadline is overdue this long after it has passed: a daemon that works is never that late.
const GRACE: Duration = Duration::from_secs(1);
/// Leases that begin within this time of a check are checked together: that many wake-ups during launches at most.
const GATHERED_FOR: Duration = Duration::from_secs(1);
/// What is overdue and refuses is tried again after this long, then after twice as long each time up to the longest.
const OVERDUE_RETRY: Duration = Duration::from_secs(2);
const OVERDUE_RETRY_LONGEST: Duration = Duration::from_secs(60);
const LOCK_RETRY: Duration = Duration::from_millis(10);
/// What refuses to be restored (an offline CPU, for instance) is tried again for this long after the daemon's death.
const REFUSED_RETRY: Duration = Duration::from_secs(1);
const REFUSED_RETRIES: u32 = 60;

/// Watches `daemon` through standard input, restores what it leaves overdue, and when it has died restores
/// everything, unless a new daemon has taken the journal. Sleeps while nothing is leased.
///
/// # Errors
/// When standard input or output is not a pipe of the daemon, or the journal cannot be used.
pub fn guard(holder: Holder, folder: &Path, root: &Root, daemon: u32) -> Result<(), GuardFault> {
    outlive_the_daemon();
    let mut wait = Wait::of(folder).map_err(GuardFault::Wait)?;
    // A daemon that is dead by now cannot read it, and will be noticed at once.
    let _ = io::stdout().write_all(READY).and_then(|()| io::stdout().flush());
    // It will sleep for long; where that is refused, it only keeps more mapped.
    let _ = own_code::unmap();
    let mut overdue = Overdue { holder, folder, root, retry: OVERDUE_RETRY, told: Vec::new() };
    loop {
        let next = overdue.give_back(BootTime::now());
        if wait.rest(next, GATHERED_FOR).map_err(GuardFault::Wait)? {
            return take_over(holder, folder, root, daemon);
        }
    }
}

/// Why the guardian gave up.
#[derive(Debug, thiserror::Error)]
pub enum GuardFault {
    /// The kernel would not let it sleep or read its pipe.
    #[error("the guardian cannot wait for the end of its daemon: {0}; is it started by `brisk daemon`?")]
    Wait(io::Error),
    /// The journal could not be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Something is still changed.
    #[error("not everything could be put back: {0}; `brisk restore` tries again")]
    Refused(String),
}

/// Its own session, no death by a signal that is meant for the daemon's group, and the last choice of the OOM killer.
/// What is not permitted is left: the guardian works without it.
fn outlive_the_daemon() {
    let _ = rustix::process::setsid();
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        // The flag is not read: the guardian ends with the daemon, and no signal of these ends it before.
        let _ = signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)));
    }
    let _ = Root::system().write("/proc/self/oom_score_adj", "-1000");
}

/// The leases that a hanging daemon does not restore.
struct Overdue<'a> {
    holder: Holder,
    folder: &'a Path,
    root: &'a Root,
    retry: Duration,
    /// What was said of those that are still in the log.
    told: Vec<Restoration>,
}

impl Overdue<'_> {
    /// Restores what is overdue at `now`, and says when there may be more.
    fn give_back(&mut self, now: BootTime) -> Option<BootTime> {
        let grace_ns = u64::try_from(GRACE.as_nanos()).unwrap_or(u64::MAX);
        let due = BootTime::from_nanoseconds(now.nanoseconds().saturating_sub(grace_ns));
        let (replay, next) = match Replay::overdue(self.holder, self.folder, self.root, due) {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!("{error}");
                return Some(self.next_retry(now));
            }
        };
        self.tell(&replay.restorations);
        let next = next.map(|deadline| deadline + GRACE);
        if replay.is_complete() {
            self.retry = OVERDUE_RETRY;
            return next;
        }
        let retry = self.next_retry(now);
        Some(next.map_or(retry, |next| next.min(retry)))
    }

    /// Says what became of each, once.
    fn tell(&mut self, restorations: &[Restoration]) {
        for restoration in restorations.iter().filter(|restoration| !self.told.contains(restoration)) {
            let Restoration { target, original, outcome } = restoration;
            match outcome {
                RestoreOutcome::Restored => {
                    tracing::warn!("the daemon hangs: {target} is overdue and holds {original} again");
                }
                RestoreOutcome::Refused { error } => tracing::warn!("{target} is overdue, and is tried again: {error}"),
                RestoreOutcome::ChangedByOther { .. } | RestoreOutcome::Vanished => {}
            }
        }
        self.told = restorations.to_vec();
    }

    fn next_retry(&mut self, now: BootTime) -> BootTime {
        let next = now + self.retry;
        self.retry = (self.retry * 2).min(OVERDUE_RETRY_LONGEST);
        next
    }
}

fn take_over(holder: Holder, folder: &Path, root: &Root, daemon: u32) -> Result<(), GuardFault> {
    let mut refused = 0;
    loop {
        match Replay::of(holder, folder, root) {
            Ok(replay) if replay.is_complete() => return Ok(()),
            Ok(replay) => {
                refused += 1;
                if refused > REFUSED_RETRIES {
                    let targets = replay.refused().map(|target| target.to_string());
                    return Err(GuardFault::Refused(targets.collect::<Vec<_>>().join(", ")));
                }
                sleep(REFUSED_RETRY);
            }
            // The kernel closes a dying process's descriptors one after the other: the pipe went before the lock. An
            // empty log is being begun by a process that will have put its name there next time.
            Err(JournalError::Locked { pid, .. }) if pid.is_none_or(|pid| pid == daemon) => sleep(LOCK_RETRY),
            // A new daemon, or `brisk restore`, has it and has replayed it.
            Err(JournalError::Locked { .. }) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}
