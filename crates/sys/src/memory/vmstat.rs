//! What reclaim has done since boot: counters of /proc/vmstat (proc(5)).

use serde::Serialize;

use crate::{DeviceError, Root};

const FILE: &str = "/proc/vmstat";

/// What brisk reads from /proc/vmstat; what a kernel does not count is zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ReclaimCounters {
    /// Refaults of file pages (`workingset_refault_file`; before Linux 5.9 of all pages).
    pub file_refaults: u64,
    /// Processes that the kernel's OOM killer killed (`oom_kill`, since Linux 4.13).
    pub oom_kills: u64,
    /// Pages that reclaim has scanned (`pgscan_kswapd` and `pgscan_direct`): reclaim is active while this rises.
    pub scanned: u64,
    /// Of these, pages that tasks scanned themselves in direct reclaim (`pgscan_direct`): kswapd was not quick enough.
    pub scanned_directly: u64,
    /// Pages that reclaim has freed (`pgsteal_kswapd` and `pgsteal_direct`).
    pub reclaimed: u64,
    /// Pages that are free now (`nr_free_pages`).
    pub free: u64,
    /// Pages that were swapped in.
    pub swapped_in: u64,
    /// Pages that were swapped out.
    pub swapped_out: u64,
}

/// The current counters.
///
/// # Errors
/// [`DeviceError`] when the file cannot be read.
pub fn read(root: &Root) -> Result<ReclaimCounters, DeviceError> {
    Ok(parse(&root.read(FILE)?))
}

/// Parses lines of a name and a number; which lines exist depends on the kernel.
pub fn parse(text: &str) -> ReclaimCounters {
    let mut counters = ReclaimCounters::default();
    for line in text.lines() {
        let Some((name, number)) = line.split_once(' ') else { continue };
        let place = match name {
            "workingset_refault_file" | "workingset_refault" => &mut counters.file_refaults,
            "oom_kill" => &mut counters.oom_kills,
            "pgscan_kswapd" | "pgscan_direct" => {
                let pages = number.parse().unwrap_or(0);
                counters.scanned = counters.scanned.saturating_add(pages);
                if name == "pgscan_direct" {
                    counters.scanned_directly = pages;
                }
                continue;
            }
            "pgsteal_kswapd" | "pgsteal_direct" => {
                counters.reclaimed = counters.reclaimed.saturating_add(number.parse().unwrap_or(0));
                continue;
            }
            "nr_free_pages" => &mut counters.free,
            "pswpin" => &mut counters.swapped_in,
            "pswpout" => &mut counters.swapped_out,
            _ => continue,
        };
        *place = number.parse().unwrap_or(*place);
    }
    counters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_their_whole_name() {
        let text = "pswpin 5\npswpout 7\nworkingset_refault_anon 1\nworkingset_refault_file 3\npgscan_kswapd 4\npgscan_direct 5\npgscan_direct_throttle 9\npgsteal_kswapd 3\npgsteal_direct 1\npgsteal_anon 4\nnr_free_pages 8\noom_kill 2\nnone\noom_kill x";
        let expected = ReclaimCounters {
            file_refaults: 3,
            oom_kills: 2,
            scanned: 9,
            scanned_directly: 5,
            reclaimed: 4,
            free: 8,
            swapped_in: 5,
            swapped_out: 7,
        };
        assert_eq!((parse(text), parse("")), (expected, ReclaimCounters::default()));
        assert_eq!(parse("workingset_refault 9").file_refaults, 9);
        let most = format!("pgscan_kswapd {0}\npgscan_direct {0}", u64::MAX);
        assert_eq!(parse(&most).scanned, u64::MAX);
        assert!(read(&Root::system()).is_ok());
    }
}
