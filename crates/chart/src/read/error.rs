//! Why a recording cannot be read.

use std::io;
use std::path::{Path, PathBuf};

use super::lines::readable;
use super::source::SizeLimit;
use brisk_sys::error::sentence;

/// Each message says what happened, where, and what to do. Text from a damaged archive or a file name is printed without
/// control characters.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The archive, the folder or a file in it cannot be read.
    #[error("cannot read {}{}: {}", shown(path), inside(member), reason(cause))]
    Unreadable {
        /// The archive, folder or file.
        path: PathBuf,
        /// The file in the archive or folder, if that failed.
        member: Option<String>,
        /// The error of the system or the unpacker.
        cause: io::Error,
    },
    /// Neither an archive nor a folder.
    #[error(
        "{} is no bootchart recording: {what} (a .tgz or a folder with proc_stat.log and proc_ps.log or taskstats.log is wanted)",
        shown(path)
    )]
    NoRecording {
        /// The path.
        path: PathBuf,
        /// What it is instead.
        what: &'static str,
    },
    /// An archive that unpacks to more than any boot would write.
    #[error("{} unpacks to more than {} MiB: no recording of a boot is as large", shown(path), limit_bytes >> 20)]
    TooLarge {
        /// The path.
        path: PathBuf,
        limit_bytes: u64,
    },
    /// More of something than a chart can hold.
    #[error("{}: {file} holds more than {limit} {what}: no recording of a boot does", shown(path))]
    TooMany {
        /// The archive or the folder.
        path: PathBuf,
        /// The file of the recording.
        file: String,
        /// The kind of item.
        what: &'static str,
        limit: usize,
    },
}

impl ReadError {
    /// A failure to read `path`, or the size limit if that was exceeded.
    pub(super) fn unreadable(path: impl AsRef<Path>, cause: io::Error) -> Self {
        let path = path.as_ref().to_owned();
        match cause.get_ref().and_then(|inner| inner.downcast_ref::<SizeLimit>()) {
            Some(limit) => Self::TooLarge { path, limit_bytes: limit.0 },
            None => Self::Unreadable { path, member: None, cause },
        }
    }

    /// More than `limit` of `what` in `file`.
    pub(super) fn too_many(file: &str, what: &'static str, limit: usize) -> Self {
        Self::TooMany { path: PathBuf::new(), file: file.to_owned(), what, limit }
    }

    /// The same error for a file inside `recording`.
    pub(super) fn inside(self, recording: &Path) -> Self {
        let path = recording.to_owned();
        match self {
            Self::Unreadable { path: member, member: None, cause } if member != path => {
                Self::Unreadable { path, member: Some(member.to_string_lossy().into_owned()), cause }
            }
            Self::TooMany { file, what, limit, .. } => Self::TooMany { path, file, what, limit },
            Self::TooLarge { limit_bytes, .. } => Self::TooLarge { path, limit_bytes },
            other => other,
        }
    }
}

fn shown(path: &Path) -> String {
    readable(&path.to_string_lossy()).into_owned()
}

fn inside(member: &Option<String>) -> String {
    member.as_ref().map_or_else(String::new, |member| format!(": {}", readable(member)))
}

/// The cause and its sources: the unpacker's errors name the operation, and their sources the reason.
fn reason(cause: &io::Error) -> String {
    readable(&sentence(cause)).into_owned()
}
