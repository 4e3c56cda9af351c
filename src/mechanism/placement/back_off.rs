//! Steps that did not help: each is tried again after a pause that grows.

use std::collections::BTreeMap;
use std::time::Duration;

use super::step::Rung;
use crate::device::BootTime;

/// The first pause; it doubles each time up to the longest.
const FIRST: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(300);

/// When each rung may be tried again.
#[derive(Debug, Default)]
pub(super) struct BackOff(BTreeMap<Rung, Pause>);

#[derive(Debug, Clone, Copy)]
struct Pause {
    until: BootTime,
    length: Duration,
}

impl BackOff {
    /// A step of `rung` was taken back at `now`.
    pub(super) fn add(&mut self, now: BootTime, rung: Rung) {
        let length = self.0.get(&rung).map_or(FIRST, |pause| (pause.length * 2).min(LONGEST));
        self.0.insert(rung, Pause { until: now + length, length });
    }

    /// True when `rung` may be tried at `now`.
    pub(super) fn allows(&self, now: BootTime, rung: Rung) -> bool {
        self.0.get(&rung).is_none_or(|pause| pause.until <= now)
    }

    /// True when `rung` was taken back and has not helped since.
    pub(super) fn knows(&self, rung: Rung) -> bool {
        self.0.contains_key(&rung)
    }

    /// `rung` has helped after all.
    pub(super) fn forgive(&mut self, rung: Rung) {
        self.0.remove(&rung);
    }

    /// What is in front, or the device, is another.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pause_is_twice_as_long_up_to_a_limit() {
        let (mut back_off, mut now) = (BackOff::default(), BootTime::default());
        for pause_s in [2, 4, 8, 16, 32, 64, 128, 256, 300, 300] {
            assert!(back_off.allows(now, Rung::Isolate));
            back_off.add(now, Rung::Isolate);
            now = now + Duration::from_millis(pause_s * 1000 - 1);
            assert!(!back_off.allows(now, Rung::Isolate), "{pause_s}");
            assert!(back_off.knows(Rung::Isolate) && back_off.allows(now, Rung::Weight));
            now = now + Duration::from_millis(1);
        }
        back_off.forgive(Rung::Isolate);
        assert!(!back_off.knows(Rung::Isolate));
    }
}
