//! The guardian's main loop.

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
use brisk_sys::sched::own_policy;
use brisk_sys::{BootTime, Root};

/// A lease is overdue this long after its deadline: a working daemon is never that late.
const GRACE: Duration = Duration::from_secs(1);
/// Leases that begin within this time of a check are checked together, so launches cause at most one wake-up per period.
const COALESCING_WINDOW: Duration = Duration::from_secs(1);
/// First pause before a failed restore of an overdue lease is retried; it doubles each time up to the longest.
const OVERDUE_RETRY: Duration = Duration::from_secs(2);
const OVERDUE_RETRY_LONGEST: Duration = Duration::from_secs(60);
const LOCK_RETRY: Duration = Duration::from_millis(10);
/// After the daemon's death, failed restores (for example of an offline CPU) are retried this often and this many times.
const REFUSED_RETRY: Duration = Duration::from_secs(1);
const REFUSED_RETRIES: u32 = 60;

/// Watches `daemon` through standard input and restores overdue leases. When the daemon has died, restores everything,
/// unless a new daemon has locked the journal. Sleeps while nothing is leased.
///
/// # Errors
/// When standard input or output is not a pipe of the daemon, or the journal cannot be used.
pub fn guard(holder: Holder, folder: &Path, root: &Root, daemon: u32) -> Result<(), GuardFault> {
    detach_from_daemon();
    let mut wait = Wait::of(folder).map_err(GuardFault::Wait)?;
    // A failed write means that the daemon has died, which the loop below notices at once.
    let _ = io::stdout().write_all(READY).and_then(|()| io::stdout().flush());
    // It restores as an ordinary task: many leases take longer than audio may wait.
    if own_policy::is_real_time() {
        let _ = own_policy::become_ordinary();
    }
    // The guardian sleeps for long, so it needs little memory; a failure only leaves more pages mapped.
    let _ = own_code::unmap();
    let mut overdue = Overdue { holder, folder, root, retry: OVERDUE_RETRY, reported: Vec::new() };
    loop {
        let next = overdue.restore(BootTime::now());
        if wait.sleep_until(next, COALESCING_WINDOW).map_err(GuardFault::Wait)? {
            return restore_after_death(holder, folder, root, daemon);
        }
    }
}

/// Why the guardian gave up.
#[derive(Debug, thiserror::Error)]
pub enum GuardFault {
    /// Sleeping or reading the pipe failed.
    #[error("the guardian cannot wait for the end of its daemon: {0}; is it started by `brisk daemon`?")]
    Wait(io::Error),
    /// The journal could not be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Some targets are still changed.
    #[error("cannot restore {0}; `brisk restore` tries again")]
    Refused(String),
}

/// Enters its own session, survives signals that are meant for the daemon's process group, and gets oom_score_adj -1000.
/// The guardian works without any of these, so failures are ignored.
fn detach_from_daemon() {
    let _ = rustix::process::setsid();
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        // The flag is never read: a handler is enough to keep the signal from ending the guardian before the daemon.
        let _ = signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)));
    }
    let _ = Root::system().write("/proc/self/oom_score_adj", "-1000");
}

/// Restores the leases that a hanging daemon does not restore.
struct Overdue<'a> {
    holder: Holder,
    folder: &'a Path,
    root: &'a Root,
    retry: Duration,
    /// The outcomes already reported, of leases that are still in the log.
    reported: Vec<Restoration>,
}

impl Overdue<'_> {
    /// Restores the leases that are overdue at `now`, and returns when the next ones may be.
    fn restore(&mut self, now: BootTime) -> Option<BootTime> {
        let grace_ns = u64::try_from(GRACE.as_nanos()).unwrap_or(u64::MAX);
        let due = BootTime::from_nanoseconds(now.nanoseconds().saturating_sub(grace_ns));
        let (replay, next) = match Replay::overdue(self.holder, self.folder, self.root, due) {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!("{error}");
                return Some(self.next_retry(now));
            }
        };
        self.report(&replay.restorations);
        let next = next.map(|deadline| deadline + GRACE);
        if replay.is_complete() {
            self.retry = OVERDUE_RETRY;
            return next;
        }
        let retry = self.next_retry(now);
        Some(next.map_or(retry, |next| next.min(retry)))
    }

    /// Reports each outcome once.
    fn report(&mut self, restorations: &[Restoration]) {
        for restoration in restorations.iter().filter(|restoration| !self.reported.contains(restoration)) {
            let Restoration { target, original, outcome } = restoration;
            match outcome {
                RestoreOutcome::Restored => {
                    tracing::warn!("the daemon hangs: overdue {target} was restored to {original}");
                }
                RestoreOutcome::Refused { error } => tracing::warn!("{target} is overdue, restore will retry: {error}"),
                RestoreOutcome::ChangedByOther { .. } | RestoreOutcome::Vanished => {}
            }
        }
        self.reported = restorations.to_vec();
    }

    fn next_retry(&mut self, now: BootTime) -> BootTime {
        let next = now + self.retry;
        self.retry = (self.retry * 2).min(OVERDUE_RETRY_LONGEST);
        next
    }
}

fn restore_after_death(holder: Holder, folder: &Path, root: &Root, daemon: u32) -> Result<(), GuardFault> {
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
            // The kernel closes a dying process's descriptors one by one: the pipe before the lock. A log without a pid is
            // being created by a process whose pid will be in it at the next attempt.
            Err(JournalError::Locked { pid, .. }) if pid.is_none_or(|pid| pid == daemon) => sleep(LOCK_RETRY),
            // A new daemon, or `brisk restore`, has locked the journal and replayed it.
            Err(JournalError::Locked { .. }) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}
