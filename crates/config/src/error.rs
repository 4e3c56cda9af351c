//! What can be wrong with a configuration: always with the file, and with line and column where there is one.

use std::io;
use std::path::{Path, PathBuf};

/// A configuration that was not taken.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file or folder could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The kernel's answer.
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
        /// What was found there.
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
        /// What is wrong and what is right.
        message: String,
    },
}

impl ConfigError {
    /// The failure `source` on `path`.
    pub(super) fn io(path: &Path, source: io::Error) -> Self {
        Self::Io { path: path.to_owned(), source }
    }

    /// The TOML `error` that was found in `text`, which came from `path`.
    pub(super) fn refused(path: &Path, text: &str, error: &toml::de::Error) -> Self {
        let (line, column) = position(text.as_bytes(), error.span().map_or(0, |span| span.start));
        Self::Refused { path: path.to_owned(), line, column, message: error.message().trim_end().replace('\n', ", ") }
    }
}

/// Line and column of the byte `offset`, both from 1, the column in characters.
pub(super) fn position(text: &[u8], offset: usize) -> (usize, usize) {
    let before = &text[..offset.min(text.len())];
    let line_start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1);
    let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
    let column = 1 + String::from_utf8_lossy(&before[line_start..]).chars().count();
    (line, column)
}

#[cfg(test)]
mod tests {
    use super::position;

    #[test]
    fn positions_count_lines_and_characters_from_one() {
        let text = "a\nüb\n\nc".as_bytes();
        for (offset, expected) in
            [(0, (1, 1)), (1, (1, 2)), (2, (2, 1)), (4, (2, 2)), (6, (3, 1)), (7, (4, 1)), (99, (4, 2))]
        {
            assert_eq!(position(text, offset), expected, "{offset}");
        }
    }
}
