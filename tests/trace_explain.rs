//! `brisk trace explain` and `compare` from outside: their JSON adds up, and damaged files are answered with what is missing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/trace.in/launch.txt")
}

fn explain(file: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_brisk"));
    command.args(["trace", "explain"]).arg(file).args(arguments).output().unwrap()
}

/// The JSON, after a check that the parts and the path of each window add up.
fn report(file: &Path, arguments: &[&str]) -> Value {
    let output = explain(file, &[arguments, &["--json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["schema"], 1);
    let number = |value: &Value| value.as_u64().unwrap();
    for window in report["windows"].as_array().unwrap() {
        let length_ns = number(&window["to_ns"]) - number(&window["from_ns"]);
        let parts = window["parts"].as_array().unwrap();
        assert_eq!(parts.iter().map(|part| number(&part["ns"])).sum::<u64>(), length_ns);
        let mut shares = vec![0; parts.len()];
        for share in window["path"].as_array().unwrap().iter().flat_map(|step| step["shares"].as_array().unwrap()) {
            shares[number(&share["part"]) as usize] += number(&share["ns"]);
        }
        assert_eq!(shares, parts.iter().map(|part| number(&part["ns"])).collect::<Vec<_>>());
        if let Some(left) = window["what_if"]["left_ns"].as_array() {
            assert_eq!(left.iter().map(number).sum::<u64>() + number(&window["what_if"]["removed_ns"]), length_ns);
        }
    }
    report
}

// Verifies TRACE-2.
#[test]
fn the_json_of_a_window_adds_up_and_names_each_cause() {
    let report = report(&example(), &["--process", "browser"]);
    let parts = report["windows"][0]["parts"].as_array().unwrap();
    let found = |cause: &str, wait: Option<&str>| {
        let is_wanted = |part: &&Value| part["cause"] == cause && part["on_behalf"]["wait"].as_str() == wait;
        parts.iter().filter(is_wanted).map(|part| part["ns"].as_u64().unwrap()).sum::<u64>()
    };
    for (cause, wait, ns) in [
        // 39.9 ms at 600 of 2000 MHz.
        ("frequency", None, 27_930_000),
        ("runnable", None, 24_000_000),
        ("storage", None, 15_000_000),
        ("reclaim", None, 6_000_000),
        ("runnable", Some("service-lookup"), 6_000_000),
        ("full-speed", Some("service-lookup"), 1_900_000),
        ("full-speed", Some("lock"), 5_900_000),
    ] {
        assert_eq!(found(cause, wait), ns, "{cause} {wait:?}");
    }
}

// Verifies TRACE-9.
#[test]
fn the_json_has_an_estimate_for_each_mechanism() {
    let all = report(&example(), &["--process", "browser"]);
    let estimates = all["windows"][0]["what_if"]["estimates"].as_array().unwrap();
    let removed = |place: usize| (estimates[place]["mechanism"].as_str(), estimates[place]["removed_ns"].as_u64());
    // From 1.25 ms on, of 39.9 ms at 600 of 2000 MHz from 1.1 ms on.
    assert_eq!(removed(0), (Some("launch"), Some(27_825_000)));
    assert_eq!(removed(1), (Some("placement"), Some(0)));
    let (mechanism, ns) = removed(2);
    assert!(mechanism == Some("lookup") && ns.is_some_and(|ns| (8_200_000..8_300_000).contains(&ns)), "{ns:?}");
    let one = report(&example(), &["--process", "browser", "--with", "lookup"]);
    assert_eq!(one["windows"][0]["what_if"]["estimates"].as_array().unwrap().as_slice(), &estimates[2..3]);
    let memory = &estimates[3];
    assert_eq!((&memory["mechanism"], &memory["removed_ns"]), (&"memory".into(), &Value::Null));
    assert!(memory["because"].as_str().unwrap().contains("6.00 ms went to direct reclaim"), "{memory}");
    let none = report(&example(), &["--process", "browser", "--with", "none"]);
    assert_eq!(none["windows"][0]["what_if"], Value::Null);
}

// Verifies TRACE-3.
#[test]
fn a_trace_cut_or_torn_anywhere_adds_up_or_is_refused() {
    let text = fs::read(example()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cut.txt");
    let mut explained = 0;
    for at in (0..text.len()).step_by(433) {
        for damaged in
            [text[..at].to_vec(), text[at..].to_vec(), [&text[..at], &text[(at + 900).min(text.len())..]].concat()]
        {
            fs::write(&file, damaged).unwrap();
            let output = explain(&file, &["--process", "browser", "--json"]);
            match output.status.code() {
                Some(0) => {
                    report(&file, &["--process", "browser"]);
                    explained += 1;
                }
                code => assert_eq!(code, Some(2), "{}", String::from_utf8_lossy(&output.stderr)),
            }
        }
    }
    assert!(explained > 10, "{explained}");
}

// Verifies TRACE-8.
#[test]
fn the_json_of_a_comparison_adds_up() {
    let other = example().with_file_name("placed.txt");
    let mut command = Command::new(env!("CARGO_BIN_EXE_brisk"));
    command.args(["trace", "compare"]).args([example(), other]).args(["--process", "browser", "--json"]);
    let report: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
    let parts = report["parts"].as_array().unwrap();
    for (sum, expected_ns) in [("a_ns", 150_000_000), ("b_ns", 130_000_000), ("difference_ns", -20_000_000)] {
        assert_eq!(report[sum], expected_ns);
        assert_eq!(parts.iter().map(|part| part[sum].as_i64().unwrap()).sum::<i64>(), expected_ns, "{sum}");
    }
    assert_eq!((&parts[0]["cause"], &parts[0]["subject"]), (&"runnable".into(), &"dex2oat".into()));
    assert_eq!((&report["a"]["thread"], &report["b"]["pid"]), (&"browser".into(), &7.into()));
}
