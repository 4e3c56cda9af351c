//! The files of a recording, from a folder or from an archive, one after the other as streams.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use super::{Limits, ReadError};

/// Receives a file of a recording: its name without folders, and its contents. Returns `false` when it is not needed.
type Take<'a> = &'a mut dyn FnMut(&str, &mut dyn Read) -> Result<bool, ReadError>;

const BUFFER_BYTES: usize = 64 * 1024;

/// Passes every file of the folder or archive at `path` to `take`.
pub fn each_file(path: &Path, limits: &Limits, take: Take<'_>) -> Result<(), ReadError> {
    let unreadable = |cause| ReadError::unreadable(path, cause);
    let metadata = fs::metadata(path).map_err(unreadable)?;
    if metadata.is_dir() {
        return each_in_folder(path, limits, take);
    }
    if metadata.len() == 0 && metadata.is_file() {
        return Err(ReadError::NoRecording { path: path.to_owned(), what: "the file is empty" });
    }
    let file = File::open(path).map_err(unreadable)?;
    each_member(path, BufReader::with_capacity(BUFFER_BYTES, file), limits, take)
}

/// An archive beside the logs, as Android's `grab-bootchart` leaves it, is not opened.
fn each_in_folder(folder: &Path, limits: &Limits, take: Take<'_>) -> Result<(), ReadError> {
    let unreadable = |cause| ReadError::unreadable(folder, cause);
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        names.push(entry.map_err(unreadable)?.file_name());
    }
    names.sort();
    let mut left = limits.bytes;
    for name in names {
        let path = folder.join(&name);
        // Opening a FIFO would block.
        if !fs::metadata(&path).is_ok_and(|metadata| metadata.is_file()) {
            continue;
        }
        let file = File::open(&path).map_err(|cause| ReadError::unreadable(&path, cause))?;
        let mut input = Limited { input: file, left, limit: limits.bytes };
        take(&name.to_string_lossy(), &mut input)?;
        left = input.left;
    }
    Ok(())
}

/// Passes every file of a tar archive, gzipped or not, to `take`.
pub fn each_member(path: &Path, mut input: impl io::BufRead, limits: &Limits, take: Take<'_>) -> Result<(), ReadError> {
    let unreadable = |cause| ReadError::unreadable(path, cause);
    let start = input.fill_buf().map_err(unreadable)?;
    if start.starts_with(&[0x1f, 0x8b]) {
        let unpacked = MultiGzDecoder::new(input);
        each_in_tar(path, Limited { input: unpacked, left: limits.bytes, limit: limits.bytes }, take)
    } else if start.len() > 262 && &start[257..262] == b"ustar" || start.is_empty() {
        each_in_tar(path, Limited { input, left: limits.bytes, limit: limits.bytes }, take)
    } else {
        Err(ReadError::NoRecording { path: path.to_owned(), what: "it is neither a tar archive nor a gzipped one" })
    }
}

fn each_in_tar(path: &Path, input: impl Read, take: Take<'_>) -> Result<(), ReadError> {
    let unreadable = |cause| ReadError::unreadable(path, cause);
    let mut archive = tar::Archive::new(input);
    for entry in archive.entries().map_err(unreadable)? {
        let mut entry = entry.map_err(unreadable)?;
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let name = entry.path_bytes();
        let name = String::from_utf8_lossy(name.rsplit(|byte| *byte == b'/').next().unwrap_or_default()).into_owned();
        take(&name, &mut entry)?;
    }
    Ok(())
}

/// Ends with an error when more than the limit is read.
struct Limited<R> {
    input: R,
    left: u64,
    limit: u64,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.input.read(buffer)?;
        self.left = self.left.checked_sub(length as u64).ok_or_else(|| io::Error::other(SizeLimit(self.limit)))?;
        Ok(length)
    }
}

/// The limit that was exceeded, in bytes.
#[derive(Debug)]
pub(super) struct SizeLimit(pub u64);

impl fmt::Display for SizeLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "more than {} bytes", self.0)
    }
}

impl std::error::Error for SizeLimit {}
