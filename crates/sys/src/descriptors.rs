//! The limit of this process's open files (getrlimit(2)), and a descriptor table of a thread's own (unshare(2)).

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors reserved for the rest of the program.
const RESERVED_DESCRIPTORS: u64 = 128;

/// Raises the soft limit of open files to the hard limit, and returns how many files may be kept open.
pub(super) fn raise_limit() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let limit = if raised.is_ok() { maximum } else { current };
    limit.unwrap_or(u64::MAX).saturating_sub(RESERVED_DESCRIPTORS)
}

/// Gives the calling thread its own descriptor table, and closes standard input and output in it (unshare(2)). The other end of
/// a pipe sees the death of a process only when the last thread that has the pipe open has exited.
///
/// # Errors
/// EPERM where a filter forbids it.
pub fn unshare_standard_streams() -> io::Result<()> {
    // SAFETY: the other threads keep their open files, and from here on this thread cannot close them.
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
    fn a_thread_closes_its_streams_and_its_process_keeps_them() {
        let streams = |folder: &str| {
            let folder = std::path::Path::new(folder);
            ["0", "1"].map(|descriptor| std::fs::symlink_metadata(folder.join(descriptor)).is_ok())
        };
        let before = streams("/proc/self/fd");
        let left = std::thread::spawn(move || {
            let outcome = unshare_standard_streams();
            (outcome.is_ok(), streams("/proc/thread-self/fd"))
        });
        match left.join().unwrap() {
            (true, left) => assert_eq!(left, [false; 2]),
            (false, _) => eprintln!("skipped: unshare is forbidden"),
        }
        assert_eq!(streams("/proc/self/fd"), before);
    }
}
