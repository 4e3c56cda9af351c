//! Exponential back-off for steps that did not help.

use std::collections::BTreeMap;
use std::time::Duration;

use brisk_sys::BootTime;

/// When each `Step` may next be tried.
#[derive(Debug)]
pub(super) struct BackOff<Step> {
    /// The first pause; each further pause is twice as long, up to `longest`.
    first: Duration,
    longest: Duration,
    pauses: BTreeMap<Step, Pause>,
}

#[derive(Debug, Clone, Copy)]
struct Pause {
    until: BootTime,
    length: Duration,
}

impl<Step: Copy + Ord> BackOff<Step> {
    /// No step is paused.
    pub(super) fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, pauses: BTreeMap::new() }
    }

    /// `step` was reverted at `now`.
    pub(super) fn add(&mut self, now: BootTime, step: Step) {
        let length = self.pauses.get(&step).map_or(self.first, |pause| (pause.length * 2).min(self.longest));
        self.pauses.insert(step, Pause { until: now + length, length });
    }

    /// True when `step` may be tried at `now`.
    pub(super) fn allows(&self, now: BootTime, step: Step) -> bool {
        self.pauses.get(&step).is_none_or(|pause| pause.until <= now)
    }

    /// True when `step` was reverted and has not helped since.
    pub(super) fn has_failed(&self, step: Step) -> bool {
        self.pauses.contains_key(&step)
    }

    /// `step` has helped after all.
    pub(super) fn reset(&mut self, step: Step) {
        self.pauses.remove(&step);
    }

    /// The foreground or the device has changed.
    pub(super) fn clear(&mut self) {
        self.pauses.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::step::StepKind;

    #[test]
    fn each_pause_is_twice_as_long_up_to_a_limit() {
        let (mut back_off, mut now) =
            (BackOff::new(Duration::from_secs(2), Duration::from_secs(300)), BootTime::default());
        for pause_s in [2, 4, 8, 16, 32, 64, 128, 256, 300, 300] {
            assert!(back_off.allows(now, StepKind::Isolate));
            back_off.add(now, StepKind::Isolate);
            now = now + Duration::from_millis(pause_s * 1000 - 1);
            assert!(!back_off.allows(now, StepKind::Isolate), "{pause_s}");
            assert!(back_off.has_failed(StepKind::Isolate) && back_off.allows(now, StepKind::Weight));
            now = now + Duration::from_millis(1);
        }
        back_off.reset(StepKind::Isolate);
        assert!(!back_off.has_failed(StepKind::Isolate));
    }
}
