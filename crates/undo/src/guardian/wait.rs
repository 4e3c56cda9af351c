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
const BLIND_CHECK: Duration = Duration::from_secs(2);

/// Everything that can wake the guardian.
pub(super) struct Wait {
    lifeline: io::Stdin,
    timer: Timer,
    /// Readable when the log was written; `None` when the kernel provides no inotify watch.
    changes: Option<OwnedFd>,
}

/// What woke the guardian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Woken {
    DaemonDied,
    Moment,
    Changed,
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

    /// Sleeps until `moment`, if given, or until the journal has changed; changes within `gathered_for` cause one wake-up.
    /// True when the daemon has died.
    ///
    /// # Errors
    /// The kernel's error.
    pub(super) fn rest(&mut self, moment: Option<BootTime>, gathered_for: Duration) -> io::Result<bool> {
        let now = BootTime::now();
        let sooner = |other: BootTime| Some(moment.map_or(other, |moment| moment.min(other)));
        if self.changes.is_none() {
            return Ok(self.wait(sooner(now + BLIND_CHECK), false)? == Woken::DaemonDied);
        }
        // Until then the guardian does not poll for changes, so they cause no wake-ups.
        let gathered = now + gathered_for;
        match self.wait(sooner(gathered), false)? {
            Woken::Moment if moment.is_none_or(|moment| moment > gathered) => {}
            woken => return Ok(woken == Woken::DaemonDied),
        }
        Ok(self.wait(moment, true)? == Woken::DaemonDied)
    }

    fn wait(&mut self, moment: Option<BootTime>, heed_changes: bool) -> io::Result<Woken> {
        self.timer.set(moment)?;
        loop {
            let mut wanted = vec![PollFd::new(&self.lifeline, PollFlags::IN), PollFd::new(&self.timer, PollFlags::IN)];
            if let Some(changes) = self.changes.as_ref().filter(|_| heed_changes) {
                wanted.push(PollFd::new(changes, PollFlags::IN));
            }
            match poll(&mut wanted, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let ready: Vec<bool> = wanted.iter().map(|descriptor| !descriptor.revents().is_empty()).collect();
            // Nothing is ever written into the lifeline: it becomes readable only at end of file.
            if ready[0] && read(self.lifeline.as_fd(), &mut [0u8; 64])? == 0 {
                return Ok(Woken::DaemonDied);
            }
            if ready[1] {
                self.timer.acknowledge();
                return Ok(Woken::Moment);
            }
            if ready.get(2) == Some(&true) {
                self.forget_changes();
                return Ok(Woken::Changed);
            }
        }
    }

    fn forget_changes(&self) {
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
