//! Killing a process for its memory: pidfd_open(2), pidfd_send_signal(2), process_mrelease (Linux 5.15).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::process::{PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};

use crate::process;

/// Its number is the same on every architecture, and not every C library names it.
const PROCESS_MRELEASE: libc::c_long = 448;

/// A handle on one life of a process: its number may be reused, but this never refers to another process. Readable when the
/// process has ended.
#[derive(Debug)]
pub struct ProcessHandle {
    pidfd: OwnedFd,
}

/// What happened to the memory of a process that was killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryRelease {
    /// It was freed now, before the process itself did so.
    Released,
    /// The process has already freed it.
    AlreadyGone,
    /// The kernel does not support it, or not now; the process frees it when it ends.
    Refused,
}

impl ProcessHandle {
    /// A handle on process `pid`.
    ///
    /// # Errors
    /// ESRCH when it has ended, ENOSYS before Linux 5.3.
    pub fn on(pid: u32) -> io::Result<Self> {
        let pid = process::id(pid).ok_or(Errno::SRCH)?;
        Ok(Self { pidfd: pidfd_open(pid, PidfdFlags::empty())? })
    }

    /// Kills the process.
    ///
    /// # Errors
    /// ESRCH when it has ended, EPERM without permission.
    pub fn kill(&self) -> io::Result<()> {
        Ok(pidfd_send_signal(&self.pidfd, Signal::KILL)?)
    }

    /// Frees the memory of the process, which was killed, in the caller's time: the process itself may be blocked.
    pub fn release_memory(&self) -> MemoryRelease {
        // SAFETY: two integers; the descriptor is open for as long as `self` is.
        let result = unsafe { libc::syscall(PROCESS_MRELEASE, self.pidfd.as_raw_fd(), 0u32) };
        match (result, Errno::from_io_error(&io::Error::last_os_error())) {
            (0, _) => MemoryRelease::Released,
            (_, Some(Errno::SRCH)) => MemoryRelease::AlreadyGone,
            _ => MemoryRelease::Refused,
        }
    }
}

impl AsFd for ProcessHandle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

/// Kills `pid` where the kernel has no pidfd: the number may have been reused since it was read.
///
/// # Errors
/// ESRCH when it has ended, EPERM without permission.
pub fn kill_by_pid(pid: u32) -> io::Result<()> {
    let pid = process::id(pid).ok_or(Errno::SRCH)?;
    Ok(kill_process(pid, Signal::KILL)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, Stdio};

    use super::*;

    // Verifies MEMORY-4.
    #[test]
    fn a_held_process_is_killed_once_and_its_memory_is_freed() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let hold = match ProcessHandle::on(child.id()) {
            Ok(hold) => hold,
            Err(error) => {
                child.kill().unwrap();
                child.wait().unwrap();
                return eprintln!("skipped: {error}");
            }
        };
        assert_eq!(hold.release_memory(), MemoryRelease::Refused, "it is alive");
        hold.kill().unwrap();
        let _ = hold.release_memory();
        assert_eq!(child.wait().unwrap().signal(), Some(9));
        assert_eq!(hold.kill().unwrap_err().raw_os_error(), Some(Errno::SRCH.raw_os_error()));
        assert_ne!(hold.release_memory(), MemoryRelease::Released);
        assert!(ProcessHandle::on(u32::MAX).is_err() && kill_by_pid(u32::MAX).is_err());
    }
}
