//! Which background control groups get a memory limit because they grow while foreground groups wait for memory: the thesis's
//! memory class. Pure.
//!
//! When memory is short, a group's new pages push its older ones to swap, so growth includes swap. Stalls of background groups
//! are ignored.

use std::time::Duration;

use crate::{Action, Decision};
use brisk_sys::cgroup::memory::{GroupSample, HIGH};
use brisk_sys::{BootTime, Target};

/// A group is in the background when no member's `oom_score_adj` is below this, the value of Android's services.
const BACKGROUND_ADJ: i16 = 500;
/// An older sample does not show which group grows now.
const MAXIMUM_SAMPLE_AGE: Duration = Duration::from_secs(3);
/// Smaller growth is normal fluctuation.
const GROWTH_KIB: u64 = 4 << 10;
/// Foreground groups must have waited for one part in this many of the interval.
const STALL_DIVISOR: u128 = 20;
/// A limit is this far above a group's resident memory, so that setting it triggers no reclaim and does not block the writer.
const LIMIT_MARGIN_KIB: u64 = 1 << 10;
/// The lowest limit.
const LOWEST_LIMIT_KIB: u64 = 8 << 10;

/// True when no member's `oom_score_adj` is below that of the background.
pub fn is_background(sample: &GroupSample) -> bool {
    sample.lowest_adj >= BACKGROUND_ADJ
}

/// The limits to set after two samples taken `since` apart, each a lease `until` then. A group that has a limit already, from
/// brisk or another program, is skipped.
pub fn restrain(before: &[GroupSample], now: &[GroupSample], since: Duration, until: BootTime) -> Vec<Decision> {
    let earlier = |sample: &GroupSample| before.iter().find(|it| it.folder == sample.folder);
    let waited_us = |sample: &GroupSample| Some(sample.stalled_us.saturating_sub(earlier(sample)?.stalled_us));
    let foreground_stall_us: u64 = now.iter().filter(|sample| !is_background(sample)).filter_map(waited_us).sum();
    if since > MAXIMUM_SAMPLE_AGE || u128::from(foreground_stall_us) * STALL_DIVISOR < since.as_micros() {
        return Vec::new();
    }
    let decide = |sample: &GroupSample| {
        let before = earlier(sample)?;
        let grown_kib = (sample.resident_kib + sample.swap_kib).saturating_sub(before.resident_kib + before.swap_kib);
        if grown_kib < GROWTH_KIB || !sample.is_free || !is_background(sample) {
            return None;
        }
        let high_kib = (sample.resident_kib + LIMIT_MARGIN_KIB).max(LOWEST_LIMIT_KIB);
        let target = Target::Tunable(sample.folder.join(HIGH));
        let waited_ms = foreground_stall_us / 1000;
        let reason =
            format!("background group grew by {grown_kib} KiB while the foreground waited {waited_ms} ms for memory");
        Some(Decision { action: Action::Lease { target, value: (high_kib << 10).to_string(), until }, reason })
    };
    now.iter().filter_map(decide).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(folder: &str, kib: [u64; 2], stalled_ms: u64, lowest_adj: i16) -> GroupSample {
        let [resident_kib, swap_kib] = kib;
        let stalled_us = stalled_ms * 1000;
        GroupSample { folder: folder.into(), resident_kib, swap_kib, stalled_us, is_free: true, lowest_adj }
    }

    /// The limits in KiB after two samples of a foreground and two background groups, taken `since_ms` apart. The first
    /// background group ends at `batch` (resident, swap); the foreground group waited `waited_ms`.
    fn limits(batch: [u64; 2], waited_ms: u64, since_ms: u64, change: impl Fn(&mut GroupSample)) -> Vec<u64> {
        let front = |stalled_ms| group("/cg/front", [90_000, 0], stalled_ms, 0);
        // Stalls of background groups are ignored.
        let idle = |stalled_ms| group("/cg/idle", [9000, 0], stalled_ms, 900);
        let before = [front(50), group("/cg/batch", [50_000, 2000], 0, 500), idle(0)];
        let mut now = [front(50 + waited_ms), group("/cg/batch", batch, 900, 500), idle(900)];
        change(&mut now[1]);
        let until = BootTime::from_milliseconds(90_000);
        let limit = |decision: Decision| match decision.action {
            Action::Lease { target, value, until: end } => {
                assert_eq!((target, end), (Target::Tunable("/cg/batch/memory.high".into()), until));
                value.parse::<u64>().unwrap() >> 10
            }
            other => panic!("{other:?}"),
        };
        restrain(&before, &now, Duration::from_millis(since_ms), until).into_iter().map(limit).collect()
    }

    // Verifies MEMORY-4.
    #[test]
    fn a_background_group_that_grows_during_stalls_is_limited() {
        for (batch, waited_ms, since_ms, expected) in [
            ([60_000, 2000], 50, 1000, Some(61_024)),
            // It holds less than before because more was swapped out.
            ([45_000, 12_000], 50, 1000, Some(46_024)),
            ([1000, 60_000], 50, 1000, Some(LOWEST_LIMIT_KIB)),
            ([54_096, 2000], 50, 1000, Some(55_120)),
            ([54_095, 2000], 50, 1000, None),
            ([40_000, 2000], 50, 1000, None),
            // The foreground waited too little, or the first sample is too old.
            ([60_000, 2000], 49, 1000, None),
            ([60_000, 2000], 25, 500, Some(61_024)),
            ([60_000, 2000], 900, 3000, Some(61_024)),
            ([60_000, 2000], 900, 3001, None),
        ] {
            let found = limits(batch, waited_ms, since_ms, |_| ());
            assert_eq!(found, Vec::from_iter(expected), "{batch:?}, {waited_ms} of {since_ms} ms");
        }
    }

    // Verifies MEMORY-4.
    #[test]
    fn foreground_limited_and_new_groups_are_left_alone() {
        let changes: [fn(&mut GroupSample); 3] =
            [|batch| batch.is_free = false, |batch| batch.lowest_adj = 499, |batch| batch.folder = "/cg/new".into()];
        for change in changes {
            assert!(limits([60_000, 2000], 900, 1000, change).is_empty());
        }
    }
}
