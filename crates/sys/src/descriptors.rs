//! Which files this process has open, and how many it may (getrlimit(2)).

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that are left to the rest of the program.
const SPARE: u64 = 128;

/// Lets this process open as many files as it may, and says how many of them may be kept open.
pub(super) fn raise_limit() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let limit = if raised.is_ok() { maximum } else { current };
    limit.unwrap_or(u64::MAX).saturating_sub(SPARE)
}

/// Gives the calling thread descriptors of its own, and closes standard input and output there (unshare(2)). The other end of a
/// pipe hears that a process has died when the last thread that has the pipe open is gone.
///
/// # Errors
/// EPERM where a filter forbids it.
pub fn leave_standard_streams() -> io::Result<()> {
    // SAFETY: what the other threads have open stays open for them, and from here on this one cannot close it.
    if unsafe { libc::unshare(libc::CLONE_FILES) } != 0 {
        return Err(io::Error::last_os_error());
    }
    for descriptor in [libc::STDIN_FILENO, libc::STDOUT_FILENO] {
        // SAFETY: nothing in this process owns these two, and this thread does not use them.
        unsafe { libc::close(descriptor) };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    // Verifies UNDO-4.
    #[test]
    fn a_thread_leaves_the_pipes_of_its_process_which_keeps_them() {
        let streams = |folder: &str| {
            let folder = std::path::Path::new(folder);
            ["0", "1"].map(|descriptor| std::fs::symlink_metadata(folder.join(descriptor)).is_ok())
        };
        let before = streams("/proc/self/fd");
        let left = std::thread::spawn(move || {
            let outcome = leave_standard_streams();
            (outcome.is_ok(), streams("/proc/thread-self/fd"))
        });
        match left.join().unwrap() {
            (true, left) => assert_eq!(left, [false; 2]),
            (false, _) => eprintln!("skipped: unshare is forbidden"),
        }
        assert_eq!(streams("/proc/self/fd"), before);
    }
}
