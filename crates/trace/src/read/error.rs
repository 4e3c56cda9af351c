//! Why a file cannot be read as a trace.

use std::io;
use std::path::{Path, PathBuf};

use crate::collect::TooManyEvents;

/// Each message says what happened, where, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The system or the unpacker failed.
    #[error("cannot read {}: {cause}", shown(path))]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        cause: io::Error,
    },
    /// Another kind of file.
    #[error(
        "{} is no trace of the scheduler: {what} (text of ftrace, or a file of trace-cmd or Perfetto, \
         with sched_switch is wanted)",
        shown(path)
    )]
    NoTrace {
        /// The file.
        path: PathBuf,
        /// What it is instead.
        what: &'static str,
    },
    /// It holds more than a workstation can explain.
    #[error("{} holds {cause}", shown(path))]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit.
        cause: TooManyEvents,
    },
}

impl ReadError {
    pub(super) fn no_trace(path: &Path, what: &'static str) -> Self {
        Self::NoTrace { path: path.to_owned(), what }
    }
}

/// Why a reader stopped; it does not know the path.
#[derive(Debug)]
pub(super) enum Fault {
    Input(io::Error),
    TooMany(TooManyEvents),
}

impl Fault {
    pub(super) fn at(self, path: &Path) -> ReadError {
        let path = path.to_owned();
        match self {
            Self::Input(cause) => ReadError::Unreadable { path, cause },
            Self::TooMany(cause) => ReadError::TooLarge { path, cause },
        }
    }
}

impl From<io::Error> for Fault {
    fn from(cause: io::Error) -> Self {
        Self::Input(cause)
    }
}

impl From<TooManyEvents> for Fault {
    fn from(cause: TooManyEvents) -> Self {
        Self::TooMany(cause)
    }
}

/// A path without control characters, which a terminal would obey.
fn shown(path: &Path) -> String {
    path.to_string_lossy().chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect()
}
