//! Wake-up latency and residency of frequencies against those of LISA 3.1.0 (PyPI `lisa-linux`), on its own traces of an arm64 board
//! with big and little cores (tests/fixtures/trace/README.md).
//!
//! The latencies are `trace.ana.latency.df_latency_wakeup(pid)`, after `==>` was put into the text's sched_switch, without which
//! LISA's parser does not know it; numbers that several programs had are refused by LISA and left out. The residencies are
//! `df_add_delta(trace.ana.frequency.df_cpus_frequency(), window=trace.window)` by frequency, the total time of LISA's
//! `df_cpu_frequency_residency`, which itself needs cpu_idle.

use std::path::Path;

use super::{State, Thread, Timelines, resolve};
use crate::model::{Tid, Trace};
use crate::read::read_bytes;

const SCHED: &[u8] = include_bytes!("../../../../tests/fixtures/trace/sched.txt.gz");
const FREQUENCIES: &[u8] = include_bytes!("../../../../tests/fixtures/trace/frequencies.txt");

/// Of each thread that was woken: how often, and the sum and the maximum of its latencies in microseconds.
const LATENCIES: [(Tid, usize, u64, u64); 36] = [
    (1, 1, 19, 19),
    (5, 179, 1480, 69),
    (7, 4, 42, 21),
    (8, 85, 1308, 319),
    (9, 3, 47, 20),
    (11, 1, 7, 7),
    (12, 1, 20, 20),
    (15, 2, 37, 22),
    (18, 9, 151, 48),
    (21, 2, 19, 13),
    (23, 3, 63, 26),
    (27, 2, 45, 27),
    (28, 6, 49, 11),
    (33, 2, 42, 26),
    (34, 2, 16, 9),
    (39, 2, 39, 24),
    (40, 1, 7, 7),
    (46, 222, 1676, 67),
    (479, 9, 155, 64),
    (1150, 6, 109, 36),
    (1151, 3, 38, 20),
    (1152, 4, 59, 29),
    (1153, 2, 26, 15),
    (1343, 130, 1814, 132),
    (1381, 2, 33, 18),
    (1382, 3, 21, 10),
    (1383, 5, 538, 397),
    (1386, 2, 37, 20),
    (1585, 7, 25, 5),
    (1614, 9, 39, 5),
    (1639, 256, 1148, 30),
    (1642, 12, 82, 12),
    (1707, 20, 111, 13),
    (1709, 13, 78, 11),
    (1711, 14, 84, 12),
    (1713, 13, 76, 11),
];

/// Of each CPU whose frequency changed: kHz, and microseconds at it.
const RESIDENCIES: [(u16, u32, f64); 8] = [
    (0, 700_000, 3_301_862.62),
    (0, 850_000, 2_144_878.66),
    (3, 700_000, 3_301_852.62),
    (3, 850_000, 2_144_882.72),
    (4, 700_000, 3_301_847.88),
    (4, 850_000, 2_144_883.5),
    (5, 700_000, 3_301_843.16),
    (5, 850_000, 2_144_884.26),
];

fn read(bytes: &[u8]) -> (Trace, Timelines) {
    let trace = read_bytes(Path::new("a"), bytes).unwrap();
    let timelines = resolve(&trace);
    (trace, timelines)
}

/// From each wake-up of a waiting thread until it runs, in microseconds.
fn latencies(trace: &Trace, thread: &Thread) -> Vec<u64> {
    let after_waits = thread.transitions.windows(3).filter_map(|three| {
        let [before, woken, after] = three else { return None };
        let is_waking = matches!(
            (before.state, woken.state, after.state),
            (State::Waiting { .. }, State::Runnable { .. }, State::Running { .. })
        );
        is_waking.then(|| (trace.time_ns(after.at) - trace.time_ns(woken.at)) / 1000)
    });
    after_waits.collect()
}

// Verifies TRACE-2.
#[test]
fn latencies_of_wake_ups_are_those_of_lisa() {
    let (trace, timelines) = read(SCHED);
    for (tid, count, sum_us, max_us) in LATENCIES {
        let threads = &timelines.by_tid[&tid];
        let found: Vec<u64> =
            threads.iter().flat_map(|&thread| latencies(&trace, &timelines.threads[thread as usize])).collect();
        let of_brisk = (found.len(), found.iter().sum::<u64>(), found.iter().copied().max().unwrap_or(0));
        assert_eq!(of_brisk, (count, sum_us, max_us), "thread {tid}");
    }
}

// Verifies TRACE-2.
#[test]
fn residencies_of_frequencies_are_those_of_lisa() {
    let (trace, timelines) = read(FREQUENCIES);
    let changed: Vec<usize> = (0..timelines.cpus.len()).filter(|&cpu| timelines.cpus[cpu].highest_khz > 0).collect();
    assert_eq!(changed, [0, 3, 4, 5]);
    for (cpu, khz, us) in RESIDENCIES {
        let changes = &timelines.cpus[cpu as usize].frequencies;
        let ends = changes.iter().skip(1).map(|(at, _)| *at).chain([trace.events.len() as u32]);
        let at_khz = changes.iter().zip(ends).filter(|((_, its_khz), _)| *its_khz == khz);
        let ns: u64 = at_khz.map(|((from, _), to)| trace.time_ns(to) - trace.time_ns(*from)).sum();
        // The text has whole microseconds: each of two periods has two ends.
        assert!((ns as f64 / 1000.0 - us).abs() <= 2.0, "CPU {cpu} at {khz} kHz: {ns} ns and {us} us");
    }
}
