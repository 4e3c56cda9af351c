//! Reads a trace, whichever its format; plain, or packed by gzip or zstd.

mod dat;
mod error;
pub mod marker;
mod perfetto;
mod source;
mod text;

use std::fs::File;
use std::io::{BufRead, Cursor, Read, Seek};
use std::path::Path;

pub use error::ReadError;

use crate::collect::Collector;
use crate::model::Trace;

/// A packed file of trace-cmd must be read into memory; a larger one can be unpacked by the user.
const MAX_IN_MEMORY: u64 = 1 << 30;

/// Reads the file at `path`.
///
/// # Errors
/// When it cannot be read, is no trace, or holds more than a workstation can hold. A damaged file is read as far as possible;
/// [`Trace::faults`] says what is missing.
pub fn read(path: &Path) -> Result<Trace, ReadError> {
    let unreadable = |cause| ReadError::Unreadable { path: path.to_owned(), cause };
    let mut file = File::open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    if metadata.is_dir() {
        return Err(ReadError::no_trace(path, "it is a folder"));
    }
    let mut start = Vec::new();
    file.by_ref().take(dat::MAGIC.len() as u64).read_to_end(&mut start).map_err(unreadable)?;
    if start == dat::MAGIC {
        // Its parts are in any order; it is not read into memory as a whole.
        return read_dat(path, file);
    }
    // Other files are streams, also pipes, that cannot be rewound.
    read_from(path, source::plain(Cursor::new(start).chain(file)).map_err(unreadable)?)
}

/// Reads bytes as the file called `path`.
///
/// # Errors
/// As [`read`].
pub fn read_bytes(path: &Path, bytes: &[u8]) -> Result<Trace, ReadError> {
    read_from(path, source::plain(bytes).map_err(|cause| ReadError::Unreadable { path: path.to_owned(), cause })?)
}

fn read_from(path: &Path, mut input: Box<dyn BufRead + '_>) -> Result<Trace, ReadError> {
    let start = input.fill_buf().map_err(|cause| ReadError::Unreadable { path: path.to_owned(), cause })?;
    if start.is_empty() {
        return Err(ReadError::no_trace(path, "the file is empty"));
    }
    if start.starts_with(dat::MAGIC) {
        let mut bytes = Vec::new();
        input
            .take(MAX_IN_MEMORY)
            .read_to_end(&mut bytes)
            .map_err(|cause| ReadError::Unreadable { path: path.to_owned(), cause })?;
        return read_dat(path, Cursor::new(bytes));
    }
    if perfetto::are_at(start) {
        let mut collector = Collector::new("Perfetto");
        perfetto::read(&mut input, &mut collector).map_err(|fault| fault.at(path))?;
        return finished(path, collector);
    }
    let mut collector = Collector::new("ftrace text");
    text::read(&mut input, &mut collector).map_err(|fault| fault.at(path))?;
    finished(path, collector)
}

fn read_dat(path: &Path, file: impl Read + Seek) -> Result<Trace, ReadError> {
    let mut collector = Collector::new("trace-cmd");
    dat::read(file, &mut collector).map_err(|fault| fault.at(path))?;
    finished(path, collector)
}

/// A trace without a single switch explains nothing.
fn finished(path: &Path, collector: Collector) -> Result<Trace, ReadError> {
    let trace = collector.finish();
    if trace.counts.switches == 0 {
        let what = if trace.events.is_empty() && trace.counts.others == 0 {
            "no line or packet of it is an event of ftrace"
        } else {
            "it has no sched_switch events"
        };
        return Err(ReadError::no_trace(path, what));
    }
    Ok(trace)
}
