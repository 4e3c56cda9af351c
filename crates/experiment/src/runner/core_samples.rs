//! The CPUs of a few processes once a second, as the placement thesis counted them in a `top` every second.

use std::time::Duration;

use super::sampler::Sampler;
use brisk_sys::memory::process_memory;
use brisk_sys::{Root, process};

const PERIOD: Duration = Duration::from_secs(1);
/// Fewer samples say nothing about a program.
const MIN_SAMPLES: usize = 30;

/// The sampled processes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sampled {
    pub(super) foreground: u32,
    /// The foreground has a second process, its only child.
    pub(super) has_child: bool,
    /// A background program.
    pub(super) background: Option<u32>,
}

/// A sample: the CPU on which each ran last.
#[derive(Debug, Clone, Copy, Default)]
struct Sample {
    foreground: Option<u32>,
    child: Option<u32>,
    background: Option<u32>,
}

/// Samples in the background until it ends.
pub(super) struct CoreSamples(Sampler<Sample>);

/// What the samples show; `None` about a process that there is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CoreCounts {
    /// Samples in which the foreground was on another CPU than in the one before.
    pub(super) changes: u32,
    /// The same of its second process.
    pub(super) child_changes: Option<u32>,
    /// The same of the background program.
    pub(super) background_changes: Option<u32>,
    /// Samples in which the foreground and the background program were on one CPU.
    pub(super) shared: Option<u32>,
    /// Samples in which all three were on one CPU.
    pub(super) all_shared: Option<u32>,
}

impl CoreSamples {
    /// Samples `sampled`.
    pub(super) fn start(root: &Root, sampled: Sampled) -> Self {
        let root = root.clone();
        let mut child = None;
        Self(Sampler::start(PERIOD, move || {
            if sampled.has_child && child.is_none() {
                child = child_of(&root, sampled.foreground);
            }
            let cpu = |pid| process::last_cpu(&root, pid);
            Some(Sample {
                foreground: cpu(sampled.foreground),
                child: child.and_then(cpu),
                background: sampled.background.and_then(cpu),
            })
        }))
    }

    /// Ends, and counts; `None` where there are too few samples.
    pub(super) fn end(self) -> Option<CoreCounts> {
        counts(&self.0.end())
    }
}

fn child_of(root: &Root, parent: u32) -> Option<u32> {
    let pids = process_memory::pids(root).ok()?;
    pids.into_iter().find(|&pid| process::stat(root, pid).is_ok_and(|stat| stat.parent == parent))
}

fn counts(samples: &[Sample]) -> Option<CoreCounts> {
    // A foreground that has ended was on no CPU.
    let samples: Vec<&Sample> = samples.iter().filter(|sample| sample.foreground.is_some()).collect();
    let changes = |cpu: fn(&Sample) -> Option<u32>| -> Option<u32> {
        let cpus: Vec<u32> = samples.iter().filter_map(|sample| cpu(sample)).collect();
        (!cpus.is_empty()).then(|| cpus.windows(2).filter(|pair| pair[0] != pair[1]).count() as u32)
    };
    let shared = |others: fn(&Sample) -> Option<[u32; 2]>| -> Option<u32> {
        let mut of_others = samples.iter().filter_map(|sample| Some((sample.foreground?, others(sample)?))).peekable();
        of_others.peek()?;
        Some(of_others.filter(|(foreground, others)| others.iter().all(|cpu| cpu == foreground)).count() as u32)
    };
    let counts = CoreCounts {
        changes: changes(|sample| sample.foreground)?,
        child_changes: changes(|sample| sample.child),
        background_changes: changes(|sample| sample.background),
        shared: shared(|sample| Some([sample.background?; 2])),
        all_shared: shared(|sample| Some([sample.background?, sample.child?])),
    };
    (samples.len() >= MIN_SAMPLES).then_some(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Cpus = [Option<u32>; 3];

    /// A course that begins with `cpus` and stays apart after that.
    fn course(cpus: &[Cpus]) -> Vec<Sample> {
        let sample = |[foreground, child, background]: &Cpus| Sample {
            foreground: *foreground,
            child: *child,
            background: *background,
        };
        let mut samples: Vec<Sample> = cpus.iter().map(sample).collect();
        let apart = [Some(0), cpus[0][1].map(|_| 0), cpus[0][2].map(|_| 1)];
        samples.resize(MIN_SAMPLES, sample(&apart));
        samples
    }

    // Verifies PLACE-7.
    #[test]
    fn changes_and_shared_cpus_are_counted_in_samples() {
        let [no, zero, one] = [None, Some(0), Some(1)];
        let counted = |changes, child_changes, background_changes, shared, all_shared| {
            Some(CoreCounts { changes, child_changes, background_changes, shared, all_shared })
        };
        for (cpus, expected) in [
            (
                &[[zero, no, one], [one, no, one], [one, no, zero], [zero, no, zero]][..],
                counted(2, None, Some(2), Some(2), None),
            ),
            (&[[zero, no, no], [one, no, no]], counted(2, None, None, None, None)),
            (&[[zero, no, one]], counted(0, None, Some(0), Some(0), None)),
            (&[[one, one, one], [one, zero, one], [zero, zero, zero]], counted(1, Some(1), Some(2), Some(3), Some(2))),
        ] {
            assert_eq!(counts(&course(cpus)), expected, "{cpus:?}");
        }
        let mut ended = course(&[[zero, no, zero]]);
        ended[1].foreground = None;
        assert_eq!(counts(&ended), None, "a program that has ended was on no CPU");
    }

    #[test]
    fn a_short_foreground_has_no_counts() {
        let sampled = Sampled { foreground: std::process::id(), has_child: false, background: None };
        assert_eq!(CoreSamples::start(&Root::system(), sampled).end(), None);
    }
}
