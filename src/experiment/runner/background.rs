//! Small work of others: a thread that wakes up at random and works for a moment, as a device in use has it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::super::spec;
use super::sleep_until;
use crate::device::BootTime;
use crate::random::Random;
use crate::work::Work;

/// A running background load; dropping it ends it.
#[derive(Debug)]
pub(super) struct Background {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Starts the load. Its wake-ups follow from `seed` and the present moment alone, not from how fast the CPU is, so
    /// that arms with the same seed have the same.
    pub(super) fn start(load: &spec::Background, turns_per_ms: u64, seed: u64) -> std::io::Result<Self> {
        let work = Work::of_turns(u64::from(load.work_us) * turns_per_ms / 1000);
        let period_us = f64::from(load.period_ms) * 1000.0;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let mut random = Random::new(seed);
        let mut next = BootTime::now();
        let body = move || {
            while !stopped.load(Ordering::Relaxed) {
                next = next + Duration::from_micros((period_us * (0.5 + random.unit())) as u64);
                sleep_until(next);
                work.run();
            }
        };
        let thread = std::thread::Builder::new().name("background".into()).spawn(body)?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
