//! Telemetry: rows that a fleet wants to know, kept on the device in bounded space, and their export. docs/telemetry.md describes
//! each field.
//!
//! `row` has the rows, `line` frames each with a checksum, `ring` keeps them in two files, `salt` hashes names, and `store` puts
//! these together for the daemon. `read` reads the files of a store that a daemon may be writing; `export` and `summary` use it.

mod device;
pub mod error;
pub mod export;
mod line;
mod read;
mod ring;
pub mod row;
mod salt;
pub mod store;
pub mod summary;

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use brisk_sys::{Root, durable_file};

use error::TelemetryError;

/// The folder of the store: the real path, not the one named as on the device.
pub fn folder(root: &Root) -> PathBuf {
    root.path(root.state_file("telemetry"))
}

/// Deletes the store of the device below `root`, with its salt. A daemon that writes it begins a new one. False when there was
/// none.
///
/// # Errors
/// [`TelemetryError`] when a file cannot be removed.
pub fn forget(root: &Root) -> Result<bool, TelemetryError> {
    let folder = folder(root);
    if folder.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        return Ok(false);
    }
    let error = TelemetryError::file("delete", &folder);
    delete(&folder).map_err(&error)?;
    match fs::remove_dir(&folder) {
        // The daemon has begun the next one already.
        Err(cause) if cause.kind() != ErrorKind::DirectoryNotEmpty => Err(error(cause)),
        _ => Ok(true),
    }
}

/// Deletes the files in `folder`, the salt first: hashes are worth nothing without it.
fn delete(folder: &Path) -> io::Result<()> {
    for name in [salt::FILE, ring::CURRENT, ring::OLD] {
        durable_file::remove(&folder.join(name))?;
    }
    Ok(())
}
