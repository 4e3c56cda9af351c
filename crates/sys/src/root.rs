//! A relocatable root: `/` on a device, a recorded tree of files in a test.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, OFlags, accessat};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::error::{DeviceError, Operation};
use crate::file_recorder::{FileRecorder, RecordedFile};

/// No file of /proc or /sys that brisk reads as a whole is longer; a longer one is truncated to this.
const READ_LIMIT_BYTES: u64 = 4 << 20;
/// The longest file of sysfs, and the length of the first read of a file of /proc.
const PAGE_BYTES: usize = 4096;

/// A FIFO in the place of a tunable must not block the open until its other end is opened.
const OPEN_FLAGS: i32 = OFlags::NONBLOCK.bits() as i32;

/// Where /proc, /sys, /dev and /run are found.
#[derive(Debug, Clone)]
pub struct Root {
    path: PathBuf,
    /// Records what is read through this copy, if set.
    seen: Option<FileRecorder>,
}

impl PartialEq for Root {
    fn eq(&self, other: &Self) -> bool {
        self.path == other.path
    }
}

impl Eq for Root {}

impl Root {
    /// The running system's own files.
    pub fn system() -> Self {
        Self::at("/")
    }

    /// A tree of files below `path` that stands in for the system's.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), seen: None }
    }

    /// The same root; what is read through it is recorded in `seen`.
    #[must_use]
    pub fn recording_root(&self, seen: &FileRecorder) -> Self {
        Self { path: self.path.clone(), seen: Some(seen.clone()) }
    }

    fn note(&self, file: &Path, found: impl FnOnce() -> RecordedFile) {
        if let Some(seen) = &self.seen {
            seen.note(file, found());
        }
    }

    /// True for the running system, false for a recorded tree.
    pub fn is_system(&self) -> bool {
        self.path == Path::new("/")
    }

    /// The real place of `file`, which is named as on a device (`/proc/stat` or `proc/stat`).
    pub fn path(&self, file: impl AsRef<Path>) -> PathBuf {
        let file = file.as_ref();
        self.path.join(file.strip_prefix("/").unwrap_or(file))
    }

    /// `message` with its paths as named on the device, so that a recorded tree reads like the device.
    pub fn with_device_paths(&self, message: &impl ToString) -> String {
        message.to_string().replace(&self.path("/").display().to_string(), "/")
    }

    /// True on Android, which has no /run.
    pub fn is_android(&self) -> bool {
        !self.exists("/run") && self.has_android_system()
    }

    /// True where Android's system partition is mounted, whatever else there is.
    pub fn has_android_system(&self) -> bool {
        self.exists("/system/build.prop")
    }

    /// Where brisk keeps what must not survive a reboot: `/run/brisk`, or `/dev/brisk` on Android, whose /dev is a tmpfs. This
    /// is the real path, not the one named as on the device.
    pub fn runtime_folder(&self) -> PathBuf {
        self.path(if self.is_android() { "/dev/brisk" } else { "/run/brisk" })
    }

    /// The file `name` of brisk's persistent state, as named on the device: in `/var/lib/brisk`, or in `/data/misc/brisk` on
    /// Android, where nothing else is writable.
    pub fn state_file(&self, name: &str) -> PathBuf {
        Path::new(if self.is_android() { "/data/misc/brisk" } else { "/var/lib/brisk" }).join(name)
    }

    /// True when `file` exists and is accessible.
    pub fn exists(&self, file: impl AsRef<Path>) -> bool {
        let exists = self.path(&file).exists();
        self.note(file.as_ref(), || if exists { RecordedFile::Something } else { RecordedFile::Nothing });
        exists
    }

    /// True when `file` is a folder.
    pub fn is_folder(&self, file: impl AsRef<Path>) -> bool {
        let found = fs::metadata(self.path(&file));
        let is_folder = found.as_ref().is_ok_and(fs::Metadata::is_dir);
        self.note(file.as_ref(), || match found {
            Ok(_) if is_folder => RecordedFile::Folder(Vec::new()),
            Ok(_) => RecordedFile::Something,
            Err(_) => RecordedFile::Nothing,
        });
        is_folder
    }

    /// True when this process may write `file`. A recorded tree has only such files of those that are asked for.
    pub fn is_writable(&self, file: impl AsRef<Path>) -> bool {
        if !self.is_system() {
            return self.exists(file);
        }
        let is_writable = match accessat(CWD, self.path(&file), Access::WRITE_OK, AtFlags::EACCESS) {
            // Linux 5.8 checks by effective rights; before that, being root suffices.
            Err(Errno::NOSYS) => geteuid().is_root() && self.path(&file).exists(),
            answer => answer.is_ok(),
        };
        self.note(file.as_ref(), || if is_writable { RecordedFile::Something } else { RecordedFile::Nothing });
        is_writable
    }

    /// The text of `file`, without trailing white space; bytes that are not UTF-8 are replaced.
    ///
    /// # Errors
    /// [`DeviceError`] when it cannot be opened or read.
    pub fn read(&self, file: impl AsRef<Path>) -> Result<String, DeviceError> {
        let text = self.read_unrecorded(file.as_ref());
        self.note(file.as_ref(), || {
            text.as_ref().map_or(RecordedFile::Nothing, |text| RecordedFile::Text(text.clone()))
        });
        text
    }

    fn read_unrecorded(&self, file: &Path) -> Result<String, DeviceError> {
        let path = self.path(file);
        let fault = |source| DeviceError::io(&path, Operation::Read, source);
        // A page holds nearly every such file: one read and one for the end, where a buffer that grows from empty takes many.
        let mut bytes = Vec::with_capacity(PAGE_BYTES);
        let file = fs::OpenOptions::new().read(true).custom_flags(OPEN_FLAGS).open(&path).map_err(fault)?;
        file.take(READ_LIMIT_BYTES).read_to_end(&mut bytes).map_err(fault)?;
        let mut text = String::from_utf8_lossy(&bytes).into_owned();
        text.truncate(text.trim_end().len());
        Ok(text)
    }

    /// One number from `file`.
    ///
    /// # Errors
    /// As [`Root::read`], and [`DeviceError::is_malformed`] when the text is not one number.
    pub fn read_number<N: std::str::FromStr>(&self, file: impl AsRef<Path>) -> Result<N, DeviceError> {
        let file = file.as_ref();
        let text = self.read(file)?;
        text.trim().parse().map_err(|_| DeviceError::malformed(&self.path(file), "one number", &text))
    }

    /// Writes `value` into the existing `file` with one system call, as the kernel's tunables require.
    ///
    /// # Errors
    /// [`DeviceError`] with the kernel's answer; the file is never created.
    pub fn write(&self, file: impl AsRef<Path>, value: &str) -> Result<(), DeviceError> {
        let path = self.path(file);
        let fault = |source| DeviceError::io(&path, Operation::Write, source);
        // A recorded tree consists of regular files, where a shorter value must not leave the tail of a longer one.
        let mut file = fs::OpenOptions::new()
            .write(true)
            .truncate(!self.is_system())
            .custom_flags(OPEN_FLAGS)
            .open(&path)
            .map_err(fault)?;
        file.write_all(value.as_bytes()).map_err(fault)
    }

    /// The names in `folder`, sorted.
    ///
    /// # Errors
    /// [`DeviceError`] when the folder cannot be listed.
    pub fn list(&self, folder: impl AsRef<Path>) -> Result<Vec<String>, DeviceError> {
        let names = self.list_unrecorded(folder.as_ref());
        self.note(folder.as_ref(), || {
            names.as_ref().map_or(RecordedFile::Nothing, |names| RecordedFile::Folder(names.clone()))
        });
        names
    }

    fn list_unrecorded(&self, folder: &Path) -> Result<Vec<String>, DeviceError> {
        let path = self.path(folder);
        let fault = |source| DeviceError::io(&path, Operation::List, source);
        let mut names = Vec::new();
        for entry in fs::read_dir(&path).map_err(fault)? {
            names.push(entry.map_err(fault)?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        Ok(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_trees::root_of;

    #[test]
    fn a_root_relocates_absolute_and_relative_names() {
        let root = Root::at("/tree");
        assert_eq!(root.path("/proc/stat"), Path::new("/tree/proc/stat"));
        assert_eq!(root.path("proc/stat"), Path::new("/tree/proc/stat"));
        assert_eq!(Root::system().path("proc/stat"), Path::new("/proc/stat"));
    }

    // Verifies ANDROID-2.
    #[test]
    fn android_keeps_its_files_where_it_can_write() {
        for (files, runtime, state) in [
            (&[][..], "/run/brisk", "/var/lib/brisk/x"),
            (&[("system/build.prop", "")], "/dev/brisk", "/data/misc/brisk/x"),
            // A system that runs beside an Android container's files.
            (&[("system/build.prop", ""), ("run/", "")], "/run/brisk", "/var/lib/brisk/x"),
        ] {
            let (_folder, root) = root_of(files);
            assert_eq!((root.runtime_folder(), root.state_file("x")), (root.path(runtime), state.into()));
        }
    }

    // Verifies UNDO-1.
    #[test]
    fn reads_and_writes_name_the_path_and_the_operation() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let missing = root.read("/sys/none").unwrap_err();
        assert!(missing.is_missing());
        assert!(missing.to_string().starts_with("cannot read "), "{missing}");
        assert!(root.write("/none", "1").unwrap_err().is_missing(), "a tunable is never created");

        fs::write(folder.path().join("rate"), "100000\n").unwrap();
        assert_eq!(root.read_number::<u32>("/rate").unwrap(), 100_000);
        root.write("/rate", "500").unwrap();
        assert_eq!(root.read("/rate").unwrap(), "500");
        fs::write(folder.path().join("rate"), "soon\n").unwrap();
        let malformed = root.read_number::<u32>("/rate").unwrap_err();
        assert!(malformed.to_string().ends_with("holds \"soon\", expected one number"), "{malformed}");
    }
}
