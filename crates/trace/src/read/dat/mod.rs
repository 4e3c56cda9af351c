//! Files of trace-cmd, versions 6 and 7: trace-cmd.dat.v6(5), trace-cmd.dat.v7(5).
//!
//! No crate fits: libtracecmd wraps a library in C, and the reader of ARM's LISA is not published.

mod events;
mod format;
mod input;
mod pages;
mod sections;

use std::io::{Read, Seek};

use super::error::Fault;
use crate::collect::Collector;
use format::{Formats, Functions};
use input::Input;
use pages::{Layout, Packing};

/// How a file begins.
pub const MAGIC: &[u8] = b"\x17\x08\x44tracing";

/// What the file says about its events before they come.
#[derive(Debug, Default)]
struct Header {
    formats: Formats,
    functions: Functions,
    /// `7 name` lines.
    command_lines: Vec<u8>,
    layout: Layout,
    cpus: Vec<CpuData>,
    /// Nanoseconds are cycles times the first, shifted by the second.
    cycles: Option<(u32, u32)>,
    /// Brisk's recorder was killed.
    is_unfinished: bool,
}

/// Where the pages of a CPU are.
#[derive(Debug, Clone, Copy)]
struct CpuData {
    cpu: u16,
    offset: u64,
    bytes: u64,
}

/// Reads a whole file, from its beginning.
pub(super) fn read(file: impl Read + Seek, collector: &mut Collector) -> Result<(), Fault> {
    let mut input = Input::new(file)?;
    let mut header = Header::default();
    let version = input.begin()?;
    let packing = match version {
        6 => {
            collector.set_format("trace-cmd v6");
            sections::version_6(&mut input, &mut header)?;
            Packing::None
        }
        7 => {
            collector.set_format("trace-cmd v7");
            sections::version_7(&mut input, &mut header)?
        }
        _ => return Err(input::damaged("its version is neither 6 nor 7").into()),
    };
    if header.cycles.is_some() {
        collector
            .fault("the trace's clock counts cycles: its times begin elsewhere than trace-cmd report's".to_owned());
    }
    if header.is_unfinished {
        let lost = "what came in its last quarter of a second may be missing, on some CPUs more than on others";
        collector.fault(format!("the recording did not end properly: {lost}"));
    }
    for data in header.cpus.clone() {
        let read = pages::read(&mut input, &header, data, packing, collector);
        match read {
            Ok(()) => {}
            // What has been read of the other CPUs is of use.
            Err(Fault::Input(cause)) => {
                collector.fault(format!("the events of CPU {} are damaged: {cause}", data.cpu));
                collector.lost(data.cpu, 0);
            }
            Err(fault) => return Err(fault),
        }
    }
    for line in header.command_lines.split(|byte| *byte == b'\n') {
        let line = String::from_utf8_lossy(line);
        if let Some((tid, name)) = line.split_once(' ')
            && let Ok(tid) = tid.parse()
        {
            collector.name_unknown(tid, name);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
