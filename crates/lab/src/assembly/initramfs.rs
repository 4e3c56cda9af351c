//! The guest's root: a cpio archive ("newc", Documentation/driver-api/early-userspace/buffer-format.rst).

use std::collections::BTreeSet;
use std::io::{self, Write};

use cpio::newc::{Builder, trailer};

const FOLDER: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_000;
const CHARACTER_DEVICE: u32 = 0o020_000;

/// An archive being built. Names are absolute in the guest; folders are added as they are needed.
#[derive(Debug, Default)]
pub struct Initramfs {
    archive: Vec<u8>,
    folders: BTreeSet<String>,
    entries: u32,
}

impl Initramfs {
    /// An archive with the console, which the kernel opens for the first process.
    ///
    /// # Errors
    /// Errors of writing to memory: none in practice.
    pub fn new() -> io::Result<Self> {
        let mut initramfs = Self::default();
        let console = initramfs.entry("/dev/console", CHARACTER_DEVICE | 0o600)?.rdev_major(5).rdev_minor(1);
        initramfs.write(console, &[])?;
        Ok(initramfs)
    }

    /// Adds a folder and its parents.
    ///
    /// # Errors
    /// When a name is too long for the format.
    pub fn folder(&mut self, path: &str) -> io::Result<()> {
        let path = path.trim_matches('/');
        if path.is_empty() || self.folders.contains(path) {
            return Ok(());
        }
        let entry = self.entry(path, FOLDER | 0o755)?;
        self.folders.insert(path.to_owned());
        self.write(entry, &[])
    }

    /// Adds a file with the permission bits `mode`.
    ///
    /// # Errors
    /// When the contents exceed 4 GiB.
    pub fn file(&mut self, path: &str, contents: &[u8], mode: u32) -> io::Result<()> {
        let entry = self.entry(path, FILE | mode)?;
        self.write(entry, contents)
    }

    /// Adds a symbolic link to `target`.
    ///
    /// # Errors
    /// When a name is too long for the format.
    pub fn link(&mut self, path: &str, target: &str) -> io::Result<()> {
        let entry = self.entry(path, LINK | 0o777)?;
        self.write(entry, target.as_bytes())
    }

    /// The finished archive.
    ///
    /// # Errors
    /// Errors of writing to memory: none in practice.
    pub fn finish(self) -> io::Result<Vec<u8>> {
        trailer(self.archive)
    }

    fn entry(&mut self, path: &str, mode: u32) -> io::Result<Builder> {
        let path = path.trim_matches('/');
        if let Some((parent, _)) = path.rsplit_once('/') {
            self.folder(parent)?;
        }
        self.entries += 1;
        Ok(Builder::new(path).ino(self.entries).mode(mode).nlink(1))
    }

    fn write(&mut self, entry: Builder, contents: &[u8]) -> io::Result<()> {
        let size = u32::try_from(contents.len()).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        let mut writer = entry.write(std::mem::take(&mut self.archive), size);
        writer.write_all(contents)?;
        self.archive = writer.finish()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use cpio::newc::Reader;

    use super::*;

    #[test]
    fn an_archive_holds_files_links_and_each_folder_once() {
        let mut initramfs = Initramfs::new().unwrap();
        initramfs.file("/init", b"program", 0o755).unwrap();
        initramfs.file("/a/b/one", b"1", 0o644).unwrap();
        initramfs.file("/a/b/two", b"", 0o600).unwrap();
        initramfs.link("/bin/brisk", "/init").unwrap();
        let archive = initramfs.finish().unwrap();

        let mut found = Vec::new();
        let mut rest = archive.as_slice();
        loop {
            let mut reader = Reader::new(rest).unwrap();
            if reader.entry().is_trailer() {
                break;
            }
            let mut contents = String::new();
            reader.read_to_string(&mut contents).unwrap();
            found.push(format!("{} {:o} {contents}", reader.entry().name(), reader.entry().mode()));
            rest = reader.finish().unwrap();
        }
        let expected = [
            "dev 40755 ",
            "dev/console 20600 ",
            "init 100755 program",
            "a 40755 ",
            "a/b 40755 ",
            "a/b/one 100644 1",
            "a/b/two 100600 ",
            "bin 40755 ",
            "bin/brisk 120777 /init",
        ];
        assert_eq!(found, expected);
    }
}
