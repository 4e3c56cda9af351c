//! Detects memory stalls, only while a mechanism wants it: by a PSI trigger, or in a dry run, which sets no trigger, by a
//! sample every second.

use std::time::Duration;

use crate::poller::{Poller, Token};
use brisk_mechanism::Stall;
use brisk_sys::memory::psi;
use brisk_sys::{BootTime, Root};

/// The sampling period of a dry run.
const PERIOD: Duration = Duration::from_secs(1);

/// The watch, inactive until it has a threshold.
#[derive(Debug, Default)]
pub struct StallWatch {
    wanted: Option<Stall>,
    trigger: Option<psi::Trigger>,
    /// In a dry run: the total stall time at the last sample, and when the next is due.
    sampled: Option<(u64, BootTime)>,
}

impl StallWatch {
    /// Watches for `wanted` from `now` on, or not at all. If `wanted` has changed, returns whether the trigger is set.
    pub fn reconfigure(
        &mut self,
        now: BootTime,
        wanted: Option<Stall>,
        (root, poller, is_dry_run): (&Root, &Poller, bool),
    ) -> Option<bool> {
        if self.wanted == wanted {
            return None;
        }
        self.wanted = wanted;
        self.sampled = wanted.filter(|_| is_dry_run).map(|_| (0, now));
        if let Some(trigger) = self.trigger.take() {
            poller.unwatch(&trigger);
        }
        if let Some(Stall { stall_us, window_us }) = wanted.filter(|_| !is_dry_run) {
            let trigger = psi::Trigger::open(root, stall_us, window_us).map_err(|error| psi::with_advice(&error));
            let watched = trigger.and_then(|trigger| {
                poller.watch(&trigger, Token::Pressure).map(|()| trigger).map_err(|error| error.to_string())
            });
            match watched {
                Ok(trigger) => {
                    trigger.limitation().iter().for_each(|limitation| tracing::warn!("{limitation}"));
                    self.trigger = Some(trigger);
                }
                Err(error) => tracing::warn!("cannot watch memory pressure: {error}"),
            }
        }
        Some(self.trigger.is_some())
    }

    /// When [`StallWatch::sample`] is due.
    pub fn deadline(&self) -> Option<BootTime> {
        self.sampled.map(|(_, due)| due)
    }

    /// In a dry run: true when a sample is due, and tasks have stalled for long enough since the last one.
    pub fn sample(&mut self, now: BootTime, root: &Root) -> bool {
        let (Some(Stall { stall_us, .. }), Some((before_us, due))) = (self.wanted, self.sampled) else { return false };
        if due > now {
            return false;
        }
        let total_us = psi::memory(root).map_or(0, |pressure| pressure.some.total_us);
        self.sampled = Some((total_us, now + PERIOD));
        total_us.saturating_sub(before_us) >= u64::from(stall_us)
    }
}
