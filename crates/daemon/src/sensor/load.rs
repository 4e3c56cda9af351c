//! Samples the load of all CPUs, only while a mechanism wants it.

use std::time::Duration;

use brisk_sys::cpu::load::CpuTime;
use brisk_sys::{BootTime, Root};

/// The sampler, inactive until it has a period.
#[derive(Debug, Default)]
pub struct LoadSampler {
    period: Option<Duration>,
    before: Option<CpuTime>,
    next: Option<BootTime>,
}

impl LoadSampler {
    /// Samples every `period` from `now` on, or not at all.
    pub fn set_period(&mut self, now: BootTime, period: Option<Duration>) {
        if self.period != period {
            self.period = period;
            self.before = None;
            self.next = period.map(|period| now + period);
        }
    }

    /// When the next sample is due.
    pub fn deadline(&self) -> Option<BootTime> {
        self.next
    }

    /// The busy share since the last sample, when one is due. The first sample after a pause returns none.
    pub fn sample(&mut self, now: BootTime, root: &Root) -> Option<u16> {
        let period = self.period?;
        if self.next.is_some_and(|next| next > now) {
            return None;
        }
        self.next = Some(now + period);
        let present = match CpuTime::read(root) {
            Ok(present) => present,
            Err(error) => {
                tracing::debug!("{error}");
                return None;
            }
        };
        self.before.replace(present).and_then(|before| present.busy_permille_since(before))
    }
}
