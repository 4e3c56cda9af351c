//! Background load: a thread that wakes up at random and works briefly, as on a device in use; hogs and downloads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::super::spec;
use super::sleep_until;
use brisk_base::random::Random;
use brisk_base::work::Work;
use brisk_sys::BootTime;

/// A hog checks whether it has to stop after this much work, in milliseconds.
const HOG_WORK_MS: u64 = 5;
/// The work of a download, and its wait after that.
const DOWNLOAD_WORK_MS: u64 = 15;
const DOWNLOAD_WAIT: Duration = Duration::from_millis(25);

/// A running background load; dropping it ends it.
#[derive(Debug)]
pub(super) struct Background {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Background {
    /// Starts the load. Its wake-ups follow from `seed` and the start time alone, not from the CPU's speed, so that arms with
    /// the same seed have the same wake-ups.
    pub(super) fn start(load: &spec::Background, turns_per_ms: u64, seed: u64) -> std::io::Result<Self> {
        let work = Work::of_turns(u64::from(load.work_us) * turns_per_ms / 1000);
        let period_us = f64::from(load.period_ms) * 1000.0;
        let mut background = Self { stop: Arc::default(), threads: Vec::new() };
        for _ in 0..load.hogs {
            background.add("hog", Work::of_turns(HOG_WORK_MS * turns_per_ms), Duration::ZERO)?;
        }
        for _ in 0..load.downloads {
            background.add("download", Work::of_turns(DOWNLOAD_WORK_MS * turns_per_ms), DOWNLOAD_WAIT)?;
        }
        let stopped = Arc::clone(&background.stop);
        let mut random = Random::new(seed);
        let mut next = BootTime::now();
        let body = move || {
            while !stopped.load(Ordering::Relaxed) {
                next = next + Duration::from_micros((period_us * (0.5 + random.unit())) as u64);
                sleep_until(next);
                work.run();
            }
        };
        background.threads.push(std::thread::Builder::new().name("background".into()).spawn(body)?);
        Ok(background)
    }

    /// A thread that does `work` and waits, in a loop.
    fn add(&mut self, name: &str, work: Work, wait: Duration) -> std::io::Result<()> {
        let stopped = Arc::clone(&self.stop);
        let body = move || {
            while !stopped.load(Ordering::Relaxed) {
                work.run();
                if !wait.is_zero() {
                    sleep_until(BootTime::now() + wait);
                }
            }
        };
        self.threads.push(std::thread::Builder::new().name(name.into()).spawn(body)?);
        Ok(())
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
