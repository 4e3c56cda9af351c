//! fork(2) without an exec: how Android's zygote starts applications.

use std::fs;
use std::io;

use rustix::process::Pid;

/// Which process this is after [`fork`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forked {
    Child,
    /// The parent, with its child.
    Parent(Pid),
}

/// Duplicates this process, which must have one thread: of several only the caller's would continue in the child, and not
/// release the locks of the others.
///
/// # Errors
/// `Unsupported` when this process has several threads; EAGAIN or ENOMEM when there is no place for another process.
pub fn fork() -> io::Result<Forked> {
    let threads = fs::read_dir("/proc/self/task")?.count();
    if threads != 1 {
        return Err(io::Error::new(io::ErrorKind::Unsupported, format!("this process has {threads} threads")));
    }
    // SAFETY: there is no other thread, so the child has every thread of its memory, and no lock is held by a missing one.
    match unsafe { libc::fork() } {
        0 => Ok(Forked::Child),
        -1 => Err(io::Error::last_os_error()),
        pid => Pid::from_raw(pid).map(Forked::Parent).ok_or_else(io::Error::last_os_error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_several_threads_is_not_duplicated() {
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || stopped.recv());
        assert_eq!(fork().unwrap_err().kind(), io::ErrorKind::Unsupported);
        drop(stop);
        assert!(other.join().unwrap().is_err());
    }
}
