//! The rows in two files of bounded size: `rows` is appended to, and replaces `rows.old` when it is full.
//!
//! A number is never used for two rows that could both be read: it is used up by the attempt to write its row, and after a
//! damaged end as many numbers are skipped as rows could have been there. Rows that were not synced may vanish in a power cut
//! without a trace, and their numbers are used again; so a reader that passes rows on syncs them first (`read`). The lock of the
//! daemon's journal keeps a second writer away.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufReader, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use brisk_sys::durable_file;

use crate::line::{SHORTEST_LINE_BYTES, Scan, frame, scan};

pub(crate) const CURRENT: &str = "rows";
pub(crate) const OLD: &str = "rows.old";

/// The files, open for appending.
#[derive(Debug)]
pub struct Ring {
    folder: PathBuf,
    size_bytes: u64,
    current: File,
    /// The length of `rows`.
    length: u64,
    old_bytes: u64,
    next_row: u64,
    /// The last line has no newline: of a row that was cut off.
    is_torn: bool,
}

/// What [`Ring::open`] has found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Found {
    /// No row was ever stored.
    pub is_empty: bool,
    /// Bytes that belong to no row.
    pub damaged_bytes: u64,
}

impl Ring {
    /// Opens the files in `folder`, which are created if they are missing, for at most `size_bytes` in both; `each` receives the
    /// rows. If a smaller size leaves too little room, the older rows are deleted.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn open(folder: &Path, size_bytes: u64, mut each: impl FnMut(u64, &str)) -> io::Result<(Self, Found)> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let old = match open(&folder.join(OLD), false) {
            Ok(file) => scan(BufReader::new(file), None, &mut each)?,
            Err(error) if error.kind() == ErrorKind::NotFound => Scan::default(),
            Err(error) => return Err(error),
        };
        let current = open(&folder.join(CURRENT), true)?;
        let new = scan(BufReader::new(&current), old.last_row, &mut each)?;
        // The damaged end of the old file matters only where no later row is known.
        let end_bytes = new.tail_bytes + if new.last_row.is_none() { old.tail_bytes } else { 0 };
        let next_row = new.last_row.max(old.last_row).unwrap_or(0) + 1 + end_bytes.div_ceil(SHORTEST_LINE_BYTES);
        let damaged_bytes = new.damaged_bytes + new.tail_bytes + old.damaged_bytes + old.tail_bytes;
        let mut ring = Self {
            folder: folder.to_owned(),
            size_bytes,
            current,
            length: new.bytes,
            old_bytes: old.bytes,
            next_row,
            is_torn: new.is_torn,
        };
        ring.fit()?;
        Ok((ring, Found { is_empty: next_row == 1, damaged_bytes }))
    }

    /// Makes room if the files are larger than this size allows.
    fn fit(&mut self) -> io::Result<()> {
        if self.length > self.size_bytes / 2 {
            self.rotate()?;
        }
        if self.limit_bytes() < self.size_bytes / 4 {
            fs::remove_file(self.folder.join(OLD))?;
            self.old_bytes = 0;
        }
        Ok(())
    }

    fn limit_bytes(&self) -> u64 {
        (self.size_bytes / 2).min(self.size_bytes.saturating_sub(self.old_bytes))
    }

    /// True when the file has no room for `row`.
    pub fn is_full_for(&self, row: &str) -> bool {
        // Checksum, blank, newline, and the newline of a row that was cut off.
        self.length + row.len() as u64 + 11 > self.limit_bytes()
    }

    /// The number of the next row.
    pub fn next_row(&self) -> u64 {
        self.next_row
    }

    /// The length of both files.
    pub fn bytes(&self) -> u64 {
        self.length + self.old_bytes
    }

    /// True when the file was deleted since it was opened.
    pub fn is_deleted(&self) -> bool {
        self.current.metadata().is_ok_and(|file| file.nlink() == 0)
    }

    /// Appends `row`, which is JSON and begins with the number [`Ring::next_row`], with one system call and without syncing. The
    /// number is used up even if that fails.
    ///
    /// # Errors
    /// Those of the file system. What was written of it is removed, or else it is a damaged line from then on.
    pub fn append(&mut self, row: &str) -> io::Result<()> {
        let mut line = frame(row);
        if self.is_torn {
            line.insert(0, b'\n');
        }
        self.next_row += 1;
        let written = match (&self.current).write(&line) {
            Ok(written) if written == line.len() => {
                self.length += written as u64;
                self.is_torn = false;
                return Ok(());
            }
            Ok(_) => Err(ErrorKind::StorageFull.into()),
            Err(error) => Err(error),
        };
        if self.current.set_len(self.length).is_err() {
            self.length = self.current.metadata().map_or(self.length, |file| file.len());
            self.is_torn = true;
        }
        written
    }

    /// Begins a new file; the present one becomes the old one, synced with its name, and the old one is deleted.
    ///
    /// # Errors
    /// Those of the file system; the next call continues where this one has failed.
    pub fn rotate(&mut self) -> io::Result<()> {
        self.current.sync_data()?;
        let (current, draft) = (self.folder.join(CURRENT), self.folder.join(CURRENT).with_extension("new"));
        drop(durable_file::draft(&draft, 0o600)?);
        let new = open(&draft, false)?;
        match fs::rename(&current, self.folder.join(OLD)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        // On the disk before the next file takes the present name: a file system that reorders both renames would lose exported
        // rows, and their numbers would be used again.
        File::open(&self.folder)?.sync_all()?;
        self.old_bytes = self.length;
        fs::rename(&draft, &current)?;
        (self.current, self.length, self.is_torn) = (new, 0, false);
        Ok(())
    }
}

/// The regular file `path`, for reading and appending.
pub(crate) fn open(path: &Path, create: bool) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let mut options = OpenOptions::new();
    let file = options.read(true).append(true).create(create).mode(0o600).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is not a regular file"));
    }
    Ok(file)
}

#[cfg(test)]
mod tests;
