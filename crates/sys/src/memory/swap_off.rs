//! swapoff(2) in a process of its own.
//!
//! While swap is switched off, other processes may allocate what its content needs. The kernel's OOM killer then ends the
//! process that calls swapoff(2) first (`oom_task_origin()` of linux/oom.h): a child, not the caller, whose work goes on.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use rustix::io::{Errno, retry_on_intr};
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, getppid, kill_process, set_parent_process_death_signal, waitpid,
};

/// At a few hundred MiB/s, a period in which less than 1 MiB is moved.
const POLL_PERIOD: Duration = Duration::from_millis(2);

/// Switches off the swap area `file`. When `is_scarce`, which is called every few milliseconds, returns true, the area stays in
/// use.
///
/// # Errors
/// The kernel's answer; `Interrupted` when memory became scarce or the kernel's OOM killer ended the child.
pub fn switch_off(file: &Path, mut is_scarce: impl FnMut() -> bool) -> io::Result<()> {
    let child = start(&CString::new(file.as_os_str().as_bytes())?)?;
    loop {
        if let Some((_, ended)) = retry_on_intr(|| waitpid(Some(child), WaitOptions::NOHANG))? {
            return answer(ended.exit_status());
        }
        if is_scarce() {
            // swapoff(2) returns at the next process's memory; no page is lost.
            kill_process(child, Signal::KILL)?;
        }
        std::thread::sleep(POLL_PERIOD);
    }
}

/// Starts the child, whose exit status is the call's errno.
fn start(path: &CString) -> io::Result<Pid> {
    let parent = getpid();
    // SAFETY: the child makes system calls only, then exits: it neither allocates nor takes a lock.
    let forked = unsafe { libc::fork() };
    if forked == 0 {
        let errno = die_with_parent(parent).and_then(|()| call(path)).err().map_or(0, Errno::raw_os_error);
        // SAFETY: ends this process at once, without the parent's exit handlers.
        unsafe { libc::_exit(errno) }
    }
    if forked < 0 {
        return Err(io::Error::last_os_error());
    }
    Pid::from_raw(forked).ok_or_else(|| Errno::CHILD.into())
}

/// Ends this process when its parent ends: the process that restores the leases then calls swapoff(2) again.
fn die_with_parent(parent: Pid) -> Result<(), Errno> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if getppid() == Some(parent) { Ok(()) } else { Err(Errno::SRCH) }
}

fn call(path: &CString) -> Result<(), Errno> {
    // SAFETY: the kernel reads a string that ends with a zero byte and outlives the call.
    let result = unsafe { libc::syscall(libc::SYS_swapoff, path.as_ptr()) };
    if result == 0 {
        return Ok(());
    }
    Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
}

/// The result of a child that ended with `errno` as its exit status, or that was killed.
fn answer(errno: Option<i32>) -> io::Result<()> {
    match errno {
        Some(0) => Ok(()),
        Some(errno) => Err(io::Error::from_raw_os_error(errno)),
        None => Err(io::ErrorKind::Interrupted.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Verifies MEMORY-2.
    #[test]
    fn the_kernels_answer_and_a_kill_are_told_apart() {
        // Without CAP_SYS_ADMIN the kernel refuses; with it, there is no such file.
        let refused = switch_off(Path::new("/no such file"), || false).unwrap_err();
        assert!(matches!(refused.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied), "{refused}");
        assert!(answer(Some(0)).is_ok());
        assert_eq!(answer(None).unwrap_err().kind(), io::ErrorKind::Interrupted);
        assert_eq!(answer(Some(libc::EBUSY)).unwrap_err().raw_os_error(), Some(libc::EBUSY));
    }
}
