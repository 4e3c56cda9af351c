//! The watermarks of the zones, which start and stop reclaim, and the free pages of the per-CPU lists, from /proc/zoneinfo (proc(5)).

use serde::Serialize;

use crate::{DeviceError, Root};

const FILE: &str = "/proc/zoneinfo";

/// The watermarks of all zones together, in KiB.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Watermarks {
    /// Below it allocations wait for reclaim.
    pub min_kib: u64,
    /// Below it kswapd wakes.
    pub low_kib: u64,
    /// Above it kswapd sleeps again: memory below it is the kernel's reserve, not memory for applications.
    pub high_kib: u64,
    /// What zones withhold from allocations that could use another zone: the greatest of each zone's `protection`.
    pub protected_kib: u64,
}

/// The current watermarks.
///
/// # Errors
/// [`DeviceError`] when the file cannot be read or contains no zone's watermarks.
pub fn watermarks(root: &Root) -> Result<Watermarks, DeviceError> {
    let text = root.read(FILE)?;
    let page_kib = rustix::param::page_size() as u64 / 1024;
    parse(&text, page_kib)
        .ok_or_else(|| DeviceError::malformed(&root.path(FILE), "zones with min, low and high in pages", &text))
}

/// The free pages in the lists of each CPU, in KiB. MemFree and MemAvailable lack them; since Linux 6.7 these lists grow to
/// several MiB on their own (mm/page_alloc.c, `nr_pcp_high`).
///
/// # Errors
/// [`DeviceError`] when the file cannot be read.
pub fn per_cpu_lists_kib(root: &Root) -> Result<u64, DeviceError> {
    let page_kib = rustix::param::page_size() as u64 / 1024;
    Ok(pages_of_per_cpu_lists(&root.read(FILE)?) * page_kib)
}

fn pages_of_per_cpu_lists(text: &str) -> u64 {
    let counts = text.lines().filter_map(|line| line.trim_start().strip_prefix("count:"));
    counts.filter_map(|count| count.trim().parse::<u32>().ok()).map(u64::from).sum()
}

/// Sums the watermarks over all zones. The per-CPU lists have a `high:` too, with a colon.
pub fn parse(text: &str, page_kib: u64) -> Option<Watermarks> {
    let mut sum = Watermarks::default();
    let mut zones = 0;
    for line in text.lines() {
        if let Some(list) = line.trim_start().strip_prefix("protection: (") {
            let pages = list.trim_end_matches(')').split(", ").filter_map(|pages| pages.parse::<u64>().ok()).max();
            sum.protected_kib = sum.protected_kib.checked_add(pages.unwrap_or(0).checked_mul(page_kib)?)?;
            continue;
        }
        let mut words = line.split_ascii_whitespace();
        let (name, value) = (words.next(), words.next());
        let place = match name {
            Some("min") => &mut sum.min_kib,
            Some("low") => &mut sum.low_kib,
            Some("high") => &mut sum.high_kib,
            _ => continue,
        };
        let pages: u64 = value?.parse().ok()?;
        *place = place.checked_add(pages.checked_mul(page_kib)?)?;
        zones += 1;
    }
    (zones > 0).then_some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_summed_and_per_cpu_lists_are_not() {
        let text = "Node 0, zone      DMA\n  pages free     2816\n        min      11\n        low      13\n        high     16\n        protection: (0, 459, 460)\n  \
                    pagesets\n    cpu: 0\n              count: 0\n              high:  186\n\
                    Node 0, zone   Normal\n        min      1000\n        low      1250\n        high     1500\n  \
                    pagesets\n    cpu: 0\n              count:    172\n    cpu: 1\n              count:    14\n";
        let sum = Watermarks { min_kib: 4044, low_kib: 5052, high_kib: 6064, protected_kib: 1840 };
        assert_eq!((parse(text, 4), pages_of_per_cpu_lists(text)), (Some(sum), 186));
        for text in ["", "Node 0, zone DMA\n", "  high many\n", "  high\n", "  high 18446744073709551615\n"] {
            assert_eq!(parse(text, 4), None, "{text:?}");
        }
    }

    #[test]
    fn this_system_is_read() {
        let marks = watermarks(&Root::system()).unwrap();
        assert!(0 < marks.min_kib && marks.min_kib <= marks.low_kib && marks.low_kib <= marks.high_kib, "{marks:?}");
    }
}
