//! Reads an archive or a folder into a [`Boot`]: each file of a recording has its own parser, which reads a stream and keeps
//! only what it needs; data that cannot be used is left out and reported.
//!
//! Formats: bootchart 0.8 (`header`, `proc_stat.log`, `proc_ps.log`, `proc_diskstats.log`, `kernel_pacct`), Android's init (the
//! same, with whole command names), bootchart2 (`taskstats.log`, `cmdline2.log`, `paternity.log`, `dmesg`), and brisk's
//! additions: frequencies in `cpufreq.log`, pressure in `pressure.log`.

mod assemble;
mod blocks;
mod error;
pub mod header;
mod lines;
pub mod parsers;
pub mod paternity;
mod recording;
mod source;
#[cfg(test)]
mod tests;

use std::io::Read;
use std::path::Path;

pub use error::ReadError;
pub use lines::readable;
pub use recording::Recording;

use super::model::{Boot, Omission};

/// A recording beyond these limits is refused: they allow far more than any boot, and far less than would fill a machine.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of all files, unpacked.
    pub bytes: u64,
    /// Samples of one file.
    pub samples: usize,
    /// Processes; also command lines, forks, accounting records and initcalls.
    pub processes: usize,
    /// Activities of all processes together.
    pub activities: usize,
    /// CPUs.
    pub cores: usize,
    /// CPUs times samples.
    pub core_samples: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bytes: 2 << 30,
            samples: 500_000,
            processes: 500_000,
            activities: 20_000_000,
            cores: 4096,
            core_samples: 64 << 20,
        }
    }
}

/// Reads the recording at `path`: a tar archive, gzipped or not, or a folder.
///
/// # Errors
/// When it cannot be read, is no recording, or exceeds the [`Limits`].
pub fn read(path: &Path) -> Result<Boot, ReadError> {
    read_within(path, &Limits::default())
}

/// The same with other limits.
///
/// # Errors
/// As [`read`].
pub fn read_within(path: &Path, limits: &Limits) -> Result<Boot, ReadError> {
    let mut recording = Recording::new(limits);
    let files = source::each_file(path, limits, &mut |name, input| recording.take(name, input));
    files.map_err(|error| error.inside(path))?;
    recording.finish(path)
}

/// Reads the bytes of a tar archive, gzipped or not, as a fuzz target does.
///
/// # Errors
/// As [`read`].
pub fn read_bytes(bytes: &[u8], limits: &Limits) -> Result<Boot, ReadError> {
    let mut recording = Recording::new(limits);
    let path = Path::new("archive");
    source::each_member(path, bytes, limits, &mut |name, input| recording.take(name, input))?;
    recording.finish(path)
}

/// Collects what a parser leaves out of its file.
pub struct Notes<'a> {
    file: &'a str,
    omissions: &'a mut Vec<Omission>,
    /// The limits of the file.
    pub limits: &'a Limits,
}

impl<'a> Notes<'a> {
    /// Notes about `file`.
    pub fn new(file: &'a str, omissions: &'a mut Vec<Omission>, limits: &'a Limits) -> Self {
        Self { file, omissions, limits }
    }

    /// Counts `what` at `line`, 0 where lines have no meaning.
    pub fn add_omission(&mut self, what: &'static str, line: u64) {
        match self.omissions.iter_mut().find(|omission| omission.what == what && omission.file == self.file) {
            Some(omission) => omission.count += 1,
            None => self.omissions.push(Omission { file: self.file.to_owned(), what, count: 1, line }),
        }
    }

    fn read_failed(&self, cause: std::io::Error) -> ReadError {
        ReadError::unreadable(self.file, cause)
    }

    fn too_many(&self, what: &'static str, limit: usize) -> ReadError {
        ReadError::too_many(self.file, what, limit)
    }
}

/// Parses one file of a recording by its name, as a fuzz target does. `false` when the name is not known.
///
/// # Errors
/// As [`read`].
pub fn read_file(name: &str, input: &mut dyn Read, limits: &Limits) -> Result<bool, ReadError> {
    Recording::new(limits).take(name, input)
}
