//! Explanations of programs whose time goes into known causes: each alone, and every pair.

use std::collections::BTreeMap;
use std::time::Duration;

use brisk::lab::scenario::Module;
use serde_json::Value;

use crate::lab::steps::Report;
use crate::lab::{job, static_brisk};

/// As `brisk lab causes` names them.
const CAUSES: [&str; 6] = ["frequency", "storage", "lock", "service", "reclaim", "runnable"];
/// The most that a cause is off, alone and with another one, as a share of its true time.
const ALONE: f64 = 0.05;
const WITH_ANOTHER: f64 = 0.10;
/// The most that a cause is off that was not asked for, as a share of the shorter one that was: run-queue delay comes with some.
const NOT_MADE: f64 = 0.05;

/// A disk whose reads take 2 ms each.
fn slow_disk() -> Module {
    let parameters = [("nr_devices", 1), ("queue_mode", 2), ("irqmode", 2), ("completion_nsec", 2_000_000)];
    Module {
        name: "null_blk".to_owned(),
        source: None,
        renames: None,
        defines: Vec::new(),
        parameters: parameters.map(|(name, value)| (name.to_owned(), toml::Value::Integer(value))).into(),
    }
}

/// Each cause alone and every pair; those with `reclaim`, for which memory is filled, are the last.
fn combinations() -> Vec<Vec<&'static str>> {
    let alone = CAUSES.iter().map(|cause| vec![*cause]);
    let pairs = (0..CAUSES.len()).flat_map(|first| CAUSES[first + 1..].iter().map(move |it| vec![CAUSES[first], *it]));
    let mut all: Vec<_> = alone.chain(pairs).collect();
    all.sort_by_key(|causes| causes.contains(&"reclaim"));
    all
}

/// The time of each cause in an explanation, by the names of `brisk lab causes`.
fn found(explained: &Value) -> BTreeMap<&'static str, f64> {
    let mut found = BTreeMap::new();
    let parts = explained["windows"][0]["parts"].as_array().unwrap_or_else(|| panic!("no window: {explained:#}"));
    for part in parts {
        let (cause, on_behalf) = (part["cause"].as_str().unwrap(), &part["on_behalf"]);
        let name = match (cause, on_behalf["wait"].as_str()) {
            ("runnable", _) => "runnable",
            (_, Some("lock")) if on_behalf["of"] == "holder" => "lock",
            (_, Some("service-lookup")) => "service",
            ("frequency", _) => "frequency",
            ("storage", _) => "storage",
            ("reclaim", _) => "reclaim",
            _ => "other",
        };
        *found.entry(name).or_default() += part["ns"].as_f64().unwrap();
    }
    found
}

// Verifies TRACE-2.
#[test]
#[ignore = "two minutes; ./dev test --deep"]
fn each_known_cause_and_every_pair_gets_its_time() {
    let Some(binary) = static_brisk() else { return };
    let combinations = combinations();
    let words: Vec<String> = combinations.iter().map(|causes| causes.join(",")).collect();
    let mut command = vec!["sh", "/causes.sh"];
    command.extend(words.iter().map(String::as_str));
    let mut job = job(binary, "together-6.1", &command);
    job.scenario.modules.push(slow_disk());
    job.scenario.guest.self_check = false;
    let report = Report::of(job, "/causes.sh", include_str!("causes.sh"), Duration::from_secs(1800));
    let (truths, explained) = (report.all("truth"), report.all("explained"));
    let mut wrong = Vec::new();
    for ((causes, truth), explained) in combinations.iter().zip(truths).zip(explained) {
        let truth: BTreeMap<String, f64> = serde_json::from_str(truth).unwrap();
        let explained: Value = serde_json::from_str(explained).unwrap();
        let found = found(&explained);
        let shortest = causes.iter().map(|cause| truth[*cause]).fold(f64::INFINITY, f64::min);
        let limit = if causes.len() == 1 { ALONE } else { WITH_ANOTHER };
        for cause in CAUSES {
            let found = found.get(cause).copied().unwrap_or_default();
            let expected = truth.get(cause).copied().unwrap_or_default();
            let allowed = if causes.contains(&cause) { limit * expected } else { NOT_MADE * shortest };
            let line = format!(
                "{:20} {cause:10} true {:8.3} ms, found {:8.3} ms",
                causes.join("+"),
                expected / 1e6,
                found / 1e6
            );
            println!("{line}");
            if (found - expected).abs() > allowed {
                wrong.push(format!("{line}: {:#}", explained["windows"][0]["parts"]));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
