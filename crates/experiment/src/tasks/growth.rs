//! A background program that takes more and more memory.

use std::hint::black_box;
use std::time::Duration;

use super::TaskRunner;
use super::background::Tally;
use super::periodic::sleep_until;
use brisk_sys::BootTime;

/// It allocates a step this often, and frees all when it has so many.
const STEP_BYTES: usize = 1 << 20;
const STEP_PERIOD: Duration = Duration::from_millis(50);
const STEPS: usize = 160;
const PAGE_BYTES: usize = 4096;

impl TaskRunner {
    /// Allocates until `tally` says to stop.
    pub(super) fn grow(&self, tally: &Tally) {
        let mut held = Vec::with_capacity(STEPS);
        let mut due = BootTime::now();
        while tally.should_run() {
            if held.len() == STEPS {
                held.clear();
            }
            let mut step = vec![0u8; STEP_BYTES];
            // No two pages are alike.
            for (number, page) in step.chunks_mut(PAGE_BYTES).enumerate() {
                page[..size_of::<usize>()].copy_from_slice(&(held.len() * STEP_BYTES + number + 1).to_ne_bytes());
            }
            held.push(black_box(step));
            tally.add_moved(STEP_BYTES);
            due = due + self.dilated(STEP_PERIOD);
            sleep_until(due);
        }
    }
}
