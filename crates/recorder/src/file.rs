//! A file of trace-cmd that can be read at every moment, also after SIGKILL of its writer.
//!
//! The events of each CPU have a region of their own, as large as all events may become; what is not written takes no space on the
//! file system. The table of the header counts only pages that are written. The regions are joined at the end.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use brisk_sys::durable_file;

use crate::header::{self, Header};

const COPIED_BYTES: usize = 64 * 1024;

/// The file while it is written.
#[derive(Debug)]
pub struct TraceFile {
    file: File,
    header: Header,
    regions: Vec<Region>,
    /// Of all pages, and the most that these may be.
    written_bytes: u64,
    limit_bytes: u64,
}

#[derive(Debug, Clone, Copy)]
struct Region {
    offset: u64,
    bytes: u64,
}

impl TraceFile {
    /// Creates the file at `path`, in place of what is there, for this many CPUs and at most `limit_bytes` of their pages of
    /// `page_bytes`, a power of two.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn create(path: &Path, header: Header, cpus: u16, page_bytes: usize, limit_bytes: u64) -> io::Result<Self> {
        let page_bytes = page_bytes as u64;
        let limit_bytes = limit_bytes / page_bytes * page_bytes;
        // Readers map the pages into their memory.
        let start = (header.bytes.len() as u64).next_multiple_of(page_bytes);
        let region = |cpu: u16| Region { offset: start + u64::from(cpu) * limit_bytes, bytes: 0 };
        let file = Self {
            file: durable_file::draft(path, 0o644)?,
            header,
            regions: (0..cpus).map(region).collect(),
            written_bytes: 0,
            limit_bytes,
        };
        file.file.write_all_at(&file.header.bytes, 0)?;
        for cpu in 0..file.regions.len() {
            file.enter(cpu)?;
        }
        Ok(file)
    }

    /// Adds pages of `cpu`; those beyond the limit are left out.
    ///
    /// # Errors
    /// Those of the file system; what was added before stays readable.
    pub fn append(&mut self, cpu: u16, pages: &[u8]) -> io::Result<()> {
        let cpu = usize::from(cpu);
        let room = self.limit_bytes - self.written_bytes;
        let pages = &pages[..pages.len().min(room as usize)];
        let Region { offset, bytes } = self.regions[cpu];
        self.file.write_all_at(pages, offset + bytes)?;
        self.regions[cpu].bytes += pages.len() as u64;
        self.written_bytes += pages.len() as u64;
        self.enter(cpu)
    }

    /// True when no page fits any more.
    pub fn is_full(&self) -> bool {
        self.written_bytes == self.limit_bytes
    }

    /// Joins the regions, and writes the names of threads (`7 sh` lines) and that the recording is complete. Returns the size of
    /// the file.
    ///
    /// # Errors
    /// Those of the file system; the file is readable, and says that it is not complete.
    pub fn finish(mut self, names: &str) -> io::Result<u64> {
        let mut end = self.regions.first().map_or(self.header.bytes.len() as u64, |region| region.offset);
        for cpu in 0..self.regions.len() {
            // All regions together are no larger than one may be, so that none is copied over itself.
            let from = self.regions[cpu];
            if from.bytes > 0 && from.offset != end {
                self.copy(from, end)?;
            }
            self.regions[cpu].offset = end;
            self.enter(cpu)?;
            end += from.bytes;
        }
        self.file.set_len(end)?;
        self.file.write_all_at(header::names(names).as_bytes(), self.header.names_at)?;
        self.file.write_all_at(header::FINISHED.as_bytes(), self.header.state_at)?;
        Ok(end)
    }

    /// Writes the region of `cpu` into the table.
    fn enter(&self, cpu: usize) -> io::Result<()> {
        let Region { offset, bytes } = self.regions[cpu];
        let entry = [offset.to_ne_bytes(), bytes.to_ne_bytes()].concat();
        self.file.write_all_at(&entry, self.header.table_at + cpu as u64 * 16)
    }

    fn copy(&self, from: Region, to: u64) -> io::Result<()> {
        let mut buffer = vec![0; COPIED_BYTES];
        let mut copied = 0;
        while copied < from.bytes {
            let part = &mut buffer[..COPIED_BYTES.min((from.bytes - copied) as usize)];
            self.file.read_exact_at(part, from.offset + copied)?;
            self.file.write_all_at(part, to + copied)?;
            copied += part.len() as u64;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
