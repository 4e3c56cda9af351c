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
    /// Pieces that were not done before the next was due, and pieces that were skipped for that reason.
    pub(super) missed: u32,
}

impl TaskRunner {
    /// Works at `pace` while `should_run`; see [`TaskRunner::run_at_period`].
    pub(super) fn run_periodic(
        &self,
        pace: PeriodicWork,
        should_run: impl FnMut(&PeriodicResult) -> bool,
    ) -> PeriodicResult {
        self.run_at_period(pace.period, || self.work_us(pace.work_us), should_run)
    }

    /// Does a piece every `period` while `should_run`. After a late piece, it continues with the next one that is still due, as a
    /// screen does.
    pub(super) fn run_at_period(
        &self,
        period: Duration,
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
            due = due + period;
            while due <= now {
                paced.missed += 1;
                due = due + period;
            }
        }
        paced
    }

    /// Works at `pace` for `length`; skipped pieces count as done.
    pub(super) fn run_periodic_for(&self, pace: PeriodicWork, length: Duration) -> PeriodicResult {
        let period = self.dilated(pace.period);
        let count = (length.as_secs_f64() / period.as_secs_f64()) as usize;
        self.run_periodic(pace, |paced| paced.responses_ms.len() + (paced.missed as usize) < count)
    }
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
