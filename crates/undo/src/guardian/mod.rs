//! The guardian: a small process that outlives the daemon and restores the leases in its journal.
//!
//! Two pipes connect them, which works on every kernel. The guardian's standard input reaches end of file when the daemon
//! dies, even by SIGKILL; its standard output does when the guardian dies, so that the daemon can start another one.

mod main_loop;
mod wait;

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::journal::Holder;
use brisk_sys::Root;
use brisk_sys::sched::own_policy;
pub use main_loop::{GuardFault, guard};

/// The name under which it runs: systemd's switch-root spares names that begin with `@`.
const NAME: &str = "@brisk-guardian";
/// The line that it writes once it watches.
const READY: &[u8] = b"ready\n";
const READY_TIMEOUT: Duration = Duration::from_secs(5);

/// The daemon's handle on its guardian. When it is dropped, the guardian restores what the journal still holds and exits.
///
/// As a descriptor it becomes readable when the guardian has died.
#[derive(Debug)]
pub struct Guardian {
    child: Child,
    /// Kept open and never written: the kernel closes it when this process ends.
    _lifeline: ChildStdin,
    end: ChildStdout,
}

/// Why no guardian runs.
#[derive(Debug, thiserror::Error)]
pub enum GuardianError {
    /// This program could not be started as a guardian.
    #[error("cannot start the guardian ({}): {cause}; without it, changes outlive a kill until `brisk restore`", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// The reason.
        cause: io::Error,
    },
    /// It started but did not report that it watches.
    #[error("the guardian did not become ready: {0}; see its messages above")]
    NotReady(&'static str),
}

impl Guardian {
    /// Starts the guardian of `holder`'s journal in `folder`, which this process has open, and waits until it watches.
    ///
    /// # Errors
    /// [`GuardianError`] when it does not start.
    pub fn start(holder: Holder, folder: &Path, root: &Root) -> Result<Self, GuardianError> {
        // The running program, even when its file has been replaced or removed since.
        let program = PathBuf::from("/proc/self/exe");
        let fault = |cause| GuardianError::Start { program: program.clone(), cause };
        let absolute = |path: &Path| std::path::absolute(path).map_err(fault);
        let mut command = Command::new(&program);
        command
            .arg0(NAME)
            .arg("--root")
            .arg(absolute(&root.path("/"))?)
            .args(["guardian", "--journal", holder.name()])
            .arg("--folder")
            .arg(absolute(folder)?)
            .arg("--daemon")
            .arg(std::process::id().to_string())
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        // Until it watches, a kill of this process leaves everything changed: its start must not wait for other tasks.
        let mut child = own_policy::passing_on(|| command.spawn()).map_err(fault)?;
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

    /// True when it has exited; reaps it then.
    pub fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        // A guardian whose pipe has ended is dead or dying: reap it. A living one is not waited for: it exits once the
        // journal is restored.
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
            Ok(false) => return Err(GuardianError::NotReady("it wrote nothing for 5 s")),
            Err(Errno::INTR) => {}
            Err(_) => return Err(GuardianError::NotReady("its pipe failed")),
        }
    }
    let mut said = [0u8; READY.len()];
    match end.read_exact(&mut said) {
        Ok(()) if said == READY => Ok(()),
        _ => Err(GuardianError::NotReady("it exited at once")),
    }
}

fn readable_within(fd: BorrowedFd<'_>, timeout: Duration) -> Result<bool, Errno> {
    let mut wanted = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    let timeout = Timespec::try_from(timeout).ok();
    Ok(poll(&mut wanted, timeout.as_ref())? > 0)
}
