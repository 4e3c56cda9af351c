//! Atomic and durable files: a draft is written, synced and renamed, and its folder is synced, so that even after a power cut a
//! file is complete or absent. Nothing is written through a link or into an existing name: another user may have put it there.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// Writes `text` to the file `path`, and creates its folders. `mode` applies to the new file.
///
/// # Errors
/// Those of the file system; until the rename the previous content is intact.
pub fn write(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        make_folder(folder)?;
    }
    let name = path.with_extension("new");
    let mut file = draft(&name, mode)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&name, path)?;
    path.parent().map_or(Ok(()), sync_folder)
}

/// The same without syncing, for content that may be lost in a power cut.
///
/// # Errors
/// As [`write`].
pub fn replace(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let name = path.with_extension("new");
    draft(&name, mode)?.write_all(text.as_bytes())?;
    fs::rename(&name, path)
}

/// A new file at `path` that replaces whatever exists there: the draft of a killed writer, or another user's link.
///
/// # Errors
/// Those of the file system.
pub fn draft(path: &Path, mode: u32) -> io::Result<File> {
    remove_if_exists(path)?;
    OpenOptions::new().read(true).write(true).create_new(true).mode(mode).open(path)
}

/// The text of the file `path`, if it is a regular file of at most `limit_bytes`. Bytes that are not UTF-8 are replaced.
pub fn read(path: &Path, limit_bytes: u64) -> Option<String> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path).ok()?;
    let mut text = Vec::new();
    file.metadata().ok().filter(|it| it.is_file() && it.len() <= limit_bytes)?;
    file.take(limit_bytes).read_to_end(&mut text).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

/// Removes the file `path`, if it exists, and its draft.
///
/// # Errors
/// Those of the file system.
pub fn remove(path: &Path) -> io::Result<()> {
    remove_if_exists(&path.with_extension("new"))?;
    match path.parent() {
        Some(folder) if remove_if_exists(path)? => sync_folder(folder),
        _ => Ok(()),
    }
}

fn remove_if_exists(path: &Path) -> io::Result<bool> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Syncs the parent as well: it holds the folder's name.
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

    // Verifies SECURITY-2.
    #[test]
    fn nothing_is_written_or_read_through_a_planted_link() {
        let folder = tempfile::tempdir().unwrap();
        let (victim, path) = (folder.path().join("victim"), folder.path().join("state.json"));
        fs::write(&victim, "kept").unwrap();
        for write in [write, replace] {
            for link in [path.clone(), path.with_extension("new")] {
                let _ = fs::remove_file(&link);
                std::os::unix::fs::symlink(&victim, &link).unwrap();
            }
            assert_eq!(read(&path, 100), None);
            write(&path, "mine", 0o600).unwrap();
            assert_eq!(
                (fs::read_to_string(&victim).unwrap().as_str(), read(&path, 100).as_deref()),
                ("kept", Some("mine"))
            );
            assert!(path.symlink_metadata().unwrap().is_file());
        }
        assert_eq!(read(&path, 3), None, "longer than the limit");
        let fifo = folder.path().join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        assert_eq!(read(&fifo, 100), None);
    }

    // Verifies BOOT-4.
    #[test]
    fn a_leftover_draft_changes_nothing() {
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
