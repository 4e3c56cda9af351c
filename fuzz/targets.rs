//! What is fuzzed: every parser of brisk as a function of bytes, with seeds to start from.
//!
//! The same table serves cargo-fuzz (`fuzz_targets/`, nightly) and the short run on stable (`tests/fuzz_short.rs`).
//! A target may refuse any input; it must not panic, and what it accepts must survive its own printed form.

use brisk::config::Config;
use brisk::device::{hotplug, process_events};
use brisk::experiment::spec::Experiment;
use brisk::lab::scenario::Scenario;
use brisk::report::json;

/// One parser and what to feed it first.
pub struct Target {
    /// Its name: `./dev fuzz NAME`.
    pub name: &'static str,
    /// Feeds the parser; panics when it breaks a promise.
    pub feed: fn(&[u8]),
    /// Valid inputs, small, one for each shape.
    pub seeds: &'static [&'static [u8]],
}

/// Every target.
pub const TARGETS: &[Target] = &[
    Target {
        name: "config",
        feed: config,
        seeds: &[
            b"[launch]\nenabled = true\ntriggers = [\"process-events\"]\nminimum_gain_percent = 1.5\n",
            b"[launch.filter]\nuids = [\"10000-19999\"]\nparents = [\"zygote*\"]\n[launch.kick]\nat_us = [0, 2000, 11000]\n",
            b"[control]\nmaximum_clients = 4 # few\n",
        ],
    },
    Target {
        name: "cpu-lists",
        feed: cpu_lists,
        seeds: &[b"0-3,5,8-11\n", b"0 1 2 3 ", b"7"],
    },
    Target { name: "process-events", feed: process_event_datagram, seeds: &[PROCESS_EXEC, PROCESS_COMM] },
    Target {
        name: "scenario",
        feed: scenario,
        seeds: &[
            include_bytes!("../lab/scenarios/debian-6.1.toml"),
            include_bytes!("../lab/scenarios/debian-6.1-parallel.toml"),
        ],
    },
    Target { name: "experiment", feed: experiment, seeds: &[b"name = \"x\"\n[[arms]]\nname = \"stock\"\nbaseline = true\n"] },
    Target {
        name: "report",
        feed: report,
        seeds: &[br#"{"schema":1,"brisk":"0.1.0","device":{"place":"lab","kernel":"6.1","processor":"x","cpu_count":1,"memory_kib":1,"energy_source":null},"experiments":[]}"#],
    },
];

/// Feeds the target called `name`.
#[allow(dead_code, reason = "the short run walks the table instead")]
pub fn feed(name: &str, bytes: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name).expect("a target of the table");
    (target.feed)(bytes);
}

fn text(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

fn config(bytes: &[u8]) {
    if let Ok(config) = Config::parse(&text(bytes)) {
        let printed = toml::to_string(&config).expect("a configuration can be printed");
        assert_eq!(Config::parse(&printed).expect("a printed configuration parses"), config);
    }
}

fn cpu_lists(bytes: &[u8]) {
    let text = text(bytes);
    let _ = hotplug::parse_words(&text);
    if let Some(cpus) = hotplug::parse_list(&text) {
        assert!(cpus.is_sorted_by(|one, other| one < other));
        assert_eq!(hotplug::parse_list(&hotplug::format_list(&cpus)), Some(cpus));
    }
}

fn process_event_datagram(bytes: &[u8]) {
    let mut notices = Vec::new();
    let _ = process_events::parse(bytes, &mut notices);
    assert!(notices.len() <= bytes.len() / 16, "more notices than headers fit");
}

fn scenario(bytes: &[u8]) {
    if let Ok(scenario) = Scenario::parse("fuzzed", &text(bytes)) {
        let _ = scenario.architecture();
    }
}

fn experiment(bytes: &[u8]) {
    if let Ok(experiment) = Experiment::parse("fuzzed", &text(bytes)) {
        assert!(experiment.arms[experiment.baseline()].baseline);
        assert!(!experiment.points(true).is_empty());
    }
}

fn report(bytes: &[u8]) {
    if let Ok(proof) = json::parse(&text(bytes)) {
        let printed = json::render(&proof);
        assert_eq!(json::parse(&printed).expect("a rendered report parses"), proof);
    }
}

/// A netlink datagram of the process connector (linux/cn_proc.h), little-endian: process 7 runs another program.
const PROCESS_EXEC: &[u8] = &[
    76, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // netlink header
    1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 40, 0, 0, 0, // connector header
    2, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, // kind, CPU, timestamp
    7, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
];

/// The same, process 7 calls itself "app".
const PROCESS_COMM: &[u8] = &[
    76, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // netlink header
    1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 40, 0, 0, 0, // connector header
    0, 2, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, // kind, CPU, timestamp
    7, 0, 0, 0, 7, 0, 0, 0, b'a', b'p', b'p', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
];
