//! The guardian: a small process that outlives the daemon and puts back what its journal holds.
//!
//! Two pipes tie them together, which works on every kernel: the guardian's standard input ends when the daemon dies,
//! however it dies, and its standard output ends when the guardian does, so that the daemon can start another.

use std::io::{self, Read, Write};
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::journal::{JournalError, Replay};
use super::{BootTime, Root};

/// The name under which it runs: systemd's switch-root spares names that begin with `@`.
const NAME: &str = "@brisk-guardian";
/// What it says once it watches.
const READY: &[u8] = b"ready\n";
const READY_TIMEOUT: Duration = Duration::from_secs(5);
/// How often it looks for leases that a hanging daemon has not given back; the only time it wakes.
const CHECK_EVERY: Duration = Duration::from_secs(2);
/// A wake-up may be this late, so that the kernel can join it with another.
const TIMER_SLACK: Duration = Duration::from_millis(500);
/// A deadline is overdue this long after it has passed: a daemon that works is never that late.
const GRACE: Duration = Duration::from_secs(1);
const LOCK_RETRY: Duration = Duration::from_millis(10);
/// What refuses to be restored (an offline CPU, for instance) is tried again for this long after the daemon's death.
const REFUSED_RETRY: Duration = Duration::from_secs(1);
const REFUSED_RETRIES: u32 = 60;

/// The daemon's end of its guardian. Dropped, it lets the guardian see to the journal and end.
///
/// As a descriptor it is readable when the guardian has died.
#[derive(Debug)]
pub struct Guardian {
    child: Child,
    /// Kept open, never written: it ends with this process.
    _lifeline: ChildStdin,
    end: ChildStdout,
}

/// Why there is no guardian.
#[derive(Debug, thiserror::Error)]
pub enum GuardianError {
    /// This program could not be started a second time.
    #[error("cannot start the guardian ({}): {cause}; without it, changes outlive a kill until `brisk restore`", program.display())]
    Start {
        /// What was to be run.
        program: PathBuf,
        /// Why not.
        cause: io::Error,
    },
    /// It started but did not say that it watches.
    #[error("the guardian did not become ready: {0}; see its messages above")]
    NotReady(&'static str),
}

impl Guardian {
    /// Starts the guardian of the journal in `folder`, which is this process's, and waits until it watches.
    ///
    /// # Errors
    /// [`GuardianError`] when it does not come up.
    pub fn start(folder: &Path, root: &Root) -> Result<Self, GuardianError> {
        // This very program, even when its file has been replaced or removed meanwhile.
        let program = PathBuf::from("/proc/self/exe");
        let fault = |cause| GuardianError::Start { program: program.clone(), cause };
        let absolute = |path: &Path| std::path::absolute(path).map_err(fault);
        let mut child = Command::new(&program)
            .arg0(NAME)
            .arg("--root")
            .arg(absolute(&root.path("/"))?)
            .arg("guardian")
            .arg("--folder")
            .arg(absolute(folder)?)
            .arg("--daemon")
            .arg(std::process::id().to_string())
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(fault)?;
        let (Some(lifeline), Some(mut end)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(GuardianError::NotReady("it has no pipes"));
        };
        match wait_until_ready(&mut end) {
            Ok(()) => Ok(Self { child, _lifeline: lifeline, end }),
            Err(error) => {
                drop(lifeline);
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// True when it has ended; takes it off the process table then.
    pub fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        // One whose pipe has ended is dead or dying: waiting takes it off the process table. A living one is left to
        // end with the journal.
        if readable_within(self.end.as_fd(), Duration::ZERO) == Ok(true) {
            let _ = self.child.wait();
        }
    }
}

impl AsFd for Guardian {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.end.as_fd()
    }
}

fn wait_until_ready(end: &mut ChildStdout) -> Result<(), GuardianError> {
    let started = Instant::now();
    loop {
        let left = READY_TIMEOUT.saturating_sub(started.elapsed());
        match readable_within(end.as_fd(), left) {
            Ok(true) => break,
            Ok(false) => return Err(GuardianError::NotReady("it said nothing for 5 s")),
            Err(Errno::INTR) => {}
            Err(_) => return Err(GuardianError::NotReady("its pipe failed")),
        }
    }
    let mut said = [0u8; READY.len()];
    match end.read_exact(&mut said) {
        Ok(()) if said == READY => Ok(()),
        _ => Err(GuardianError::NotReady("it ended at once")),
    }
}

fn readable_within(fd: BorrowedFd<'_>, timeout: Duration) -> Result<bool, Errno> {
    let mut wanted = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    let timeout = Timespec::try_from(timeout).ok();
    Ok(poll(&mut wanted, timeout.as_ref())? > 0)
}

/// What the guardian process does: watch `daemon` through standard input, give back what it leaves overdue, and when it
/// has died give back everything, unless a new daemon has taken the journal.
///
/// # Errors
/// When standard input or output is not a pipe of the daemon, or the journal cannot be used.
pub fn guard(folder: &Path, root: &Root, daemon: u32) -> Result<(), GuardFault> {
    let lifeline = io::stdin();
    outlive_the_daemon();
    // A daemon that is dead by now cannot read it, and will be noticed at once.
    let _ = io::stdout().write_all(READY).and_then(|()| io::stdout().flush());
    loop {
        match readable_within(lifeline.as_fd(), CHECK_EVERY) {
            Ok(false) => give_back_overdue(folder, root),
            Ok(true) => {
                // Nothing is ever written: what can be read is the end.
                if io::stdin().read(&mut [0u8; 64]).map_err(GuardFault::Pipe)? == 0 {
                    break;
                }
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(GuardFault::Pipe(error.into())),
        }
    }
    take_over(folder, root, daemon)
}

/// Why the guardian gave up.
#[derive(Debug, thiserror::Error)]
pub enum GuardFault {
    /// It is started by the daemon, with pipes to it.
    #[error("the guardian is started by `brisk run`, not by hand: {0}")]
    Pipe(io::Error),
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
        // The flag is not looked at: the guardian ends with the daemon, whatever anybody asks of it.
        let _ = signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)));
    }
    let _ = Root::system().write("/proc/self/oom_score_adj", "-1000");
    let slack_ns = u64::try_from(TIMER_SLACK.as_nanos()).ok().and_then(NonZeroU64::new);
    let _ = rustix::thread::set_current_timer_slack(slack_ns);
}

fn give_back_overdue(folder: &Path, root: &Root) {
    let grace_ns = u64::try_from(GRACE.as_nanos()).unwrap_or(u64::MAX);
    let due = BootTime::from_nanoseconds(BootTime::now().nanoseconds().saturating_sub(grace_ns));
    match Replay::overdue(folder, root, due) {
        Ok(replay) => {
            for restoration in replay.restorations {
                tracing::warn!("the daemon hangs: gave back {}: {:?}", restoration.target, restoration.outcome);
            }
        }
        Err(error) => tracing::warn!("{error}"),
    }
}

fn take_over(folder: &Path, root: &Root, daemon: u32) -> Result<(), GuardFault> {
    let mut refused = 0;
    loop {
        match Replay::of(folder, root) {
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
            // empty log is being begun by somebody, who will have put his name there next time.
            Err(JournalError::Locked { pid, .. }) if pid.is_none_or(|pid| pid == daemon) => sleep(LOCK_RETRY),
            // A new daemon, or `brisk restore`, has it and has replayed it.
            Err(JournalError::Locked { .. }) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}
