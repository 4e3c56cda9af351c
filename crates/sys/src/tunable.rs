//! One kernel tunable on a descriptor that stays open: reading or writing it costs one system call.

use std::fs::{File, OpenOptions};
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::pread;

use crate::{DeviceError, Operation, Root};

/// sysfs shows at most one page.
const PAGE_BYTES: usize = 4096;

/// A tunable that stays open. When the kernel removes the file (the governor changes, a CPU goes offline), it is reopened once;
/// when there is nothing to open, the error is [`DeviceError::is_missing`].
#[derive(Debug)]
pub struct Tunable {
    file: File,
    path: PathBuf,
    readable: bool,
    /// A file of a recorded tree: it keeps its tail behind a shorter write, and survives its own removal while open.
    recorded: bool,
}

impl Tunable {
    /// Opens the existing `file`, named as on the device, for reading and writing, or for writing only where the kernel allows
    /// no more (`boostpulse`).
    ///
    /// # Errors
    /// [`DeviceError`] when it cannot be opened or is not a regular file, as every tunable of /proc and /sys is.
    pub fn open(root: &Root, file: impl AsRef<Path>) -> Result<Self, DeviceError> {
        let path = root.path(file);
        let (file, readable) = open(&path)?;
        Ok(Self { file, path, readable, recorded: !root.is_system() })
    }

    /// The value without trailing white space.
    ///
    /// # Errors
    /// [`DeviceError`] with the kernel's answer, or for more than a page.
    pub fn read(&mut self) -> Result<String, DeviceError> {
        self.retry_when_removed(Operation::Read, Self::try_read)
    }

    /// Writes `value` with one system call.
    ///
    /// # Errors
    /// [`DeviceError`] with the kernel's answer: EINVAL refuses the value, EBUSY and EACCES the writer.
    pub fn write(&mut self, value: &str) -> Result<(), DeviceError> {
        self.retry_when_removed(Operation::Write, |tunable| tunable.try_write(value))
    }

    fn retry_when_removed<T>(
        &mut self,
        operation: Operation,
        attempt: impl Fn(&Self) -> io::Result<T>,
    ) -> Result<T, DeviceError> {
        let error = match attempt(self) {
            Ok(value) => return Ok(value),
            Err(source) => DeviceError::io(&self.path, operation, source),
        };
        if !error.is_missing() {
            return Err(error);
        }
        (self.file, self.readable) = open(&self.path)?;
        attempt(self).map_err(|source| DeviceError::io(&self.path, operation, source))
    }

    /// The length of a recorded tree's file. The kernel answers ENODEV on a descriptor whose file it removed; a recorded file
    /// shows its removal by its link count.
    fn recorded_length(&self) -> io::Result<usize> {
        let metadata = self.file.metadata()?;
        if metadata.nlink() == 0 {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(usize::try_from(metadata.len()).unwrap_or(PAGE_BYTES).min(PAGE_BYTES))
    }

    fn try_read(&self) -> io::Result<String> {
        if !self.readable {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        if self.recorded {
            self.recorded_length()?;
        }
        // Not zeroed: that would take longer than the read. kernfs returns the current value again for every read at offset 0.
        let mut page = [MaybeUninit::<u8>::uninit(); PAGE_BYTES];
        let (text, _) = pread(&self.file, &mut page[..], 0)?;
        if text.len() == PAGE_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "holds more than a page"));
        }
        Ok(String::from_utf8_lossy(text).trim_end().to_owned())
    }

    fn try_write(&self, value: &str) -> io::Result<()> {
        if !self.recorded {
            return write_once(&self.file, value.as_bytes());
        }
        // One system call here too, so that a kill leaves the old value or the new one: line feeds cover the old one's tail.
        let covered = self.recorded_length()?;
        let mut bytes = value.as_bytes().to_vec();
        bytes.push(b'\n');
        let length = bytes.len();
        bytes.resize(covered.max(length), b'\n');
        write_once(&self.file, &bytes)?;
        if covered > length { self.file.set_len(length as u64) } else { Ok(()) }
    }
}

fn write_once(file: &File, bytes: &[u8]) -> io::Result<()> {
    if file.write_at(bytes, 0)? == bytes.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

fn open(path: &Path) -> Result<(File, bool), DeviceError> {
    let options = |readable| {
        let mut options = OpenOptions::new();
        // NONBLOCK: a FIFO in the place of a tunable must not block the open. No tunable is a link.
        let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
        options.read(readable).write(true).custom_flags(flags.bits() as i32).open(path)
    };
    let fault = |source| DeviceError::io(path, Operation::Write, source);
    let (file, readable) = match options(true) {
        Ok(file) => (file, true),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => (options(false).map_err(fault)?, false),
        Err(error) => return Err(fault(error)),
    };
    if !file.metadata().map_err(fault)?.is_file() {
        return Err(fault(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file, so not a kernel tunable")));
    }
    Ok((file, readable))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn tree(value: &str) -> (tempfile::TempDir, Root, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rate");
        fs::write(&path, value).unwrap();
        let root = Root::at(folder.path());
        (folder, root, path)
    }

    // Verifies UNDO-1.
    #[test]
    fn a_value_is_replaced_whole_whatever_its_length() {
        let (_folder, root, path) = tree("100000\n");
        let mut tunable = Tunable::open(&root, "/rate").unwrap();
        assert_eq!(tunable.read().unwrap(), "100000");
        for value in ["5", "123456789", ""] {
            tunable.write(value).unwrap();
            assert_eq!(tunable.read().unwrap(), value);
            assert_eq!(fs::read_to_string(&path).unwrap(), format!("{value}\n"));
        }
    }

    #[test]
    fn a_replaced_file_is_opened_again_and_a_removed_one_is_missing() {
        let (_folder, root, path) = tree("1\n");
        let mut tunable = Tunable::open(&root, "/rate").unwrap();
        fs::remove_file(&path).unwrap();
        assert!(tunable.read().unwrap_err().is_missing());
        assert!(tunable.write("2").unwrap_err().is_missing());
        fs::write(&path, "3\n").unwrap();
        assert_eq!(tunable.read().unwrap(), "3");
        tunable.write("4").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "4\n");
    }

    #[test]
    fn only_regular_files_are_opened_and_none_blocks() {
        let (folder, root, path) = tree("1\n");
        fs::create_dir(folder.path().join("directory")).unwrap();
        std::os::unix::fs::symlink("nowhere", folder.path().join("dangling")).unwrap();
        std::os::unix::fs::symlink("/dev/full", folder.path().join("full")).unwrap();
        let fifo = folder.path().join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
        for name in ["directory", "full", "fifo", "dangling", "rate/none"] {
            let error = Tunable::open(&root, name).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
            let _ = root.read(name);
        }
        assert_eq!(fs::read_to_string(path).unwrap(), "1\n");
    }

    #[test]
    fn refusals_name_the_file() {
        let (_folder, root, path) = tree("1\n");
        let mut permissions = fs::metadata(&path).unwrap().permissions();
        std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o400);
        fs::set_permissions(&path, permissions).unwrap();
        match Tunable::open(&root, "/rate") {
            Err(error) => {
                assert!(error.is_denied() && error.to_string().contains("/rate: Permission denied"), "{error}");
            }
            Ok(_) => eprintln!("skipped: this user may write any file"),
        }
    }
}
