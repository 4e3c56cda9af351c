//! bpf(2): a program is loaded, linked to what it is run for, and each look is a file of what it wrote.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::program::Instruction;

const LOAD_PROGRAM: u32 = 5;
const CREATE_LINK: u32 = 28;
const CREATE_ITERATOR: u32 = 33;
const KIND_TRACING: u32 = 26;
const ATTACH_ITERATOR: u32 = 28;

/// The kernel lends what it reads its own structures with, and `bpf_seq_write`, to programs alone that say so. It is the
/// program handed to the kernel that says it: that one may be used under this licence as well as under that of the rest.
const LICENCE: &[u8; 4] = b"GPL\0";
/// As `bpftool prog` shows it.
const NAME: &[u8; 16] = b"brisk_threads\0\0\0";
/// What the kernel has to say about a program that it does not take.
const REMARKS_BYTES: usize = 16 << 10;

/// The part of `union bpf_attr` that [`LOAD_PROGRAM`] reads (linux/bpf.h).
#[repr(C)]
#[derive(Debug, Default)]
struct LoadProgram {
    kind: u32,
    instruction_count: u32,
    instructions: u64,
    licence: u64,
    remarks_level: u32,
    remarks_bytes: u32,
    remarks: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach_kind: u32,
    types: u32,
    function_bytes: u32,
    functions: u64,
    function_count: u32,
    line_bytes: u32,
    lines: u64,
    line_count: u32,
    attach_to: u32,
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
    attach_kind: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Debug)]
struct CreateIterator {
    link: u32,
    flags: u32,
}

/// A part of `union bpf_attr`: plain data without gaps, of which every pointer that the kernel follows is valid.
///
/// # Safety
/// An implementation promises just that.
unsafe trait Attribute {}
// SAFETY: it has no gaps, as its size shows, and its pointers are filled in by `load` below, from what outlives the call.
unsafe impl Attribute for LoadProgram {}
// SAFETY: four numbers without gaps, none of them a pointer.
unsafe impl Attribute for CreateLink {}
// SAFETY: two numbers without gaps, none of them a pointer.
unsafe impl Attribute for CreateIterator {}

/// A call that answers with a descriptor.
fn bpf<T: Attribute>(command: u32, attribute: &T) -> io::Result<OwnedFd> {
    // SAFETY: the kernel reads `size_of::<T>` bytes of `attribute`, which outlives the call, and follows the pointers in it,
    // which are valid by the promise of `Attribute`.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, &raw const *attribute, size_of::<T>() as u32) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just opened this descriptor for us, and no other code has its number. It is closed on exec.
    Ok(unsafe { OwnedFd::from_raw_fd(result as i32) })
}

/// Loads `program`, which takes the place of the kernel's function `hook`.
///
/// # Errors
/// The kernel's answer, and its last remark on the program where it has read that.
pub(super) fn load(program: &[Instruction], hook: u32) -> Result<OwnedFd, (io::Error, String)> {
    let mut remarks = vec![0u8; REMARKS_BYTES];
    let mut attribute = LoadProgram {
        kind: KIND_TRACING,
        instruction_count: program.len() as u32,
        instructions: program.as_ptr().expose_provenance() as u64,
        licence: LICENCE.as_ptr().expose_provenance() as u64,
        name: *NAME,
        attach_kind: ATTACH_ITERATOR,
        attach_to: hook,
        ..LoadProgram::default()
    };
    // To remark on what is right takes time, and more room.
    let error = match bpf(LOAD_PROGRAM, &attribute) {
        Ok(loaded) => return Ok(loaded),
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => return Err((error, String::new())),
        Err(error) => error,
    };
    attribute.remarks_level = 1;
    attribute.remarks_bytes = REMARKS_BYTES as u32;
    attribute.remarks = remarks.as_mut_ptr().expose_provenance() as u64;
    match bpf(LOAD_PROGRAM, &attribute) {
        Ok(loaded) => Ok(loaded),
        Err(_) => Err((error, last_remark(&remarks))),
    }
}

/// The last line but those that count what was read.
fn last_remark(remarks: &[u8]) -> String {
    let length = remarks.iter().position(|&byte| byte == 0).unwrap_or(remarks.len());
    let text = String::from_utf8_lossy(&remarks[..length]);
    let is_remark = |line: &&str| !line.is_empty() && !line.starts_with("processed ");
    text.lines().map(str::trim).rfind(is_remark).unwrap_or_default().to_owned()
}

/// Links `program` to the tasks, for as long as the link is held; it runs when the link is read.
///
/// # Errors
/// The kernel's answer.
pub(super) fn link(program: &OwnedFd) -> io::Result<OwnedFd> {
    let program = program.as_raw_fd() as u32;
    bpf(CREATE_LINK, &CreateLink { program, target: 0, attach_kind: ATTACH_ITERATOR, flags: 0 })
}

/// What the linked program writes of all tasks, from the first one on.
///
/// # Errors
/// The kernel's answer.
pub(super) fn iterate(link: &OwnedFd) -> io::Result<OwnedFd> {
    bpf(CREATE_ITERATOR, &CreateIterator { link: link.as_raw_fd() as u32, flags: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    // Verifies PLACE-1.
    #[test]
    fn the_last_remark_is_the_one_that_says_why() {
        for (remarks, last) in [
            (&b"0: R1=ctx()\nR1 invalid mem access\nprocessed 4 insns\n\0\0"[..], "R1 invalid mem access"),
            (b"cut in the mid", "cut in the mid"),
            (b"\0", ""),
            (b"", ""),
            (b"\xff\n", "\u{fffd}"),
        ] {
            assert_eq!(last_remark(remarks), last);
        }
    }
}
