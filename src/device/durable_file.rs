//! Files that are there after a power cut, whole or not at all: a draft is written, waited for, renamed, and waited for.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Writes `text` as the file `path`, and makes its folders. `mode` is for a file that was not there.
///
/// # Errors
/// Those of the file system; what was there before is there still.
pub fn write(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        make_folder(folder)?;
    }
    let draft = path.with_extension("new");
    // What a killed writer left there may be anything.
    remove_if_there(&draft)?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&draft)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&draft, path)?;
    path.parent().map_or(Ok(()), sync_folder)
}

/// Takes the file `path` away, if it is there, with its draft.
///
/// # Errors
/// Those of the file system.
pub fn remove(path: &Path) -> io::Result<()> {
    remove_if_there(&path.with_extension("new"))?;
    match path.parent() {
        Some(folder) if remove_if_there(path)? => sync_folder(folder),
        _ => Ok(()),
    }
}

fn remove_if_there(path: &Path) -> io::Result<bool> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// A folder's name is kept by the folder above it.
fn make_folder(folder: &Path) -> io::Result<()> {
    if folder.as_os_str().is_empty() || folder.is_dir() {
        return Ok(());
    }
    let above = folder.parent().unwrap_or(Path::new("/"));
    make_folder(above)?;
    match fs::create_dir(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => sync_folder(above),
    }
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_draft_that_somebody_left_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/state.json");
        write(&path, "one", 0o600).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::write(path.with_extension("new"), "tw").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "one");
        write(&path, "two", 0o600).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        fs::write(path.with_extension("new"), "thr").unwrap();
        for _ in 0..2 {
            remove(&path).unwrap();
            assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 0);
        }
    }
}
