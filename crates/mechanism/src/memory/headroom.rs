//! How much memory applications can still allocate before a process must be killed: pure, from the kernel's figures.
//!
//! headroom = (free - high watermark) + (file - floor) + sum over swaps of (1 - r) x min(free swap, anonymous left).
//! A page swapped out to zram still costs r of itself. So free swap alone is no headroom: it adds nothing without anonymous
//! pages to swap out, or when pages do not compress.

use serde::Serialize;

use super::plan::ASSUMED_RATIO;
use brisk_sys::memory::meminfo::MemoryInfo;
use brisk_sys::memory::swaps::Swap;
use brisk_sys::memory::zoneinfo::Watermarks;
use brisk_sys::memory::zram::Zram;

/// The share of memory that file pages keep: running code is read from files, and would be read again at once.
const FILE_FLOOR_SHARE: f64 = 0.05;

/// The headroom and its terms, in KiB; a negative term is a deficit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Headroom {
    /// The sum of all terms.
    pub total_kib: i64,
    /// Free memory above the high watermark.
    pub free_kib: i64,
    /// File pages above their floor.
    pub file_kib: i64,
    /// The floor of file pages.
    pub file_floor_kib: u64,
    /// The memory that swapping out would still free.
    pub swap_kib: i64,
    /// That of each swap area, in fill order.
    pub swaps: Vec<SwapHeadroom>,
}

/// The memory that swapping out to one area would still free.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SwapHeadroom {
    /// The area, as /proc/swaps names it.
    pub path: String,
    /// What would be swapped out to it.
    pub taken_kib: u64,
    /// The memory that one more byte there costs: zero on a disk; on zram `mem_used / orig_data`, excluding pages that were
    /// written back.
    pub ratio: f64,
    /// False while too little is stored there to measure the ratio, which is then assumed.
    pub is_measured: bool,
    /// The memory that this would free.
    pub won_kib: i64,
}

/// The headroom of a device with these figures; `swaps` in fill order.
pub fn headroom(memory: &MemoryInfo, watermarks: Watermarks, swaps: &[Swap], zram: &[Zram]) -> Headroom {
    let free_kib = signed(memory.free_kib) - signed(watermarks.high_kib);
    let file_floor_kib = (memory.total_kib as f64 * FILE_FLOOR_SHARE) as u64;
    let file_kib = signed(memory.file_kib) - signed(file_floor_kib);
    let mut anonymous_left_kib = memory.anonymous_kib;
    let mut areas = Vec::with_capacity(swaps.len());
    for swap in swaps {
        let device = swap.zram_name().and_then(|name| zram.iter().find(|zram| zram.name == name));
        let area = of_swap(swap, device, anonymous_left_kib);
        anonymous_left_kib -= area.taken_kib;
        areas.push(area);
    }
    let swap_kib = areas.iter().map(|area| area.won_kib).fold(0, i64::saturating_add);
    let total_kib = free_kib.saturating_add(file_kib).saturating_add(swap_kib);
    Headroom { total_kib, free_kib, file_kib, file_floor_kib, swap_kib, swaps: areas }
}

fn of_swap(swap: &Swap, device: Option<&Zram>, anonymous_left_kib: u64) -> SwapHeadroom {
    let measured = device.and_then(Zram::next_ratio);
    let ratio = match (swap.zram_name(), measured) {
        (None, _) => 0.0,
        (Some(_), measured) => measured.unwrap_or(ASSUMED_RATIO),
    };
    let room_kib = swap.free_kib().min(device.map_or(u64::MAX, |zram| within_limit_kib(zram, ratio)));
    let taken_kib = room_kib.min(anonymous_left_kib);
    // Pages that do not compress cost the allocator's overhead as well: swapping them out frees nothing.
    let won_kib = (taken_kib as f64 * (1.0 - ratio).max(0.0)) as i64;
    let is_measured = swap.zram_name().is_none() || measured.is_some();
    SwapHeadroom { path: swap.path.display().to_string(), taken_kib, ratio, is_measured, won_kib }
}

/// What fits below `mem_limit`, before compression.
fn within_limit_kib(zram: &Zram, ratio: f64) -> u64 {
    match zram.usage {
        Some(usage) if usage.memory_limit_bytes > 0 && ratio > 0.0 => {
            let left_bytes = usage.memory_limit_bytes.saturating_sub(usage.memory_bytes);
            (left_bytes as f64 / 1024.0 / ratio) as u64
        }
        _ => u64::MAX,
    }
}

fn signed(kib: u64) -> i64 {
    i64::try_from(kib).unwrap_or(i64::MAX)
}

/// The memory that a byte on swap costs on average, which a death frees: the ratio of the zram device that is filled first, or
/// zero on a disk.
pub fn swap_ratio(swaps: &[Swap], zram: &[Zram]) -> f64 {
    let Some(name) = swaps.first().and_then(Swap::zram_name) else { return 0.0 };
    let device = zram.iter().find(|zram| zram.name == name);
    device.and_then(|zram| zram.usage?.ratio()).unwrap_or(ASSUMED_RATIO)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use brisk_sys::memory::zram::{Backing, Usage};

    fn memory(free_kib: u64, anonymous_kib: u64, file_kib: u64) -> MemoryInfo {
        MemoryInfo { total_kib: 100_000, free_kib, anonymous_kib, file_kib, ..MemoryInfo::default() }
    }

    const MARKS: Watermarks = Watermarks { min_kib: 1000, low_kib: 1250, high_kib: 1500, protected_kib: 0 };

    fn swap(path: &str, size_kib: u64, used_kib: u64) -> Swap {
        Swap { path: path.into(), size_kib, used_kib, priority: 0 }
    }

    fn zram(original_kib: u64, memory_kib: u64, limit_kib: u64) -> Zram {
        let usage = Usage {
            original_bytes: original_kib << 10,
            memory_bytes: memory_kib << 10,
            memory_limit_bytes: limit_kib << 10,
            ..Usage::default()
        };
        Zram { name: "zram0".into(), usage: Some(usage), ..Zram::default() }
    }

    // Verifies MEMORY-4.
    #[test]
    fn each_term_is_counted_once() {
        let on_zram = || vec![swap("/dev/zram0", 50_000, 10_000)];
        for (memory, swaps, zram, terms) in [
            // No swap at all.
            (memory(4000, 60_000, 9000), vec![], vec![], (2500, 4000, 0)),
            // Below the watermark and below the floor the terms are negative.
            (memory(500, 60_000, 1000), vec![], vec![], (-1000, -4000, 0)),
            // 40 MB of zram are free, and each byte there costs a quarter.
            (memory(4000, 60_000, 9000), on_zram(), vec![zram(10_000, 2500, 0)], (2500, 4000, 30_000)),
            // Free swap adds no more than there is to swap out.
            (memory(4000, 8000, 9000), on_zram(), vec![zram(10_000, 2500, 0)], (2500, 4000, 6000)),
            (memory(4000, 0, 9000), on_zram(), vec![zram(10_000, 2500, 0)], (2500, 4000, 0)),
            // Incompressible pages free nothing, and the term is never negative.
            (memory(4000, 60_000, 9000), on_zram(), vec![zram(10_000, 10_400, 0)], (2500, 4000, 0)),
            // Nothing is stored yet: the ratio is assumed.
            (memory(4000, 60_000, 9000), on_zram(), vec![zram(0, 0, 0)], (2500, 4000, 20_000)),
            // `mem_limit` takes precedence over the size: 1000 KiB are left, for 4000 before compression.
            (memory(4000, 60_000, 9000), on_zram(), vec![zram(10_000, 2500, 3500)], (2500, 4000, 3000)),
            // A disk costs no memory, and takes what does not fit on zram.
            (
                memory(4000, 60_000, 9000),
                vec![swap("/dev/zram0", 50_000, 10_000), swap("/dev/sda2", 99_000, 0)],
                vec![zram(10_000, 2500, 0)],
                (2500, 4000, 50_000),
            ),
        ] {
            let found = headroom(&memory, MARKS, &swaps, &zram);
            assert_eq!((found.free_kib, found.file_kib, found.swap_kib), terms, "{found:?}");
            assert_eq!(found.total_kib, terms.0 + terms.1 + terms.2);
        }
    }

    // Verifies MEMORY-4.
    #[test]
    fn past_writeback_does_not_lower_the_cost_of_future_swap() {
        let backing = Backing { held_kib: 8000, ..Backing::default() };
        let zram = [Zram { backing: Some(backing), ..zram(10_000, 1000, 0) }];
        let swaps = [swap("/dev/zram0", 50_000, 10_000)];
        let found = headroom(&memory(4000, 40_000, 9000), MARKS, &swaps, &zram);
        assert_eq!(found.swap_kib, 20_000, "1000 KiB of memory hold 2000, not 10 000: {found:?}");
        assert!((swap_ratio(&swaps, &zram) - 0.1).abs() < 1e-9, "a death frees a tenth of what it had on swap");
    }

    #[test]
    fn the_ratio_is_that_of_the_swap_filled_first() {
        assert!((swap_ratio(&[swap("/dev/zram0", 9, 0)], &[zram(10_000, 2500, 0)]) - 0.25).abs() < 1e-9);
        assert!((swap_ratio(&[swap("/dev/zram0", 9, 0)], &[]) - ASSUMED_RATIO).abs() < 1e-9);
        assert!(swap_ratio(&[swap("/dev/sda2", 9, 0)], &[]).abs() < 1e-9 && swap_ratio(&[], &[]).abs() < 1e-9);
    }

    proptest! {
        // Verifies MEMORY-4.
        #[test]
        fn free_swap_is_worth_no_more_than_what_could_go_there(
            free in any::<u64>(), anonymous in any::<u64>(), file in any::<u64>(), size in any::<u64>(),
            used in any::<u64>(), original in 0u64..1 << 40, taken in 0u64..1 << 40, limit in 0u64..1 << 40,
        ) {
            let memory = memory(free, anonymous, file);
            let swaps = [swap("/dev/zram0", size, used), swap("/dev/sda2", size, used)];
            let zram = [zram(original, taken, limit)];
            let found = headroom(&memory, MARKS, &swaps, &zram);
            prop_assert!(found.swap_kib >= 0);
            let taken: u64 = found.swaps.iter().map(|area| area.taken_kib).sum();
            prop_assert!(taken <= anonymous);
            // Figures of this size lose their last digits as floating point.
            prop_assert!(found.swap_kib as f64 <= anonymous as f64 * 1.000_001 + 1.0);
            let none = headroom(&MemoryInfo { anonymous_kib: 0, ..memory }, MARKS, &swaps, &zram);
            prop_assert_eq!(none.swap_kib, 0);
        }
    }
}
