//! The fuzz targets on stable Rust, for a short time: seeds with random mutations, reproducible from a random seed.
//!
//! Each target gets the same inputs in every run. `BRISK_FUZZ_SECONDS` (per target, instead of a number of inputs) and
//! `BRISK_FUZZ_SEED` change that; `./dev fuzz` sets both.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::{Duration, Instant};

#[path = "../fuzz/targets.rs"]
mod targets;

use targets::{TARGETS, Target};

/// When to stop.
#[derive(Clone, Copy)]
enum Limit {
    Inputs(u64),
    Time(Duration),
}

/// For each target when no time is set.
const DEFAULT_LIMIT: Limit = Limit::Inputs(5_000);
/// Longer inputs exist only where a seed is repeated on purpose.
const LENGTH_LIMIT_BYTES: usize = 4096;

/// Numbers and punctuation that often break parsers.
const TOKENS: &[&[u8]] = &[
    b"0",
    b"-1",
    b"4294967295",
    b"4294967296",
    b"18446744073709551616",
    b"-9223372036854775808",
    b"1e999",
    b"nan",
    b"-inf",
    b"\"",
    b"[",
    b"]",
    b"{",
    b"}",
    b"=",
    b"\n",
    b"\0",
    b",",
    b"-",
    b" ",
    b"\xff\xfe",
    b"\xf0\x9f\x92\xa5",
    b"..",
    b"/",
];

/// SplitMix64 (Steele, Lea, Flood 2014): small, and good enough to choose mutations.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// One to eight small changes of a seed; sometimes random bytes without a seed.
fn mutant(random: &mut Random, seeds: &[&[u8]]) -> Vec<u8> {
    let mut bytes = seeds[random.below(seeds.len())].to_vec();
    if random.below(32) == 0 {
        return (0..random.below(256)).map(|_| random.next() as u8).collect();
    }
    for _ in 0..=random.below(8) {
        let at = random.below(bytes.len() + 1);
        let end = (at + random.below(24)).min(bytes.len());
        match random.below(7) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            1 if at < bytes.len() => bytes[at] = random.next() as u8,
            2 => drop(bytes.drain(at..end)),
            3 => drop(bytes.splice(at..end, TOKENS[random.below(TOKENS.len())].iter().copied())),
            4 => bytes.truncate(at),
            5 => {
                let copy = bytes[at..end].repeat(1 + random.below(40));
                drop(bytes.splice(at..at, copy));
            }
            _ => {
                let other = seeds[random.below(seeds.len())];
                let from = random.below(other.len());
                drop(bytes.splice(at..end, other[from..].iter().copied()));
            }
        }
        bytes.truncate(LENGTH_LIMIT_BYTES);
    }
    bytes
}

/// Feeds mutants up to `limit`; returns the first that makes the target panic as the error.
fn fuzz(target: &Target, seed: u64, limit: Limit) -> Result<u64, Vec<u8>> {
    let mut random = Random(seed);
    let survives = |bytes: &[u8]| catch_unwind(AssertUnwindSafe(|| (target.feed)(bytes))).is_ok();
    for bytes in target.seeds {
        if !survives(bytes) {
            return Err(bytes.to_vec());
        }
    }
    let start = Instant::now();
    let mut fed = 0;
    let goes_on = |fed| match limit {
        Limit::Inputs(inputs) => fed < inputs,
        Limit::Time(duration) => start.elapsed() < duration,
    };
    while goes_on(fed) {
        let bytes = mutant(&mut random, target.seeds);
        if !survives(&bytes) {
            return Err(bytes);
        }
        fed += 1;
    }
    Ok(fed)
}

fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

fn run(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name).expect("every test below names a target");
    let seed = setting("BRISK_FUZZ_SEED").unwrap_or(20_170_201);
    let limit =
        setting("BRISK_FUZZ_SECONDS").map_or(DEFAULT_LIMIT, |seconds| Limit::Time(Duration::from_secs(seconds)));
    match fuzz(target, seed, limit) {
        Ok(fed) => println!("{name}: {fed} inputs, seed {seed}"),
        Err(input) => {
            let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("fuzz-{name}"));
            std::fs::write(&file, &input).unwrap();
            panic!("{name} broke on the input in {}: {:?}", file.display(), String::from_utf8_lossy(&input));
        }
    }
}

macro_rules! fuzz_tests {
    ($($test:ident: $name:literal,)*) => {
        $(#[test]
        fn $test() {
            run($name);
        })*

        // Verifies SECURITY-3.
        #[test]
        fn every_target_has_a_test() {
            let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(names, [$($name),*]);
        }
    };
}

fuzz_tests! {
    config: "config",
    cpu_lists: "cpu-lists",
    netlink: "netlink",
    process_events: "process-events",
    control: "control",
    // Verifies DAEMON-1.
    daemon_recording: "daemon-recording",
    process_files: "process-files",
    thread_files: "thread-files",
    kernel_types: "kernel-types",
    counters: "counters",
    memory_files: "memory-files",
    zram_files: "zram-files",
    journal: "journal",
    learned: "learned",
    // Verifies FLEET-2.
    telemetry: "telemetry",
    device_tree: "device-tree",
    scenario: "scenario",
    binder: "binder",
    bootchart_samples: "bootchart-samples",
    bootchart_processes: "bootchart-processes",
    bootchart_facts: "bootchart-facts",
    bootchart_archive: "bootchart-archive",
    // Verifies TRACE-2, TRACE-3.
    trace_files: "trace-files",
    traces: "traces",
    experiment: "experiment",
    fleet_export: "fleet-export",
    fleet_document: "fleet-document",
    // Verifies PROVE-8.
    papers: "papers",
    remote: "remote",
    shards: "shards",
    report: "report",
}

#[test]
fn every_target_has_a_binary_for_cargo_fuzz() {
    let manifest = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/Cargo.toml")).unwrap();
    for target in TARGETS {
        assert!(manifest.contains(&format!("name = \"{}\"", target.name)), "{} is not in fuzz/Cargo.toml", target.name);
    }
}

// Verifies SECURITY-3.
#[test]
fn a_planted_fault_is_found() {
    let planted = Target {
        name: "planted",
        feed: |bytes| assert!(!bytes.windows(2).any(|pair| pair == b"=="), "planted"),
        seeds: &[b"key = 1"],
    };
    let input = fuzz(&planted, 1, Limit::Inputs(1_000_000)).expect_err("the fault is two mutations away");
    assert!(input.windows(2).any(|pair| pair == b"=="));
}
