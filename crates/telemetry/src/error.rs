//! Why a store cannot be read or written.

use std::io;
use std::path::{Path, PathBuf};

/// An error, with the file and what to do.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// There is no store.
    #[error(
        "{} does not exist: nothing is stored. Set enabled = true in the section [telemetry] of the configuration",
        .0.display()
    )]
    NoStore(PathBuf),
    /// A file of the store could not be used.
    #[error("cannot {what} {}: {cause}", path.display())]
    File {
        /// What was to be done.
        what: &'static str,
        path: PathBuf,
        cause: io::Error,
    },
}

impl TelemetryError {
    /// `what` failed with the file `path`.
    pub(crate) fn file<'path>(what: &'static str, path: &'path Path) -> impl Fn(io::Error) -> Self + 'path {
        move |cause| Self::File { what, path: path.to_owned(), cause }
    }
}
