//! The CPUs of two programs once a second, as the placement thesis counted them in a `top` every second.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use brisk_sys::{Root, process};

const PERIOD: Duration = Duration::from_secs(1);
/// Fewer samples say nothing about a program.
const MIN_SAMPLES: usize = 30;

/// A sample: the CPU on which the foreground ran last, and that of a background program.
type Sample = [Option<u32>; 2];

/// Samples in the background until it ends.
pub(super) struct CoreSamples {
    stop: Sender<()>,
    thread: JoinHandle<Vec<Sample>>,
}

/// What the samples show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CoreCounts {
    /// Samples in which the foreground was on another CPU than in the one before.
    pub(super) changes: u32,
    /// Samples in which both were on one CPU; `None` without a background program.
    pub(super) shared: Option<u32>,
}

impl CoreSamples {
    /// Samples the processes `foreground` and `background`.
    pub(super) fn start(root: &Root, foreground: u32, background: Option<u32>) -> Self {
        let (stop, stopped) = mpsc::channel();
        let root = root.clone();
        let thread = thread::spawn(move || {
            let mut samples = Vec::new();
            while stopped.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                let background = background.and_then(|pid| process::last_cpu(&root, pid));
                samples.push([process::last_cpu(&root, foreground), background]);
            }
            samples
        });
        Self { stop, thread }
    }

    /// Ends, and counts; `None` where there are too few samples.
    pub(super) fn end(self) -> Option<CoreCounts> {
        drop(self.stop);
        counts(&self.thread.join().unwrap_or_default())
    }
}

fn counts(samples: &[Sample]) -> Option<CoreCounts> {
    let both: Vec<(u32, Option<u32>)> = samples.iter().filter_map(|[front, other]| Some(((*front)?, *other))).collect();
    let changes = both.windows(2).filter(|pair| pair[0].0 != pair[1].0).count() as u32;
    let shared = both.iter().filter(|(front, other)| *other == Some(*front)).count() as u32;
    let has_other = both.iter().any(|(_, other)| other.is_some());
    (both.len() >= MIN_SAMPLES).then_some(CoreCounts { changes, shared: has_other.then_some(shared) })
}

#[cfg(test)]
mod tests {
    use super::*;

    // Verifies PLACE-7.
    #[test]
    fn changes_and_shared_cpus_are_counted_in_samples() {
        let course = |cpus: &[(u32, Option<u32>)]| -> Vec<Sample> {
            let mut samples: Vec<Sample> = cpus.iter().map(|(front, other)| [Some(*front), *other]).collect();
            samples.resize(MIN_SAMPLES, [Some(0), cpus[0].1.map(|_| 1)]);
            samples
        };
        for (cpus, changes, shared) in [
            (&[(0, Some(1)), (1, Some(1)), (1, Some(0)), (0, Some(0))][..], 2, Some(2)),
            (&[(0, None), (1, None)], 2, None),
            (&[(0, Some(1))], 0, Some(0)),
        ] {
            assert_eq!(counts(&course(cpus)), Some(CoreCounts { changes, shared }), "{cpus:?}");
        }
        let mut ended = course(&[(0, Some(0))]);
        ended[1] = [None, Some(0)];
        assert_eq!(counts(&ended), None, "a program that has ended was on no CPU");
    }

    #[test]
    fn a_short_foreground_has_no_counts() {
        let samples = CoreSamples::start(&Root::system(), std::process::id(), None);
        assert_eq!(samples.end(), None);
    }
}
