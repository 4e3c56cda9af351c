//! When Android's lmkd (since Android 11) would kill a process: pure, from successive samples. It serves as a baseline.
//!
//! The rules are those of `mp_event_psi` in system/memory/lmkd/lmkd.cpp of Android 13, with the defaults that its README gives
//! for low-RAM devices. Features that are off by default are left out (`swap_util_max`, `filecache_min_kb`,
//! `stall_limit_critical`).

use brisk_sys::BootTime;
use brisk_sys::memory::meminfo::MemoryInfo;
use brisk_sys::memory::vmstat::ReclaimCounters;
use brisk_sys::memory::zoneinfo::Watermarks;

/// `ro.lmk.swap_free_low_percentage`
const LOW_SWAP_PERCENT: u64 = 10;
/// `ro.lmk.thrashing_limit`
const THRASHING_LIMIT_PERCENT: u64 = 30;
/// `ro.lmk.thrashing_limit_decay`
const THRASHING_DECAY_PERCENT: u64 = 50;
/// `ro.lmk.thrashing_limit_critical`
const CRITICAL_THRASHING_PERCENT: u64 = 2 * THRASHING_LIMIT_PERCENT;
/// `ro.lmk.psi_complete_stall_ms`, of a second
const COMPLETE_STALL_PERCENT: f64 = 70.0;
/// The window after which thrashing is counted from zero.
const THRASHING_WINDOW_MS: u64 = 1000;
/// Perceptible applications are spared unless the situation is critical: PERCEPTIBLE_APP_ADJ is 200.
const ABOVE_PERCEPTIBLE_ADJ: i16 = 201;
/// lmkd's sampling periods: while swap is low or after a kill, and otherwise.
const SHORT_PERIOD_MS: u64 = 10;
const PERIOD_MS: u64 = 100;

/// One sample of what lmkd reads.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Reading {
    /// When.
    pub at: BootTime,
    /// /proc/meminfo
    pub memory: MemoryInfo,
    /// /proc/vmstat
    pub reclaim: ReclaimCounters,
    /// /proc/zoneinfo
    pub watermarks: Watermarks,
    /// Share of the last second in which all tasks waited for memory, in percent.
    pub full_percent: f64,
}

/// lmkd's state between samples.
#[derive(Debug, Clone, Default)]
pub struct Lmkd {
    has_sampled: bool,
    scanned: u64,
    scanned_directly: u64,
    refaults: u64,
    /// The start of the thrashing window, with the refaults and the size of file pages then.
    window_since: BootTime,
    window_refaults: u64,
    window_file_kib: u64,
    previous_thrashing_percent: u64,
    limit_percent: u64,
    has_killed: bool,
    checks_often: bool,
    in_direct_reclaim: bool,
}

/// A decision to kill a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KillDecision {
    /// Why.
    pub cause: String,
    /// Candidates have this `oom_score_adj` or a higher one.
    pub threshold: i16,
    /// True when file pages were thrashing.
    pub is_thrashing: bool,
}

/// The lowest watermark that free memory is below.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum WatermarkLevel {
    Min,
    Low,
    High,
    None,
}

impl WatermarkLevel {
    fn of(reading: &Reading) -> Self {
        let Watermarks { min_kib, low_kib, high_kib, protected_kib } = reading.watermarks;
        let marks = [(Self::Min, min_kib), (Self::Low, low_kib), (Self::High, high_kib)];
        let is_below =
            |&&(_, mark_kib): &&(Self, u64)| reading.memory.free_kib < mark_kib.saturating_add(protected_kib);
        marks.iter().find(is_below).map_or(Self::None, |&(below, _)| below)
    }

    fn name(self) -> &'static str {
        if self == Self::Min { "min" } else { "low" }
    }
}

impl Lmkd {
    /// Whether a process must be killed now.
    pub fn evaluate(&mut self, reading: &Reading, page_kib: u64) -> Option<KillDecision> {
        let is_after_kill = std::mem::take(&mut self.has_killed);
        if is_after_kill || !self.has_sampled {
            self.begin_window(reading);
            self.previous_thrashing_percent = 0;
            self.limit_percent = if self.has_sampled { self.limit_percent } else { THRASHING_LIMIT_PERCENT };
        }
        let before = std::mem::replace(&mut self.has_sampled, true);
        let MemoryInfo { swap_total_kib, swap_free_kib, .. } = reading.memory;
        let swap_is_low = swap_free_kib < swap_total_kib / 100 * LOW_SWAP_PERCENT;
        self.checks_often = swap_is_low;
        self.in_direct_reclaim = before && reading.reclaim.scanned_directly > self.scanned_directly;
        let is_reclaiming = before && reading.reclaim.scanned > self.scanned;
        let has_refaulted = before && reading.reclaim.file_refaults != self.refaults;
        (self.scanned, self.scanned_directly) = (reading.reclaim.scanned, reading.reclaim.scanned_directly);
        if !is_reclaiming && !has_refaulted {
            return None;
        }
        self.refaults = reading.reclaim.file_refaults;
        let thrashing_percent = self.thrashing(reading, page_kib);
        self.order(reading, swap_is_low, thrashing_percent, is_after_kill)
    }

    fn order(
        &self,
        reading: &Reading,
        swap_is_low: bool,
        thrashing_percent: u64,
        is_after_kill: bool,
    ) -> Option<KillDecision> {
        let below = WatermarkLevel::of(reading);
        let is_low = below < WatermarkLevel::High;
        let order = |cause: String, spares_perceptible: bool, is_thrashing: bool| {
            let threshold = if spares_perceptible { ABOVE_PERCEPTIBLE_ADJ } else { 0 };
            Some(KillDecision { cause, threshold, is_thrashing })
        };
        let is_critical = thrashing_percent >= CRITICAL_THRASHING_PERCENT;
        let spares = below > WatermarkLevel::Min && !is_critical;
        let (name, swap_kib) = (below.name(), reading.memory.swap_free_kib);
        if is_after_kill && below == WatermarkLevel::Min {
            return order("free memory is below the min watermark even after a kill".to_owned(), false, false);
        }
        if reading.full_percent >= COMPLETE_STALL_PERCENT {
            return order(format!("all tasks waited {:.0} % of a second", reading.full_percent), false, false);
        }
        if swap_is_low && thrashing_percent > THRASHING_LIMIT_PERCENT {
            return order(
                format!("{swap_kib} KiB of swap are left, and files thrash ({thrashing_percent} %)"),
                spares,
                false,
            );
        }
        if swap_is_low && is_low {
            let cause = format!("free memory is below the {name} watermark, and {swap_kib} KiB of swap are left");
            return order(cause, spares, false);
        }
        if thrashing_percent <= self.limit_percent {
            return None;
        }
        if is_low {
            let cause = format!("free memory is below the {name} watermark, and files thrash ({thrashing_percent} %)");
            return order(cause, !is_critical, true);
        }
        let cause = format!("applications are in direct reclaim, and files thrash ({thrashing_percent} %)");
        if self.in_direct_reclaim { order(cause, !is_critical, true) } else { None }
    }

    /// Records that a process was killed by `order`.
    pub fn killed(&mut self, order: &KillDecision) {
        self.has_killed = true;
        self.checks_often = true;
        if order.is_thrashing {
            self.limit_percent = self.limit_percent * (100 - THRASHING_DECAY_PERCENT) / 100;
        }
    }

    /// The time until the next sample.
    pub fn sampling_ms(&self) -> u64 {
        if self.checks_often { SHORT_PERIOD_MS } else { PERIOD_MS }
    }

    /// True while sampling continues, whatever the time since the kernel's event.
    pub fn keeps_sampling(&self) -> bool {
        self.has_killed || self.in_direct_reclaim
    }

    fn begin_window(&mut self, reading: &Reading) {
        self.window_since = reading.at;
        self.window_refaults = reading.reclaim.file_refaults;
        self.window_file_kib = reading.memory.file_kib;
    }

    /// The share of file pages that refaulted within the window, plus the decayed share of earlier windows, in percent.
    fn thrashing(&mut self, reading: &Reading, page_kib: u64) -> u64 {
        let refaulted = reading.reclaim.file_refaults.saturating_sub(self.window_refaults);
        let pages = self.window_file_kib / page_kib.max(1) + 1;
        let percent = refaulted.saturating_mul(100) / pages;
        let windows = reading.at.since(self.window_since).as_millis() as u64 / THRASHING_WINDOW_MS;
        if windows == 0 {
            return percent.saturating_add(self.previous_thrashing_percent);
        }
        self.previous_thrashing_percent = percent;
        // A single window over the limit that led to no kill is carried over in full; anything else decays.
        if windows > 1 || percent < self.limit_percent {
            self.previous_thrashing_percent = percent.checked_shr(windows.min(63) as u32).unwrap_or(0);
        }
        self.begin_window(reading);
        self.limit_percent = THRASHING_LIMIT_PERCENT;
        self.previous_thrashing_percent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARKS: Watermarks = Watermarks { min_kib: 3000, low_kib: 3750, high_kib: 4500, protected_kib: 500 };

    fn reading(at_ms: u64, free_kib: u64, swap_free_kib: u64, scanned: u64, refaults: u64) -> Reading {
        let memory =
            MemoryInfo { free_kib, swap_total_kib: 100_000, swap_free_kib, file_kib: 40_000, ..MemoryInfo::default() };
        let reclaim = ReclaimCounters { scanned, file_refaults: refaults, ..ReclaimCounters::default() };
        Reading { at: BootTime::from_milliseconds(at_ms), memory, reclaim, watermarks: MARKS, full_percent: 0.0 }
    }

    /// The order after the second of two samples.
    fn second_order(second: Reading) -> Option<(String, i16)> {
        let mut lmkd = Lmkd::default();
        assert_eq!(lmkd.evaluate(&reading(0, 9000, 90_000, 5, 0), 4), None, "the first sample orders nothing");
        lmkd.evaluate(&second, 4).map(|order| (order.cause, order.threshold))
    }

    // Verifies MEMORY-9.
    #[test]
    fn each_condition_has_its_cause_and_its_threshold() {
        let calm = |free_kib, swap_free_kib, refaults| reading(100, free_kib, swap_free_kib, 9, refaults);
        for (sample, expected) in [
            // Neither reclaim nor refaults: nothing is evaluated.
            (reading(100, 0, 0, 5, 0), None),
            // Swap is free: low memory alone kills no process.
            (calm(100, 90_000, 0), None),
            (calm(9000, 9_000, 0), None),
            (calm(4249, 9_000, 0), Some(("below the low watermark, and 9000 KiB of swap", 201))),
            (calm(4250, 9_000, 0), None),
            (calm(3499, 9_000, 0), Some(("below the min watermark", 0))),
            // 30 % of 10,001 pages are the limit, 60 % are critical.
            (calm(9000, 90_000, 4000), None),
            (calm(4249, 90_000, 3001), None),
            (calm(4249, 90_000, 3200), Some(("files thrash (31 %)", 201))),
            (calm(4249, 90_000, 6001), Some(("files thrash (60 %)", 0))),
            (calm(9000, 9_000, 3200), Some(("9000 KiB of swap are left, and files thrash", 201))),
            (Reading { full_percent: 71.0, ..calm(9000, 90_000, 0) }, Some(("all tasks waited 71 %", 0))),
        ] {
            let found = second_order(sample);
            let fits = match (&found, expected) {
                (Some((cause, floor)), Some((text, threshold))) => cause.contains(text) && *floor == threshold,
                (found, expected) => found.is_none() && expected.is_none(),
            };
            assert!(fits, "{sample:?}: {found:?}");
        }
        let mut direct = calm(9000, 90_000, 4000);
        direct.reclaim.scanned_directly = 1;
        assert!(second_order(direct).unwrap().0.contains("in direct reclaim"));
    }

    // Verifies MEMORY-9.
    #[test]
    fn after_a_kill_it_samples_often_and_is_stricter() {
        let mut lmkd = Lmkd::default();
        lmkd.evaluate(&reading(0, 9000, 90_000, 5, 0), 4);
        assert_eq!((lmkd.sampling_ms(), lmkd.keeps_sampling()), (100, false));
        let order = lmkd.evaluate(&reading(100, 4000, 90_000, 6, 3200), 4).unwrap();
        lmkd.killed(&order);
        assert_eq!((lmkd.sampling_ms(), lmkd.keeps_sampling()), (10, true));
        // The count restarts at zero, and half of the limit suffices now.
        assert_eq!(lmkd.evaluate(&reading(110, 4000, 90_000, 7, 3300), 4), None);
        assert!(lmkd.evaluate(&reading(120, 4000, 90_000, 8, 5000), 4).is_some());
        lmkd.killed(&order);
        let after = lmkd.evaluate(&reading(130, 3000, 90_000, 9, 5000), 4).unwrap();
        assert!(after.cause.contains("even after a kill"), "{after:?}");
    }

    // Verifies MEMORY-9.
    #[test]
    fn thrashing_decays_from_window_to_window() {
        let mut lmkd = Lmkd::default();
        lmkd.evaluate(&reading(0, 9000, 90_000, 5, 0), 4);
        // 20 % in the first window: half of it is left in the next, and 25 % more are over the limit.
        assert_eq!(lmkd.evaluate(&reading(1000, 4000, 90_000, 6, 2001), 4), None);
        assert_eq!(lmkd.evaluate(&reading(1500, 4000, 90_000, 7, 4001), 4), None);
        assert!(lmkd.evaluate(&reading(1600, 4000, 90_000, 8, 4200), 4).is_some());
    }
}
