//! Finds the files below folders, and reads and imports them a batch at a time.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::OFlags;

use super::{Importer, Source, Summary};
use crate::fault::{DatasetError, Fault};
use crate::parallel::on_all_cpus_while;

/// Files are read until they have as many bytes; each CPU may then have read one more.
const BATCH_BYTES: u64 = 16 << 20;
/// What a file takes in memory besides its bytes.
const FILE_BYTES: u64 = 1024;

/// Imports the files `paths`, with `progress` called after each batch.
///
/// # Errors
/// Those of the file system of the data set; a file that cannot be read is set aside.
pub fn add_files(
    importer: &mut Importer,
    paths: &[PathBuf],
    mut progress: impl FnMut(&Summary),
) -> Result<(), DatasetError> {
    let mut rest = paths;
    while !rest.is_empty() {
        let bytes = AtomicU64::new(0);
        let has_room = || bytes.load(Ordering::Relaxed) < BATCH_BYTES;
        let sources = on_all_cpus_while(rest, has_room, |path| {
            let source = read(path);
            let length = source.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64);
            bytes.fetch_add(length + FILE_BYTES, Ordering::Relaxed);
            source
        });
        importer.add(&sources)?;
        progress(importer.summary());
        rest = &rest[sources.len()..];
    }
    Ok(())
}

/// The files that `folders` name and those below them, by path.
///
/// # Errors
/// When a folder cannot be read.
pub fn files(folders: &[PathBuf]) -> Result<Vec<PathBuf>, DatasetError> {
    let (mut found, mut open) = (Vec::new(), Vec::new());
    for path in folders {
        let metadata = fs::metadata(path).map_err(DatasetError::io("read", path))?;
        let list = if metadata.is_dir() { &mut open } else { &mut found };
        list.push(path.clone());
    }
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).map_err(DatasetError::io("read", &folder))? {
            let entry = entry.map_err(DatasetError::io("read", &folder))?;
            // The kernel says it with the name: no file is looked up before it is read.
            let kind = entry.file_type().map_err(DatasetError::io("read", &entry.path()))?;
            if kind.is_dir() {
                open.push(entry.path());
            } else if !kind.is_symlink() {
                // A link within a folder may lead out of it, or into a circle.
                found.push(entry.path());
            }
        }
    }
    // By bytes: to compare paths part by part takes several times as long.
    found.sort_unstable_by(|one, other| one.as_os_str().cmp(other.as_os_str()));
    found.dedup();
    Ok(found)
}

fn read(path: &Path) -> Source {
    Source { name: path.display().to_string(), bytes: content(path) }
}

fn content(path: &Path) -> Result<Vec<u8>, Fault> {
    let unreadable = |error: io::Error| Fault::Unreadable(error.to_string());
    // Without the flag, to open a pipe waits for its writer.
    let flags = OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(Fault::Unreadable("is no regular file".to_owned()));
    }
    if metadata.len() > crate::LIMIT_BYTES {
        return Err(Fault::TooLarge { mib: metadata.len() >> 20 });
    }
    // A byte more, into which the end of the file is read.
    let mut bytes = Vec::with_capacity(metadata.len() as usize + 1);
    file.take(crate::LIMIT_BYTES).read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(bytes)
}
