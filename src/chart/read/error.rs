//! Why a recording cannot be read.

use std::io;
use std::path::{Path, PathBuf};

use super::source::SizeLimit;

/// Each message says what happened, where, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The archive, the folder or a file of it.
    #[error("cannot read {}: {cause}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// The system's or the unpacker's answer.
        cause: io::Error,
    },
    /// Neither an archive nor a folder.
    #[error(
        "{} is no bootchart recording: {what} (a .tgz or a folder with proc_stat.log and proc_ps.log or taskstats.log is wanted)",
        path.display()
    )]
    NoRecording {
        /// Which.
        path: PathBuf,
        /// What it is instead.
        what: &'static str,
    },
    /// An archive that unpacks to more than any boot would write.
    #[error("{} unpacks to more than {} MiB: no recording of a boot is as large", path.display(), limit_bytes >> 20)]
    TooLarge {
        /// Which.
        path: PathBuf,
        /// The limit.
        limit_bytes: u64,
    },
    /// More of something than a chart can hold.
    #[error("{file} holds more than {limit} {what}: no recording of a boot does")]
    TooMany {
        /// The file of the recording.
        file: String,
        /// Of what.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
}

impl ReadError {
    /// A failure to read `path`, or to read on when a limit was met.
    pub(super) fn unreadable(path: impl AsRef<Path>, cause: io::Error) -> Self {
        let path = path.as_ref().to_owned();
        match cause.get_ref().and_then(|inner| inner.downcast_ref::<SizeLimit>()) {
            Some(limit) => Self::TooLarge { path, limit_bytes: limit.0 },
            None => Self::Unreadable { path, cause },
        }
    }
}
