//! Errors of the journal, with advice for the user.

use std::path::PathBuf;
use std::{fmt, io};

use super::record::Tenure;
use brisk_sys::{DeviceError, Target};

/// The process that has a journal, in brackets; empty when the log does not name it.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) pid: Option<u32>,
    pub(super) has_ended: bool,
    pub(super) tenure: Tenure,
}

impl fmt::Display for Writer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(pid) = self.pid else { return Ok(()) };
        match (self.has_ended, self.tenure) {
            (true, _) => write!(formatter, " (process {pid} has died, and its changes are being restored)"),
            (false, Tenure::Passing) => write!(formatter, " (process {pid}, which boosts one launch)"),
            (false, Tenure::Lasting) => write!(formatter, " (process {pid})"),
        }
    }
}

/// Why the journal could not be opened or a change was not made.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Another process has it.
    #[error(
        "{} is in use by another brisk{}: two cannot hold the same tunables; see `brisk status`, or stop it first",
        path.display(),
        Writer { pid: *pid, has_ended: *has_ended, tenure: *tenure }
    )]
    Locked {
        /// The log.
        path: PathBuf,
        /// The process that has it, if the log names it.
        pid: Option<u32>,
        /// That process has died, and another one restores its leases.
        has_ended: bool,
        /// How long that process holds it.
        tenure: Tenure,
    },
    /// The log cannot be opened or created, or is not trusted.
    #[error("cannot use the journal {}: {cause}; {}", path.display(), remedy(cause))]
    Unusable {
        /// The log or its folder.
        path: PathBuf,
        /// The reason.
        cause: io::Error,
    },
    /// The log was written by a version with another format.
    #[error(
        "{} has format {format}, which this brisk does not know: run `brisk restore` of the version that wrote it, \
         or reboot",
        path.display()
    )]
    ForeignFormat {
        /// The log.
        path: PathBuf,
        format: u32,
    },
    /// A change could not be recorded, so it was not made.
    #[error("{target} stays as it is, because {} cannot record the change: {cause}; free space there", path.display())]
    Unrecorded {
        /// What was to be changed.
        target: Target,
        /// The log.
        path: PathBuf,
        /// The reason.
        cause: io::Error,
    },
    /// The target could not be read or refused the value; it holds its original.
    #[error("{}", fault.with_advice())]
    Device {
        /// What failed.
        fault: DeviceError,
    },
    /// This holder never leases such a target, or the target cannot have had the recorded original.
    #[error("this journal may not hold {target}: brisk would not have written it, so it stays as it is")]
    NotLeasable {
        /// What was asked for.
        target: Target,
    },
    /// The target reads as empty, and an empty value cannot be restored: write(2) of no bytes reaches no driver.
    #[error("{target} stays as it is: it holds no value that could be restored")]
    NoOriginal {
        /// What was asked for.
        target: Target,
    },
    /// The target is not leased.
    #[error("{target} is not leased, so there is nothing to restore")]
    NotLeased {
        /// What was asked for.
        target: Target,
    },
}

impl From<DeviceError> for JournalError {
    fn from(fault: DeviceError) -> Self {
        Self::Device { fault }
    }
}

/// What to do about a log that cannot be opened for this `cause`.
fn remedy(cause: &io::Error) -> &'static str {
    match cause.kind() {
        io::ErrorKind::PermissionDenied => "run as root",
        _ => "it must be on a tmpfs and belong to the user of brisk",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_without_rights_is_told_to_run_as_root() {
        for (kind, advice) in [(io::ErrorKind::PermissionDenied, "run as root"), (io::ErrorKind::Other, "on a tmpfs")] {
            let error = JournalError::Unusable { path: "/run/brisk".into(), cause: kind.into() }.to_string();
            assert!(error.starts_with("cannot use the journal /run/brisk: ") && error.contains(advice), "{error}");
        }
    }
}
