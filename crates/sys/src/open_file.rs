//! A text file of /proc or /sys that stays open: reading it again costs one system call and no path lookup.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::pread;

use crate::{DeviceError, Operation, Root};

/// Nearly every such file fits; longer ones take more reads.
const FIRST_READ_BYTES: usize = 16 * 1024;
/// The kernel fills a page with whole lines, so a read may end before the file does; a read this short is the last.
const SHORT_READ_BYTES: usize = 2048;
/// A longer file is truncated to this.
const READ_LIMIT_BYTES: usize = 4 << 20;

/// An open text file whose content the kernel generates at each read from its start.
#[derive(Debug)]
pub struct OpenFile {
    descriptor: OwnedFd,
}

impl OpenFile {
    /// Opens `file`, named as on the device.
    ///
    /// # Errors
    /// [`DeviceError`] when it cannot be opened.
    pub fn open(root: &Root, file: impl AsRef<Path>) -> Result<Self, DeviceError> {
        let path = root.path(file);
        // A FIFO in its place must not block the open.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let opened = rustix::fs::open(&path, flags, Mode::empty());
        Ok(Self { descriptor: opened.map_err(|error| DeviceError::io(&path, Operation::Read, error))? })
    }

    /// The current text. `buffer` holds its bytes and keeps its size between reads.
    ///
    /// # Errors
    /// The kernel's answer: ESRCH for a process that has ended.
    pub fn read<'buffer>(&self, buffer: &'buffer mut Vec<u8>) -> io::Result<&'buffer [u8]> {
        if buffer.len() < FIRST_READ_BYTES {
            buffer.resize(FIRST_READ_BYTES, 0);
        }
        let mut length = 0;
        loop {
            let read = pread(&self.descriptor, &mut buffer[length..], length as u64)?;
            length += read;
            if read <= SHORT_READ_BYTES || length >= READ_LIMIT_BYTES {
                return Ok(&buffer[..length]);
            }
            if length == buffer.len() {
                buffer.resize(length * 2, 0);
            }
        }
    }
}

impl AsFd for OpenFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Text files that are read many times a second and stay open in between.
#[derive(Debug, Default)]
pub struct OpenFiles {
    files: BTreeMap<String, OpenFile>,
    buffer: Vec<u8>,
}

impl OpenFiles {
    /// The current text of `file`, named as on the device, as [`Root::read`] returns it. A file that cannot be read is opened
    /// again at the next call.
    ///
    /// # Errors
    /// [`DeviceError`] when it cannot be opened or read.
    pub fn read(&mut self, root: &Root, file: &str) -> Result<String, DeviceError> {
        if !self.files.contains_key(file) {
            self.files.insert(file.to_owned(), OpenFile::open(root, file)?);
        }
        let read = self.files[file].read(&mut self.buffer).map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        let mut text = read.map_err(|error| {
            self.files.remove(file);
            DeviceError::io(&root.path(file), Operation::Read, error)
        })?;
        text.truncate(text.trim_end().len());
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_file_shows_its_current_text() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let mut texts = OpenFiles::default();
        assert!(texts.read(&root, "/stat").unwrap_err().is_missing());
        for text in ["one\n", "another\n", ""] {
            std::fs::write(folder.path().join("stat"), text).unwrap();
            assert_eq!(texts.read(&root, "/stat").unwrap(), text.trim_end());
        }
        assert_eq!(texts.files.len(), 1);
        std::fs::create_dir(folder.path().join("folder")).unwrap();
        assert!(texts.read(&root, "/folder").is_err());
        assert_eq!(texts.files.len(), 1, "an unreadable file is not kept");
    }

    #[test]
    fn a_file_of_any_length_is_read_again_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        assert!(OpenFile::open(&root, "/stat").unwrap_err().is_missing());
        let mut buffer = Vec::new();
        for length in [0, 1, FIRST_READ_BYTES - 1, FIRST_READ_BYTES, 5 * FIRST_READ_BYTES] {
            std::fs::write(folder.path().join("stat"), vec![b'x'; length]).unwrap();
            let file = OpenFile::open(&root, "/stat").unwrap();
            for _ in 0..2 {
                assert_eq!(file.read(&mut buffer).unwrap().len(), length);
            }
        }
    }

    #[test]
    fn a_generated_file_is_read_completely() {
        let file = OpenFile::open(&Root::system(), "/proc/self/stat").unwrap();
        let mut buffer = Vec::new();
        let text = file.read(&mut buffer).unwrap();
        assert!(text.ends_with(b"\n"), "{}", String::from_utf8_lossy(text));
    }
}
