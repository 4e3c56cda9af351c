//! How the guardian sleeps: until the daemon dies, a deadline passes, or the journal changes.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::inotify::{self, WatchFlags};
use rustix::io::{Errno, read};

use brisk_sys::{BootTime, Timer};

/// Without inotify the journal is read this often.
const POLL_PERIOD: Duration = Duration::from_secs(2);

/// Everything that can wake the guardian.
pub(super) struct Wait {
    lifeline: io::Stdin,
    timer: Timer,
    /// Readable when the log was written; `None` when the kernel provides no inotify watch.
    changes: Option<OwnedFd>,
}

/// What woke the guardian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WakeReason {
    DaemonDied,
    DeadlinePassed,
    JournalChanged,
}

impl Wait {
    /// Watches the journal in `folder`, and standard input, which the daemon holds open.
    ///
    /// # Errors
    /// When the kernel provides no timer.
    pub(super) fn of(folder: &Path) -> io::Result<Self> {
        let changes = watch(folder)
            .inspect_err(|error| tracing::warn!("cannot watch {}: {error}; it is polled", folder.display()));
        Ok(Self { lifeline: io::stdin(), timer: Timer::new()?, changes: changes.ok() })
    }

    /// Sleeps until `deadline`, if given, or until the journal has changed; changes within `coalescing_window` cause one wake-up.
    /// True when the daemon has died.
    ///
    /// # Errors
    /// The kernel's error.
    pub(super) fn sleep_until(&mut self, deadline: Option<BootTime>, coalescing_window: Duration) -> io::Result<bool> {
        let now = BootTime::now();
        let sooner = |other: BootTime| Some(deadline.map_or(other, |deadline| deadline.min(other)));
        if self.changes.is_none() {
            return Ok(self.wait(sooner(now + POLL_PERIOD), false)? == WakeReason::DaemonDied);
        }
        // Until then the guardian does not poll for changes, so they cause no wake-ups.
        let window_end = now + coalescing_window;
        match self.wait(sooner(window_end), false)? {
            WakeReason::DeadlinePassed if deadline.is_none_or(|deadline| deadline > window_end) => {}
            woken => return Ok(woken == WakeReason::DaemonDied),
        }
        Ok(self.wait(deadline, true)? == WakeReason::DaemonDied)
    }

    fn wait(&mut self, deadline: Option<BootTime>, wakes_on_changes: bool) -> io::Result<WakeReason> {
        self.timer.set(deadline)?;
        loop {
            let mut wanted = vec![PollFd::new(&self.lifeline, PollFlags::IN), PollFd::new(&self.timer, PollFlags::IN)];
            if let Some(changes) = self.changes.as_ref().filter(|_| wakes_on_changes) {
                wanted.push(PollFd::new(changes, PollFlags::IN));
            }
            match poll(&mut wanted, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let ready: Vec<bool> = wanted.iter().map(|descriptor| !descriptor.revents().is_empty()).collect();
            // Nothing is ever written into the lifeline: it becomes readable only at end of file.
            if ready[0] && read(self.lifeline.as_fd(), &mut [0u8; 64])? == 0 {
                return Ok(WakeReason::DaemonDied);
            }
            if ready[1] {
                self.timer.acknowledge();
                return Ok(WakeReason::DeadlinePassed);
            }
            if ready.get(2) == Some(&true) {
                self.drain_changes();
                return Ok(WakeReason::JournalChanged);
            }
        }
    }

    fn drain_changes(&self) {
        let Some(changes) = &self.changes else { return };
        // All events mean the same: the journal must be read again.
        while read(changes, &mut [0u8; 4096]).is_ok_and(|length| length > 0) {}
    }
}

fn watch(folder: &Path) -> io::Result<OwnedFd> {
    let changes = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
    inotify::add_watch(&changes, folder.join("journal"), WatchFlags::MODIFY)?;
    Ok(changes)
}
