//! The pages of this program's own code (proc_pid_maps(5), madvise(2)).
//!
//! A program uses most of its code once at start, to parse arguments and read files, and then keeps it mapped. A waiting daemon
//! needs little of it: the kernel can use unmapped pages for other programs, and a page that is needed again is read back from
//! the file, at the cost of a page fault.

use std::ffi::c_void;
use std::io;
use std::num::ParseIntError;
use std::ops::Range;

use rustix::mm::{Advice, madvise};

/// Unmaps the code's pages until they are needed again. Returns the size of the code, in bytes.
///
/// # Errors
/// The kernel's answer; the pages then stay mapped.
pub fn unmap() -> io::Result<usize> {
    let program = std::fs::read_link("/proc/self/exe")?;
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let code = find_code(&maps, &program.to_string_lossy())
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no code of this program in /proc/self/maps"))?;
    // SAFETY: the range is a private mapping of the program's file without write permission, so its content is the file's: the
    // linker's relocations change data only, as a mapping that is never writable shows. Threads that execute it fault its pages
    // in again.
    unsafe { madvise(code.start as *mut c_void, code.len(), Advice::LinuxDontNeed)? };
    Ok(code.len())
}

/// The addresses of the executable mapping of `program`.
fn find_code(maps: &str, program: &str) -> Option<Range<usize>> {
    maps.lines().find_map(|line| {
        let (addresses, rest) = line.split_once(' ')?;
        if !rest.starts_with("r-xp ") || !rest.ends_with(program) {
            return None;
        }
        let (start, end) = addresses.split_once('-')?;
        let address = |text| -> Result<usize, ParseIntError> { usize::from_str_radix(text, 16) };
        Some(address(start).ok()?..address(end).ok()?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_programs_own_code_is_found() {
        let maps = "\
            55a00000-55a40000 r--p 00000000 fe:00 131 /usr/bin/brisk\n\
            55a40000-55c00000 r-xp 00040000 fe:00 131 /usr/bin/brisk\n\
            55c00000-55c20000 rw-p 00200000 fe:00 131 /usr/bin/brisk\n\
            7f000000-7f100000 r-xp 00000000 fe:00 977 /usr/lib/libc.so.6\n\
            7ff00000-7ff02000 r-xp 00000000 00:00 0 [vdso]\n";
        assert_eq!(find_code(maps, "/usr/bin/brisk"), Some(0x55a4_0000..0x55c0_0000));
        assert_eq!(find_code(maps, "/usr/lib/libc.so.6"), Some(0x7f00_0000..0x7f10_0000));
        assert_eq!(find_code(maps, "/usr/bin/other"), None);
        assert_eq!(find_code("nonsense\nx-y r-xp /usr/bin/brisk\n", "/usr/bin/brisk"), None);
    }

    // Verifies COST-2.
    #[test]
    fn the_program_goes_on_without_its_pages() {
        assert!(unmap().unwrap() > 0);
        only_the_programs_own_code_is_found();
    }
}
