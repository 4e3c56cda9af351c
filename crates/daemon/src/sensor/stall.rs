//! Notices that tasks wait for memory, only while a mechanism wants to know: by a trigger of the kernel's, or by a sample each
//! second in a dry run, which sets nothing.

use std::time::Duration;

use crate::poller::{Poller, Token};
use brisk_mechanism::Stall;
use brisk_sys::memory::psi;
use brisk_sys::{BootTime, Root};

/// How often a dry run samples.
const PERIOD: Duration = Duration::from_secs(1);

/// The watch: silent until it is given a stall.
#[derive(Debug, Default)]
pub struct StallWatch {
    wanted: Option<Stall>,
    trigger: Option<psi::Trigger>,
    /// In a dry run: how long tasks had waited at the last sample, and when the next is due.
    sampled: Option<(u64, BootTime)>,
}

impl StallWatch {
    /// Watches for `wanted` from `now` on, or not at all. Whether it does, when that has changed.
    pub fn follow(
        &mut self,
        now: BootTime,
        wanted: Option<Stall>,
        (root, poller, is_dry): (&Root, &Poller, bool),
    ) -> Option<bool> {
        if self.wanted == wanted {
            return None;
        }
        self.wanted = wanted;
        self.sampled = wanted.filter(|_| is_dry).map(|_| (0, now));
        if let Some(trigger) = self.trigger.take() {
            poller.forget(&trigger);
        }
        if let Some(Stall { stall_us, window_us }) = wanted.filter(|_| !is_dry) {
            let trigger = psi::Trigger::open(root, stall_us, window_us).map_err(|error| psi::with_advice(&error));
            let watched = trigger.and_then(|trigger| {
                poller.watch(&trigger, Token::Pressure).map(|()| trigger).map_err(|error| error.to_string())
            });
            match watched {
                Ok(trigger) => {
                    trigger.shortcoming().iter().for_each(|shortcoming| tracing::warn!("{shortcoming}"));
                    self.trigger = Some(trigger);
                }
                Err(error) => tracing::warn!("cannot watch memory pressure: {error}"),
            }
        }
        Some(self.trigger.is_some())
    }

    /// When [`StallWatch::sample`] has something to do.
    pub fn deadline(&self) -> Option<BootTime> {
        self.sampled.map(|(_, due)| due)
    }

    /// In a dry run: true when a sample is due, and tasks have waited long enough since the last one.
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
