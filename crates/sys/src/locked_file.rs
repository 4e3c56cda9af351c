//! A file that one process at a time holds a lock on: flock(2).

use std::fs::File;
use std::io;
use std::ops::{Deref, DerefMut};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// A locked file. The kernel releases the lock when the process ends in any way.
#[derive(Debug)]
pub struct LockedFile(File);

impl LockedFile {
    /// Locks `file` without waiting; returns the file where another open of it holds the lock.
    ///
    /// # Errors
    /// The kernel's answer, where the file system has no locks.
    pub fn try_lock(file: File) -> io::Result<Result<Self, File>> {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Ok(Self(file))),
            Err(Errno::WOULDBLOCK) => Ok(Err(file)),
            Err(errno) => Err(errno.into()),
        }
    }
}

#[cfg(any(test, feature = "for-tests"))]
impl LockedFile {
    /// Treats `file` as locked.
    pub fn on(file: File) -> Self {
        Self(file)
    }

    /// Closes the file without unlocking it, as the death of this process would, and continues with `other`.
    pub fn lose(&mut self, other: File) {
        self.0 = other;
    }
}

impl Deref for LockedFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl DerefMut for LockedFile {
    fn deref_mut(&mut self) -> &mut File {
        &mut self.0
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        // Closing is not enough: a child that another thread is forking shares the open file until it executes.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}
