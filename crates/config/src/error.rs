//! Errors of a configuration: always with the file, and with line and column where there is one.

use std::io;
use std::path::{Path, PathBuf};

use brisk_base::toml_text;

/// A configuration that was refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file or folder could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// The file is too long to be a configuration.
    #[error("{} is longer than {limit_kib} KiB: this is not a configuration", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// The most that is read.
        limit_kib: u64,
    },
    /// It is neither a file nor `/dev/null`.
    #[error("{} is not a regular file", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The text is not UTF-8.
    #[error("{}:{line}: the text is not UTF-8", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// The text is not TOML, or holds a key or a value that is not known.
    #[error("{}:{line}:{column}: {message}", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The column in characters, from 1.
        column: usize,
        /// What is wrong and what is expected.
        message: String,
    },
}

impl ConfigError {
    /// The failure `source` on `path`.
    pub(super) fn io(path: &Path, source: io::Error) -> Self {
        Self::Io { path: path.to_owned(), source }
    }

    /// The parser's error for `path`.
    pub(super) fn refused(path: &Path, error: &toml_text::Error) -> Self {
        let (line, column) = error.position();
        Self::Refused { path: path.to_owned(), line, column, message: error.message().trim_end().replace('\n', ", ") }
    }
}
