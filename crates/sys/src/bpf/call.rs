//! bpf(2): loads a program, links it to its hook, and opens a file of its output for each sample.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::instruction::Instruction;

const LOAD_PROGRAM: u32 = 5;
const CREATE_LINK: u32 = 28;
const CREATE_ITERATOR: u32 = 33;
const PROGRAM_TYPE_CGROUP_SKB: u32 = 8;
const PROGRAM_TYPE_TRACING: u32 = 26;
const ATTACH_TYPE_CGROUP_EGRESS: u32 = 1;
const ATTACH_TYPE_TRACE_ITERATOR: u32 = 28;

/// The kernel lets only programs with a GPL-compatible licence read its structures and call `bpf_seq_write`. Only the program
/// that is loaded declares it: that one may be used under the GPL as well as under the licence of the rest.
const LICENCE: &[u8; 4] = b"GPL\0";
/// What a program is for.
pub(super) enum Kind {
    /// It is run for each task, by the kernel's function `hook`.
    TaskIterator {
        /// Its number in the kernel's types.
        hook: u32,
    },
    /// It is run for each packet that a control group sends.
    Egress,
}

impl Kind {
    /// Its type, where it is attached, and the name that `bpftool prog` shows.
    fn constants(&self) -> (u32, u32, &'static [u8; 16]) {
        match self {
            Self::TaskIterator { .. } => (PROGRAM_TYPE_TRACING, ATTACH_TYPE_TRACE_ITERATOR, b"brisk_threads\0\0\0"),
            Self::Egress => (PROGRAM_TYPE_CGROUP_SKB, ATTACH_TYPE_CGROUP_EGRESS, b"brisk_egress\0\0\0\0"),
        }
    }
}

/// Room for the verifier's log about a program that it refuses.
const LOG_BYTES: usize = 16 << 10;

/// The part of `union bpf_attr` that [`LOAD_PROGRAM`] reads (linux/bpf.h).
#[repr(C)]
#[derive(Debug, Default)]
struct LoadProgram {
    kind: u32,
    instruction_count: u32,
    instructions: u64,
    licence: u64,
    log_level: u32,
    log_bytes: u32,
    log_buffer: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach_type: u32,
    types: u32,
    function_bytes: u32,
    functions: u64,
    function_count: u32,
    line_bytes: u32,
    lines: u64,
    line_count: u32,
    attach_btf_id: u32,
    attach_program: u32,
    relocation_count: u32,
}

const _: () = assert!(size_of::<LoadProgram>() == 120);

/// The parts of `union bpf_attr` that [`CREATE_LINK`] and [`CREATE_ITERATOR`] read.
#[repr(C)]
#[derive(Debug)]
struct CreateLink {
    program: u32,
    target: u32,
    attach_type: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Debug)]
struct CreateIterator {
    link: u32,
    flags: u32,
}

/// A part of `union bpf_attr`: plain data without padding, in which every pointer that the kernel follows is valid.
///
/// # Safety
/// An implementation guarantees this.
unsafe trait Attribute {}
// SAFETY: it has no padding, as its size shows, and `load` below sets its pointers to data that outlives the call.
unsafe impl Attribute for LoadProgram {}
// SAFETY: four numbers without padding, none of them a pointer.
unsafe impl Attribute for CreateLink {}
// SAFETY: two numbers without padding, none of them a pointer.
unsafe impl Attribute for CreateIterator {}

/// A call that returns a descriptor.
fn bpf<T: Attribute>(command: u32, attribute: &T) -> io::Result<OwnedFd> {
    // SAFETY: the kernel reads `size_of::<T>` bytes of `attribute`, which outlives the call, and follows its pointers, which
    // are valid as `Attribute` guarantees.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, &raw const *attribute, size_of::<T>() as u32) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just opened this descriptor for this call; no other code has its number. It is closed on exec.
    Ok(unsafe { OwnedFd::from_raw_fd(result as i32) })
}

/// Loads `program`, which is for `kind`.
///
/// # Errors
/// The kernel's answer, and the last line of the verifier's log, if it wrote one.
pub(super) fn load(program: &[Instruction], kind: &Kind) -> Result<OwnedFd, (io::Error, String)> {
    let mut log_buffer = vec![0u8; LOG_BYTES];
    let (program_type, attach_type, name) = kind.constants();
    let mut attribute = LoadProgram {
        kind: program_type,
        instruction_count: program.len() as u32,
        instructions: program.as_ptr().expose_provenance() as u64,
        licence: LICENCE.as_ptr().expose_provenance() as u64,
        name: *name,
        attach_type,
        attach_btf_id: if let Kind::TaskIterator { hook } = kind { *hook } else { 0 },
        ..LoadProgram::default()
    };
    // The verifier's log takes time and memory, so it is requested only after a failure.
    let error = match bpf(LOAD_PROGRAM, &attribute) {
        Ok(loaded) => return Ok(loaded),
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => return Err((error, String::new())),
        Err(error) => error,
    };
    attribute.log_level = 1;
    attribute.log_bytes = LOG_BYTES as u32;
    attribute.log_buffer = log_buffer.as_mut_ptr().expose_provenance() as u64;
    match bpf(LOAD_PROGRAM, &attribute) {
        Ok(loaded) => Ok(loaded),
        Err(_) => Err((error, last_log_line(&log_buffer))),
    }
}

/// The last line of the log, without the statistics.
fn last_log_line(log_buffer: &[u8]) -> String {
    let length = log_buffer.iter().position(|&byte| byte == 0).unwrap_or(log_buffer.len());
    let text = String::from_utf8_lossy(&log_buffer[..length]);
    let is_message = |line: &&str| !line.is_empty() && !line.starts_with("processed ");
    text.lines().map(str::trim).rfind(is_message).unwrap_or_default().to_owned()
}

/// Attaches `program` for as long as the link is open: an iterator of tasks, which runs when an iterator of the link is read and
/// has no target, or a program for the packets of the control group `target`.
///
/// # Errors
/// The kernel's answer.
pub(super) fn link(program: &OwnedFd, kind: &Kind, target: u32) -> io::Result<OwnedFd> {
    let (program, (_, attach_type, _)) = (program.as_raw_fd() as u32, kind.constants());
    bpf(CREATE_LINK, &CreateLink { program, target, attach_type, flags: 0 })
}

/// Opens a file of what the linked program writes about all tasks, starting with the first.
///
/// # Errors
/// The kernel's answer.
pub(super) fn open_iterator(link: &OwnedFd) -> io::Result<OwnedFd> {
    bpf(CREATE_ITERATOR, &CreateIterator { link: link.as_raw_fd() as u32, flags: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    // Verifies PLACE-1.
    #[test]
    fn the_last_remark_names_the_reason() {
        for (log_buffer, last) in [
            (&b"0: R1=ctx()\nR1 invalid mem access\nprocessed 4 insns\n\0\0"[..], "R1 invalid mem access"),
            (b"cut in the mid", "cut in the mid"),
            (b"\0", ""),
            (b"", ""),
            (b"\xff\n", "\u{fffd}"),
        ] {
            assert_eq!(last_log_line(log_buffer), last);
        }
    }
}
