//! Errors of kernel interfaces: each names the path and the operation.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// What was being done to a kernel file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Opening or reading it.
    Read,
    /// Writing a value into it.
    Write,
    /// Listing a folder.
    List,
    /// Waiting for it to change.
    Watch,
    /// Opening a device that is not read as a file.
    Open,
    /// A call of its driver (ioctl(2)).
    Call,
    /// Making it a swap area, or ending that.
    Swap,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Open => "open",
            Self::Call => "call the driver of",
            Self::Swap => "swap with",
        })
    }
}

/// A kernel file that could not be used, or that had unexpected content. The message is complete: there is no `source()` that a
/// chain of errors would print again.
///
/// It is one pointer, because nearly every function of this crate returns it and each `?` copies it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct DeviceError(Box<Fault>);

#[derive(Debug, thiserror::Error)]
enum Fault {
    /// The system call failed.
    #[error("cannot {operation} {}: {cause}", path.display())]
    Io { path: PathBuf, operation: Operation, cause: io::Error },
    /// The file was read, but its text is not what the kernel documents.
    #[error("{} holds {found:?}, expected {expected}", path.display())]
    Malformed { path: PathBuf, expected: &'static str, found: String },
}

impl DeviceError {
    /// An I/O failure of `operation` on `path`.
    pub fn io(path: &Path, operation: Operation, cause: impl Into<io::Error>) -> Self {
        Self(Box::new(Fault::Io { path: path.to_owned(), operation, cause: cause.into() }))
    }

    /// Text in `path` that is not `expected`; keeps at most 80 characters of it.
    pub fn malformed(path: &Path, expected: &'static str, found: &str) -> Self {
        Self(Box::new(Fault::Malformed { path: path.to_owned(), expected, found: found.chars().take(80).collect() }))
    }

    /// The file concerned.
    pub fn path(&self) -> &Path {
        match &*self.0 {
            Fault::Io { path, .. } | Fault::Malformed { path, .. } => path,
        }
    }

    /// The error of the system call, if one failed.
    pub fn cause(&self) -> Option<&io::Error> {
        match &*self.0 {
            Fault::Io { cause, .. } => Some(cause),
            Fault::Malformed { .. } => None,
        }
    }

    /// True when the file was read, but its text is not what the kernel documents.
    pub fn is_malformed(&self) -> bool {
        self.cause().is_none()
    }

    /// The kernel's number of that error.
    pub(crate) fn errno(&self) -> Option<Errno> {
        self.cause().and_then(Errno::from_io_error)
    }

    /// True when the file or the device behind it does not exist (any more).
    pub fn is_missing(&self) -> bool {
        self.cause().is_some_and(|cause| cause.kind() == io::ErrorKind::NotFound)
            || matches!(self.errno(), Some(Errno::NODEV | Errno::NXIO | Errno::SRCH))
    }

    /// The error, with advice for the user.
    pub fn with_advice(&self) -> String {
        match self.advice() {
            "" => self.to_string(),
            advice => format!("{self}; {advice}"),
        }
    }

    /// Advice for the user; empty where the error itself contains it.
    pub fn advice(&self) -> &'static str {
        let Some(cause) = self.cause() else {
            return "the kernel or the driver behind it is broken: report it with the output of `brisk doctor`";
        };
        match Errno::from_io_error(cause) {
            Some(Errno::ACCESS | Errno::PERM | Errno::ROFS) => "run as root, or give the service the right to it",
            Some(Errno::INVAL | Errno::RANGE) => {
                "the kernel does not accept this value: choose another in the configuration"
            }
            Some(Errno::BUSY) if self.path().components().any(|part| part.as_os_str() == "cpufreq") => {
                "another driver or an offline CPU holds it: try again, or leave this actuator off"
            }
            Some(Errno::BUSY) => "it is in use: try again when what uses it has ended",
            Some(Errno::NOENT | Errno::NODEV | Errno::NXIO) => {
                "the governor or the CPU behind it is gone: see `brisk doctor`"
            }
            Some(Errno::SRCH) => "the process has ended",
            Some(Errno::NOSPC) => "free some space there",
            // Not an error of the kernel: the code that raised it has said what to do.
            None if cause.kind() == io::ErrorKind::OutOfMemory => "",
            _ => "see `brisk doctor` for what this device offers",
        }
    }

    /// True when the kernel refuses this value, at least from this process.
    pub fn is_invalid(&self) -> bool {
        self.errno() == Some(Errno::INVAL)
    }

    /// True when the kernel refused for lack of permission.
    pub fn is_denied(&self) -> bool {
        self.cause().is_some_and(|cause| cause.kind() == io::ErrorKind::PermissionDenied)
    }
}

/// `error` and its causes in one sentence; a cause that the text already contains is left out.
pub fn sentence(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text += &format!(": {cause_text}");
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_for_a_busy_file_names_what_holds_it() {
        for (path, expected) in [
            ("/sys/devices/system/cpu/cpufreq/policy1/scaling_min_freq", "offline CPU"),
            ("/sys/fs/cgroup/brisk-threads", "when what uses it has ended"),
            ("/sys/block/zram0/disksize", "when what uses it has ended"),
        ] {
            let error = DeviceError::io(Path::new(path), Operation::Write, Errno::BUSY);
            assert!(error.advice().contains(expected), "{path}: {}", error.advice());
        }
    }

    #[test]
    fn a_cause_is_named_once() {
        let inner = DeviceError::io(Path::new("/rate"), Operation::Write, Errno::INVAL);
        let text = inner.to_string();
        assert_eq!(sentence(&inner), text, "it names the kernel's answer itself");
        let outer = anyhow::Error::from(inner).context("the launch is not boosted");
        assert_eq!(sentence(outer.as_ref()), format!("the launch is not boosted: {text}"));
    }
}
