//! Swapping another process's memory out and in: process_madvise(2) (Linux 5.10; MADV_PAGEOUT and MADV_WILLNEED).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::{DeviceError, Root};

const PROCESS_MADVISE: libc::c_long = 440;
const MADV_WILLNEED: libc::c_int = 3;
const MADV_PAGEOUT: libc::c_int = 21;

/// A range of a process's address space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// Its first byte.
    pub start: usize,
    /// Its length.
    pub bytes: usize,
}

/// What one call moves at most: a process that waits for it waits no longer than for that.
const STEP_BYTES: usize = 512 << 10;

impl Range {
    /// The range in steps, each for one call.
    pub fn steps(self) -> impl Iterator<Item = Self> {
        let end = self.start + self.bytes;
        (self.start..end).step_by(STEP_BYTES).map(move |start| Self { start, bytes: STEP_BYTES.min(end - start) })
    }
}

/// What is requested for a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SwapDirection {
    /// Swap it out now.
    Out,
    /// Swap it in soon.
    In,
}

/// Moves `range` of the process behind `pidfd`. Returns the bytes that the kernel processed.
///
/// # Errors
/// ESRCH when it has ended, EPERM without CAP_SYS_NICE and the right to read it, EINVAL and ENOSYS on older kernels.
pub fn advise(pidfd: BorrowedFd<'_>, range: Range, direction: SwapDirection) -> io::Result<usize> {
    let vector = libc::iovec { iov_base: range.start as *mut _, iov_len: range.bytes };
    let advice = if direction == SwapDirection::Out { MADV_PAGEOUT } else { MADV_WILLNEED };
    // SAFETY: the kernel reads one iovec, which outlives the call; its addresses are meaningful in the other process only.
    let result = unsafe { libc::syscall(PROCESS_MADVISE, pidfd.as_raw_fd(), &raw const vector, 1usize, advice, 0u32) };
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// The private writable mappings of process `pid` without a file: what can be swapped out.
///
/// # Errors
/// [`DeviceError::is_missing`] when it has ended, [`DeviceError::is_denied`] for another user's.
pub fn anonymous_ranges(root: &Root, pid: u32) -> Result<Vec<Range>, DeviceError> {
    Ok(parse_maps(&root.read(format!("/proc/{pid}/maps"))?))
}

/// Parses /proc/PID/maps (proc(5)); the stack and the kernel's own mappings are left out, and addresses that this process could
/// not pass to [`advise`]: a 32-bit brisk swaps no memory of 64-bit processes out.
pub fn parse_maps(text: &str) -> Vec<Range> {
    let range = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let is_private = words.next()? == "rw-p";
        let inode = words.nth(2)?;
        let is_named = words.next().is_some_and(|name| name != "[heap]" && !name.starts_with("[anon:"));
        let [start, end] = [start, end].map(|address| usize::from_str_radix(address, 16).ok());
        let (start, bytes) = (start?, end?.checked_sub(start?)?);
        (is_private && inode == "0" && !is_named && bytes > 0).then_some(Range { start, bytes })
    };
    text.lines().filter_map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_swappable_mappings_are_ranges() {
        let text = "\
b5d00000-b5d21000 rw-p 00000000 00:00 0          [heap]
70000000-73400000 rw-p 00000000 00:00 0
73400000-73500000 rw-p 00000000 00:00 0          [anon:dalvik-main space]
74000000-74100000 r--p 00000000 08:01 131        /usr/lib/libc.so.6
74100000-74200000 rw-p 00100000 08:01 131        /usr/lib/libc.so.6
75000000-75100000 rw-s 00000000 00:01 77         /dev/shm/x
76000000-76100000 ---p 00000000 00:00 0
bef00000-bef21000 rw-p 00000000 00:00 0          [stack]
ffff-1 rw-p 00000000 00:00 0
garbage
";
        let found: Vec<usize> = parse_maps(text).iter().map(|range| range.bytes).collect();
        assert_eq!(found, [0x21000, 0x340_0000, 0x10_0000]);
    }

    #[test]
    fn a_range_is_split_into_steps() {
        let range = Range { start: 0x1000, bytes: 2 * STEP_BYTES + 0x3000 };
        let found: Vec<Range> = range.steps().collect();
        assert_eq!(found.iter().map(|step| step.bytes).collect::<Vec<_>>(), [STEP_BYTES, STEP_BYTES, 0x3000]);
        assert!(found.windows(2).all(|pair| pair[0].start + pair[0].bytes == pair[1].start));
        assert_eq!(Range { start: 0, bytes: 0 }.steps().count(), 0);
    }

    #[test]
    fn this_process_can_be_advised() {
        let ranges = anonymous_ranges(&Root::system(), std::process::id()).unwrap();
        assert!(!ranges.is_empty());
        let Ok(hold) = crate::process::process_kill::ProcessHandle::on(std::process::id()) else { return };
        let page = vec![0u8; 1 << 20];
        let range = Range { start: page.as_ptr() as usize & !4095, bytes: 4096 };
        // The host may have no swap, or refuse: both are valid answers.
        let _ = advise(std::os::fd::AsFd::as_fd(&hold), range, SwapDirection::In);
        assert!(page.iter().all(|&byte| byte == 0));
    }
}
