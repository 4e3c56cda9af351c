//! Samples all threads, only while a mechanism wants it.

use std::time::Duration;

use brisk_mechanism::{Event, ThreadDemand};
use brisk_sys::cgroup::membership::Groups;
use brisk_sys::cpu::hotplug;
use brisk_sys::sched::thread_facts;
use brisk_sys::sched::threads::{Sensing, Threads};
use brisk_sys::{BootTime, Root};

/// The sampler, inactive and without open descriptors until it has a period.
#[derive(Debug, Default)]
pub struct ThreadSampler {
    period: Option<Duration>,
    sensing: Sensing,
    threads: Option<Threads>,
    next: Option<BootTime>,
    /// The groups to which threads may be moved temporarily.
    pub groups: Groups,
}

impl ThreadSampler {
    /// Samples threads by `sensing` from now on.
    pub fn set_sensing(&mut self, sensing: Sensing) {
        if std::mem::replace(&mut self.sensing, sensing) != sensing
            && let Some(threads) = &mut self.threads
        {
            threads.switch_to(sensing);
        }
    }

    /// Samples every `period` from `now` on, or not at all.
    pub fn set_period(&mut self, now: BootTime, period: Option<Duration>, root: &Root) {
        if self.period == period {
            return;
        }
        self.period = period;
        self.threads = period.and_then(|_| self.threads.take().or_else(|| Some(Threads::by(root, self.sensing))));
        // The first sample is immediate; a changed period only brings the next one forward.
        self.next = period.map(|period| self.next.map_or(now, |next| next.min(now + period)));
    }

    /// Samples all threads as soon as possible, including those that are skipped as quiet.
    pub fn sample_now(&mut self, now: BootTime) {
        if let Some(threads) = &mut self.threads {
            threads.wake_all();
            self.next = Some(now);
        }
    }

    /// When the next sample is due.
    pub fn deadline(&self) -> Option<BootTime> {
        self.next
    }

    /// A sample, when one is due, with the facts of `demand`.
    pub fn sample(&mut self, now: BootTime, root: &Root, demand: &ThreadDemand) -> Option<Event> {
        let (threads, period) = (self.threads.as_mut()?, self.period?);
        if self.next.is_some_and(|next| next > now) {
            return None;
        }
        self.next = Some(now + period);
        match threads.sample(now) {
            Ok(sample) => {
                let facts = thread_facts::of_each(root, &demand.facts, &self.groups);
                Some(Event::Threads { sample, facts, online: hotplug::online(root).unwrap_or_default() })
            }
            Err(error) => {
                tracing::debug!("{error}");
                None
            }
        }
    }
}
