//! A record of what a probe reads below a [`Root`](crate::Root) on one device, to lay out as a tree of files on another.

use std::collections::BTreeMap;
use std::path::{Component, Path};
use std::sync::{Arc, Mutex, PoisonError};
use std::{fs, io};

use serde::{Deserialize, Serialize};

/// What was found under a name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecordedFile {
    /// It does not exist, or cannot be read.
    Nothing,
    /// It exists, and was not opened.
    Something,
    /// A folder, with the names in it if they were listed.
    Folder(Vec<String>),
    /// A file with this text.
    Text(String),
}

/// What was found under each name, as named on the device (`/proc/stat`).
pub type RecordedFiles = BTreeMap<String, RecordedFile>;

/// The record of what is read through a root. Copies share it.
#[derive(Debug, Clone, Default)]
pub struct FileRecorder(Arc<Mutex<RecordedFiles>>);

impl FileRecorder {
    /// Records that `found` is under the name `file`. Of several findings the most detailed one is kept.
    pub(super) fn note(&self, file: &Path, found: RecordedFile) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = all.entry(Path::new("/").join(file).to_string_lossy().into_owned()).or_insert(RecordedFile::Nothing);
        if found > *kept {
            *kept = found;
        }
    }

    /// Takes what was recorded so far.
    pub fn take(&self) -> RecordedFiles {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Creates `files` below `tree`, over what was laid out there before.
///
/// # Errors
/// A name that would lie outside of `tree`, or the first file that cannot be made.
pub fn lay_out(files: &RecordedFiles, tree: &Path) -> io::Result<()> {
    for (file, found) in files {
        let mut parts = Path::new(file).components();
        let is_absolute = parts.next() == Some(Component::RootDir);
        // The root itself is always a folder.
        let is_right_kind =
            parts.clone().next().is_some() || matches!(found, RecordedFile::Folder(_) | RecordedFile::Something);
        if !is_absolute || !is_right_kind || !parts.all(|part| matches!(part, Component::Normal(_))) {
            return Err(io::Error::other(format!("{file:?} is no file of a device")));
        }
    }
    let place = |file: &str| tree.join(file.trim_start_matches('/'));
    // A name that contains other names must be a folder, so folders and texts come before `Something`, which may be either.
    for (file, found) in files {
        let place = place(file);
        match found {
            RecordedFile::Nothing => remove(&place)?,
            RecordedFile::Folder(_) => make_folder(&place)?,
            RecordedFile::Text(text) => {
                place.parent().map_or(Ok(()), make_folder)?;
                if place.is_dir() {
                    fs::remove_dir_all(&place)?;
                }
                fs::write(&place, text)?;
            }
            RecordedFile::Something => place.parent().map_or(Ok(()), make_folder)?,
        }
    }
    for (file, found) in files {
        match found {
            RecordedFile::Something => make_empty(&place(file))?,
            RecordedFile::Folder(names) => {
                let is_name = |name: &&String| !name.contains(['/', '\0']) && !matches!(name.as_str(), "" | "." | "..");
                for name in names.iter().filter(is_name) {
                    make_empty(&place(file).join(name))?;
                }
            }
            RecordedFile::Nothing | RecordedFile::Text(_) => {}
        }
    }
    Ok(())
}

fn remove(place: &Path) -> io::Result<()> {
    let removed = if place.is_dir() { fs::remove_dir_all(place) } else { fs::remove_file(place) };
    match removed {
        Err(error) if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Err(error),
        _ => Ok(()),
    }
}

/// Creates the folder and its parents. A file in its place was laid out before it was known to be a folder.
fn make_folder(place: &Path) -> io::Result<()> {
    if place.is_dir() {
        return Ok(());
    }
    if place.exists() {
        fs::remove_file(place)?;
    }
    if let Some(above) = place.parent() {
        make_folder(above)?;
    }
    fs::create_dir(place)
}

fn make_empty(place: &Path) -> io::Result<()> {
    if place.exists() { Ok(()) } else { fs::write(place, "") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Root;
    use crate::test_trees::root_of;

    // Verifies DAEMON-1.
    #[test]
    fn a_laid_out_record_reads_like_the_original() {
        let (_folder, device) =
            root_of(&[("proc/stat", "cpu 1\n"), ("sys/cpu/cpu0/online", "1\n"), ("sys/cpu/cpu1/", ""), ("dev/x", "")]);
        let seen = FileRecorder::default();
        let recording_root = device.recording_root(&seen);
        let ask = |root: &Root| {
            (
                (
                    root.read("/proc/stat").ok(),
                    root.read("proc/none").ok(),
                    root.exists("/dev/x"),
                    root.exists("/dev/y"),
                ),
                (root.list("/sys/cpu").ok(), root.is_folder("/sys/cpu/cpu1"), root.is_folder("/sys/cpu/cpu0/online")),
            )
        };
        let told = ask(&recording_root);
        let copy = tempfile::tempdir().unwrap();
        lay_out(&seen.take(), copy.path()).unwrap();
        assert_eq!(ask(&Root::at(copy.path())), told);
        assert!(seen.take().is_empty(), "taken");

        fs::remove_dir_all(device.path("sys/cpu/cpu1")).unwrap();
        fs::write(device.path("proc/stat"), "cpu 22\n").unwrap();
        let told = ask(&recording_root);
        lay_out(&seen.take(), copy.path()).unwrap();
        assert_eq!(ask(&Root::at(copy.path())).0, told.0, "changed since");
        assert!(!Root::at(copy.path()).is_folder("/sys/cpu/cpu1"), "removed since");
    }

    /// access(2) decides on a device, so its answer is recorded, not only what is read.
    // Verifies DAEMON-1.
    #[test]
    fn what_may_be_written_is_in_the_record() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), "x").unwrap();
        fs::create_dir(folder.path().join("group")).unwrap();
        let seen = FileRecorder::default();
        let device = Root::system().recording_root(&seen);
        let ask = |root: &Root| ["file", "group", "none"].map(|name| root.is_writable(folder.path().join(name)));
        assert_eq!(ask(&device), [true, true, false]);
        let copy = tempfile::tempdir().unwrap();
        lay_out(&seen.take(), copy.path()).unwrap();
        assert_eq!(ask(&Root::at(copy.path())), [true, true, false]);
    }

    // Verifies DAEMON-1.
    #[test]
    fn makes_nothing_outside_of_its_tree() {
        for name in ["/", "/../x", "x", "/a/../../x", "/proc/./../../x", "", "/a\0b"] {
            let folder = tempfile::tempdir().unwrap();
            let tree = folder.path().join("tree");
            fs::create_dir(&tree).unwrap();
            let files = RecordedFiles::from([(name.to_owned(), RecordedFile::Text("x".to_owned()))]);
            assert!(lay_out(&files, &tree).is_err(), "{name:?}");
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "{name:?}");
        }
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path().join("tree");
        fs::create_dir(&tree).unwrap();
        let names = ["..", "../x", "/x", "y"].map(str::to_owned).to_vec();
        lay_out(&RecordedFiles::from([("/proc".to_owned(), RecordedFile::Folder(names))]), &tree).unwrap();
        assert_eq!(Root::at(&tree).list("/proc").unwrap(), ["y"]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
