//! How much memory exists and what it holds, from /proc/meminfo (proc_meminfo(5)).

use serde::Serialize;

use crate::open_file::OpenFiles;
use crate::{DeviceError, Root};

const FILE: &str = "/proc/meminfo";

/// What brisk reads from /proc/meminfo, in KiB; missing lines are zero, except for [`MemoryInfo::available_kib`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct MemoryInfo {
    /// All memory that the kernel manages (`MemTotal`).
    pub total_kib: u64,
    /// Unused memory (`MemFree`).
    pub free_kib: u64,
    /// The kernel's own estimate of what is available without swapping (`MemAvailable`, since Linux 3.14).
    pub available_kib: Option<u64>,
    /// Anonymous memory and tmpfs on the reclaim lists: what can be swapped out.
    pub anonymous_kib: u64,
    /// File pages on the reclaim lists: what can be dropped, or written back and dropped.
    pub file_kib: u64,
    /// tmpfs and shared memory (`Shmem`).
    pub shmem_kib: u64,
    /// Pages that are both in swap and in memory (`SwapCached`).
    pub swap_cached_kib: u64,
    /// All swap (`SwapTotal`).
    pub swap_total_kib: u64,
    /// Free swap (`SwapFree`).
    pub swap_free_kib: u64,
}

/// The current figures.
///
/// # Errors
/// [`DeviceError`] when the file cannot be read or is not as documented.
pub fn read(root: &Root) -> Result<MemoryInfo, DeviceError> {
    of_text(root, &root.read(FILE)?)
}

/// The same, from a file that stays open among `texts`.
///
/// # Errors
/// As [`read`].
pub fn read_open(root: &Root, texts: &mut OpenFiles) -> Result<MemoryInfo, DeviceError> {
    of_text(root, &texts.read(root, FILE)?)
}

fn of_text(root: &Root, text: &str) -> Result<MemoryInfo, DeviceError> {
    parse(text).ok_or_else(|| DeviceError::malformed(&root.path(FILE), "MemTotal and MemFree, each in kB", text))
}

/// Parses /proc/meminfo; the lines vary by kernel, their form does not.
pub fn parse(text: &str) -> Option<MemoryInfo> {
    let kib = |name: &str| kib_of(text, name);
    let both = |one, other| Some(kib(one).unwrap_or(0).saturating_add(kib(other).unwrap_or(0)));
    Some(MemoryInfo {
        total_kib: kib("MemTotal").filter(|&total| total > 0)?,
        free_kib: kib("MemFree")?,
        available_kib: kib("MemAvailable"),
        anonymous_kib: both("Active(anon)", "Inactive(anon)")?,
        file_kib: both("Active(file)", "Inactive(file)")?,
        shmem_kib: kib("Shmem").unwrap_or(0),
        swap_cached_kib: kib("SwapCached").unwrap_or(0),
        swap_total_kib: kib("SwapTotal").unwrap_or(0),
        swap_free_kib: kib("SwapFree").unwrap_or(0),
    })
}

/// The number of the line `NAME:   N kB`, as /proc/meminfo, /proc/PID/status and /proc/PID/smaps_rollup have them.
pub(super) fn kib_of(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    value.trim().strip_suffix("kB")?.trim_end().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_by_their_whole_name() {
        let text = "MemTotal:  353280 kB\nMemFree:  20000 kB\nActive(anon): 30 kB\nInactive(anon): 4 kB\n\
                    Active(file): 500 kB\nInactive(file): 6 kB\nShmem: 7 kB\nSwapCached: 1 kB\nSwapTotal: 8 kB\nSwapFree: 5 kB\n";
        let info = parse(text).unwrap();
        let found = (info.total_kib, info.free_kib, info.anonymous_kib, info.file_kib, info.swap_total_kib);
        assert_eq!(found, (353_280, 20_000, 34, 506, 8));
        assert_eq!((info.available_kib, info.swap_free_kib, info.shmem_kib, info.swap_cached_kib), (None, 5, 7, 1));
    }

    #[test]
    fn malformed_meminfo_is_refused() {
        for text in
            ["", "MemTotal: 1 kB", "MemTotal: 0 kB\nMemFree: 0 kB", "MemTotal: 1 MB\nMemFree: 1 kB", "MemTotal 1 kB"]
        {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn this_system_is_read() {
        let info = read(&Root::system()).unwrap();
        assert!(info.free_kib < info.total_kib && info.file_kib < info.total_kib, "{info:?}");
    }
}
