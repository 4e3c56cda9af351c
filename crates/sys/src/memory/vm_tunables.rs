//! How the kernel reclaims: /proc/sys/vm (Documentation/admin-guide/sysctl/vm.rst) and multi-generational LRU
//! (Documentation/admin-guide/mm/multigen_lru.rst).

use serde::Serialize;

use crate::{DeviceError, Root};

/// How strongly reclaim prefers anonymous pages to file pages.
pub const SWAPPINESS: &str = "/proc/sys/vm/swappiness";
/// How many pages a swap-in reads ahead: a power of two.
pub const PAGE_CLUSTER: &str = "/proc/sys/vm/page-cluster";
/// The distance between watermarks in ten-thousandths of memory; since Linux 4.6.
pub const WATERMARK_SCALE_FACTOR: &str = "/proc/sys/vm/watermark_scale_factor";
/// The reserve for allocations that cannot wait.
pub const MIN_FREE: &str = "/proc/sys/vm/min_free_kbytes";
/// The switch of multi-generational LRU; since Linux 6.1, CONFIG_LRU_GEN.
pub const LRU_GEN: &str = "/sys/kernel/mm/lru_gen/enabled";

/// All of them.
pub const ALL: [&str; 5] = [SWAPPINESS, PAGE_CLUSTER, WATERMARK_SCALE_FACTOR, MIN_FREE, LRU_GEN];

/// The current values; `None` where this kernel has no such tunable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct VmTunables {
    /// 0 to 100, and to 200 since Linux 5.8.
    pub swappiness: Option<u32>,
    /// Two to this power pages are read ahead at a swap-in.
    pub page_cluster: Option<u32>,
    /// In ten-thousandths of memory.
    pub watermark_scale_factor: Option<u32>,
    /// In KiB.
    pub min_free_kib: Option<u64>,
    /// The enabled components of multi-generational LRU, a bit each; zero is off.
    pub lru_gen: Option<u32>,
}

impl VmTunables {
    /// The current values, and the errors of those that could not be read or parsed.
    pub fn read(root: &Root) -> (Self, Vec<DeviceError>) {
        let mut faults = Vec::new();
        let tunables = Self {
            swappiness: present(root.read_number(SWAPPINESS), &mut faults),
            page_cluster: present(root.read_number(PAGE_CLUSTER), &mut faults),
            watermark_scale_factor: present(root.read_number(WATERMARK_SCALE_FACTOR), &mut faults),
            min_free_kib: present(root.read_number(MIN_FREE), &mut faults),
            lru_gen: present(lru_gen(root), &mut faults),
        };
        (tunables, faults)
    }
}

/// A missing tunable is no fault: kernels differ.
fn present<T>(outcome: Result<T, DeviceError>, faults: &mut Vec<DeviceError>) -> Option<T> {
    match outcome {
        Ok(value) => return Some(value),
        Err(error) if error.is_missing() => {}
        Err(error) => faults.push(error),
    }
    None
}

fn lru_gen(root: &Root) -> Result<u32, DeviceError> {
    let text = root.read(LRU_GEN)?;
    parse_lru_gen(&text).ok_or_else(|| DeviceError::malformed(&root.path(LRU_GEN), "a mask such as 0x0007", &text))
}

/// Parses the mask that `enabled` shows: `0x0007`.
pub fn parse_lru_gen(text: &str) -> Option<u32> {
    u32::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_is_hexadecimal() {
        for (text, mask) in [("0x0007\n", Some(7)), ("0x0000", Some(0)), ("7", None), ("y", None), ("0x", None)] {
            assert_eq!(parse_lru_gen(text), mask, "{text:?}");
        }
    }

    #[test]
    fn this_system_is_read() {
        let (tunables, faults) = VmTunables::read(&Root::system());
        assert!(faults.is_empty() && tunables.swappiness.is_some_and(|value| value <= 200), "{tunables:?} {faults:?}");
    }
}
