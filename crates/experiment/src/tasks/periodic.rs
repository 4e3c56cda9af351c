//! Work that is due at fixed moments.

use std::time::Duration;

use super::{TaskRunner, milliseconds};
use brisk_sys::BootTime;

/// A periodic piece of work.
#[derive(Debug, Clone, Copy)]
pub(super) struct PeriodicWork {
    pub(super) period: Duration,
    pub(super) work_us: u64,
}

/// The period of a screen of 60 Hz, and the work of a scene.
pub(super) const FRAMES: PeriodicWork = PeriodicWork { period: Duration::from_micros(16_667), work_us: 7000 };
/// A player that fills a buffer of 20 ms.
pub(super) const MUSIC: PeriodicWork = PeriodicWork { period: Duration::from_millis(20), work_us: 1000 };

/// The result of a series of such pieces.
#[derive(Debug, Default)]
pub(super) struct PeriodicResult {
    /// From when each was due to when it was done, in milliseconds.
    pub(super) responses_ms: Vec<f64>,
    /// Periods at whose end there was nothing new: a piece was not done in time. Each takes the place of a piece, which is skipped.
    pub(super) missed: u32,
}

impl TaskRunner {
    /// Works at `pace` while `should_run`; see [`TaskRunner::run_at_period`].
    pub(super) fn run_periodic(
        &self,
        pace: PeriodicWork,
        should_run: impl FnMut(&PeriodicResult) -> bool,
    ) -> PeriodicResult {
        self.run_at_period((pace.period, 1), || self.work_us(pace.work_us), should_run)
    }

    /// Does a piece every `period` while `should_run`, each within `ahead` periods. After a late piece, it continues with the next
    /// one that can still be in time, as a screen does.
    pub(super) fn run_at_period(
        &self,
        (period, ahead): (Duration, u32),
        mut piece: impl FnMut(),
        mut should_run: impl FnMut(&PeriodicResult) -> bool,
    ) -> PeriodicResult {
        let mut paced = PeriodicResult::default();
        let period = self.dilated(period);
        let mut due = BootTime::now() + period;
        while should_run(&paced) {
            sleep_until(due);
            piece();
            let now = BootTime::now();
            paced.responses_ms.push(milliseconds(now.since(due)));
            let (next, missed) = next_due(due, now, (period, ahead));
            due = next;
            paced.missed += missed;
        }
        paced
    }

    /// Works at `pace` for `length`; skipped pieces count as done.
    pub(super) fn run_periodic_for(&self, pace: PeriodicWork, length: Duration) -> PeriodicResult {
        self.run_at_period_for(pace.period, length, || self.work_us(pace.work_us))
    }

    /// Does a piece every `period` for `length`; skipped pieces count as done.
    pub(super) fn run_at_period_for(&self, period: Duration, length: Duration, piece: impl FnMut()) -> PeriodicResult {
        let count = (length.as_secs_f64() / self.dilated(period).as_secs_f64()) as usize;
        self.run_at_period((period, 1), piece, |paced| paced.responses_ms.len() + (paced.missed as usize) < count)
    }
}

/// When a piece is due after the one of `due`, which was done at `now`; and how many periods were missed until then. A piece has
/// `ahead` periods, at least one.
fn next_due(due: BootTime, now: BootTime, (period, ahead): (Duration, u32)) -> (BootTime, u32) {
    let mut next = due + period;
    let mut missed = 0;
    while next + period * (ahead - 1) <= now {
        missed += 1;
        next = next + period;
    }
    (next, missed)
}

/// Sleeps until `due`.
pub(super) fn sleep_until(due: BootTime) {
    std::thread::sleep(due.since(BootTime::now()));
}

/// The 95th percentile of `responses_ms`; NaN when there are none.
pub(super) fn p95(mut responses_ms: Vec<f64>) -> f64 {
    responses_ms.sort_by(f64::total_cmp);
    crate::statistics::quantile(&responses_ms, 0.95)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Verifies PROVE-2.
    #[test]
    fn a_late_piece_misses_the_periods_that_its_buffer_does_not_hold() {
        for (now_ms, ahead, next_ms, missed) in [
            (39, 1, 40, 0),
            (40, 1, 60, 1),
            (100, 1, 120, 4),
            // The buffer lasts, and is filled again at once.
            (70, 3, 40, 0),
            (80, 3, 60, 1),
            (170, 3, 140, 5),
        ] {
            let [due, now, next] = [20, now_ms, next_ms].map(BootTime::from_milliseconds);
            let found = next_due(due, now, (Duration::from_millis(20), ahead));
            assert_eq!(found, (next, missed), "done at {now_ms} ms, {ahead} periods ahead");
        }
    }
}
