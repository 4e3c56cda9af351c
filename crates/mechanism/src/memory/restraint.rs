//! Which control groups in the background may hold no more memory for a while, because they take it while others wait for
//! some: the thesis's memory class. Pure.
//!
//! Where memory is short, what a group takes pushes out what it had before: its pages on swap count as well. A group that waits
//! within a group in the background waits for itself.

use std::time::Duration;

use crate::{Action, Decision};
use brisk_sys::cgroup::memory::{GroupSample, HIGH};
use brisk_sys::{BootTime, Target};

/// A group is in the background when no member's `oom_score_adj` is below this: that of Android's services.
const BACKGROUND_ADJ: i16 = 500;
/// What was seen longer ago says nothing of who takes memory now.
const FRESH: Duration = Duration::from_secs(3);
/// Less than this may come and go with a group's work.
const GROWTH_KIB: u64 = 4 << 10;
/// Others wait when they do so for one part in this many of the time.
const WAITING_SHARE: u128 = 20;
/// A limit is so much above what a group holds, so that the kernel has nothing to reclaim while it is set: the process that sets it
/// does not wait.
const ROOM_KIB: u64 = 1 << 10;
/// No group is limited to less.
const LEAST_KIB: u64 = 8 << 10;

/// True for a group that no member with a lower `oom_score_adj` takes out of the background.
pub fn is_background(sample: &GroupSample) -> bool {
    sample.lowest_adj >= BACKGROUND_ADJ
}

/// The limits to be set at the second of two looks, `since` the first, each a lease `until` then. A limit of others, or one
/// that is in force already, stays as it is.
pub fn restrain(before: &[GroupSample], now: &[GroupSample], since: Duration, until: BootTime) -> Vec<Decision> {
    let earlier = |sample: &GroupSample| before.iter().find(|it| it.folder == sample.folder);
    let waited_us = |sample: &GroupSample| Some(sample.stalled_us.saturating_sub(earlier(sample)?.stalled_us));
    let others_us: u64 = now.iter().filter(|sample| !is_background(sample)).filter_map(waited_us).sum();
    if since > FRESH || u128::from(others_us) * WAITING_SHARE < since.as_micros() {
        return Vec::new();
    }
    let decide = |sample: &GroupSample| {
        let before = earlier(sample)?;
        let grown_kib = (sample.resident_kib + sample.swap_kib).saturating_sub(before.resident_kib + before.swap_kib);
        if grown_kib < GROWTH_KIB || !sample.is_free || !is_background(sample) {
            return None;
        }
        let high_kib = (sample.resident_kib + ROOM_KIB).max(LEAST_KIB);
        let target = Target::Tunable(sample.folder.join(HIGH));
        let waited_ms = others_us / 1000;
        let reason = format!("in the background it took {grown_kib} KiB while others waited {waited_ms} ms for memory");
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

    /// The limits in KiB that follow from two samples of a foreground group and two groups in the background; the first holds
    /// and has on swap `batch`, and the foreground waited so long, and `since` has passed between.
    fn limits(batch: [u64; 2], waited_ms: u64, since_ms: u64, change: impl Fn(&mut GroupSample)) -> Vec<u64> {
        let front = |stalled_ms| group("/cg/front", [90_000, 0], stalled_ms, 0);
        // What these wait does not count.
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
    fn who_takes_memory_while_others_wait_may_hold_no_more() {
        for (batch, waited_ms, since_ms, expected) in [
            ([60_000, 2000], 50, 1000, Some(61_024)),
            // It holds less than before, for more was pushed out.
            ([45_000, 12_000], 50, 1000, Some(46_024)),
            ([1000, 60_000], 50, 1000, Some(LEAST_KIB)),
            ([54_096, 2000], 50, 1000, Some(55_120)),
            ([54_095, 2000], 50, 1000, None),
            ([40_000, 2000], 50, 1000, None),
            // Others wait too little, or the first look is too long ago.
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
    fn who_is_in_foreground_or_limited_or_new_is_left_alone() {
        let changes: [fn(&mut GroupSample); 3] =
            [|batch| batch.is_free = false, |batch| batch.lowest_adj = 499, |batch| batch.folder = "/cg/new".into()];
        for change in changes {
            assert!(limits([60_000, 2000], 900, 1000, change).is_empty());
        }
    }
}
