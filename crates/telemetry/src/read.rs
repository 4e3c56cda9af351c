//! Reads the files of a store that a daemon may be writing at the same time.

use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read as _, Seek as _};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::error::TelemetryError;
use crate::line::{Scan, scan};
use crate::ring::{CURRENT, OLD};

/// The daemon replaces the files about once in thousands of rows: the second attempt sees both.
const ATTEMPTS: u32 = 10;

/// The files of a store, as long as they were when they were opened.
#[derive(Debug)]
pub struct Segments(Vec<Segment>);

#[derive(Debug)]
struct Segment {
    path: PathBuf,
    file: File,
    length: u64,
}

/// What was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Read {
    /// The length of the files.
    pub bytes: u64,
    /// Bytes that belong to no row.
    pub damaged_bytes: u64,
}

impl Segments {
    /// Opens the files in `folder`. With `sync` what they hold, and their names, are on the disk then: a row that is read is not
    /// lost in a power cut, so its number is never used again.
    ///
    /// # Errors
    /// [`TelemetryError::NoStore`] when there are none or all are empty, as before the daemon has stored the first row; and those
    /// of the file system.
    pub fn open(folder: &Path, sync: bool) -> Result<Self, TelemetryError> {
        let paths = [folder.join(OLD), folder.join(CURRENT)];
        let mut segments = Vec::new();
        for _ in 0..ATTEMPTS {
            segments.clear();
            for path in &paths {
                match open(path) {
                    Ok(segment) => segments.push(segment),
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    Err(error) => return Err(TelemetryError::file("read", path)(error)),
                }
            }
            if segments.iter().all(Segment::is_in_place) {
                break;
            }
        }
        if segments.iter().all(|segment| segment.length == 0) {
            return Err(TelemetryError::NoStore(folder.to_owned()));
        }
        if sync {
            for segment in &segments {
                segment.file.sync_data().map_err(TelemetryError::file("sync", &segment.path))?;
            }
            let names = File::open(folder).and_then(|folder| folder.sync_all());
            names.map_err(TelemetryError::file("sync", folder))?;
        }
        Ok(Self(segments))
    }

    /// Passes every row to `each`, with its number, the oldest first.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn read(&self, mut each: impl FnMut(u64, &str)) -> Result<Read, TelemetryError> {
        let (mut read, mut last) = (Read::default(), None);
        for Segment { path, file, length } in &self.0 {
            let scanned = rewound(file).and_then(|file| scan(BufReader::new(file.take(*length)), last, &mut each));
            let Scan { last_row, damaged_bytes, tail_bytes, bytes, .. } =
                scanned.map_err(TelemetryError::file("read", path))?;
            last = last.max(last_row);
            read.bytes += bytes;
            read.damaged_bytes += damaged_bytes + tail_bytes;
        }
        Ok(read)
    }
}

impl Segment {
    /// True while its name still belongs to it.
    fn is_in_place(&self) -> bool {
        let identity = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
        let own = self.file.metadata().map(identity).ok();
        own == self.path.symlink_metadata().map(identity).ok()
    }
}

fn rewound(mut file: &File) -> io::Result<&File> {
    file.rewind()?;
    Ok(file)
}

fn open(path: &Path) -> io::Result<Segment> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is not a regular file"));
    }
    Ok(Segment { path: path.to_owned(), file, length: metadata.len() })
}
