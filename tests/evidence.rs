//! The last run of each check that is not part of every test run: `tests/evidence.toml`, kept by `cargo xtask evidence`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::traceability::{self, Check, NOT_ON_RECORD, Record, Tier};

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The deep tests that `cargo test` runs: Maven's are not on record.
fn deep(checks: &[Check]) -> BTreeSet<String> {
    let deep = checks.iter().filter(|check| check.tier == Tier::Deep && check.file.ends_with(".rs"));
    deep.map(|check| format!("{}::{}", check.file, check.name)).collect()
}

/// Each promise needs a check in an ordinary run or a measurement: deep tests alone are not enough.
#[test]
fn no_promise_rests_on_deep_tests_alone() {
    let checks = traceability::checks(repository()).unwrap();
    let of = |is_deep: bool| -> BTreeSet<&String> {
        let checks = checks.iter().filter(|check| (check.tier == Tier::Deep) == is_deep);
        checks.flat_map(|check| &check.promises).collect()
    };
    assert_eq!(of(true).difference(&of(false)).collect::<Vec<_>>(), Vec::<&&String>::new());
}

#[test]
fn every_deep_test_and_experiment_has_its_last_run_on_record() {
    let record = Record::read(repository()).unwrap();
    let checks = traceability::checks(repository()).unwrap();
    let deep = deep(&checks);
    assert!(deep.len() > 10, "the deep tests are found");
    assert_eq!(record.deep.keys().cloned().collect::<BTreeSet<_>>(), deep);

    let experiments: BTreeSet<String> = fs::read_dir(repository().join("experiments"))
        .unwrap()
        .map(|entry| format!("experiments/{}", entry.unwrap().file_name().display()))
        .filter(|file| fs::read_to_string(repository().join(file)).unwrap().contains("[[claim]]"))
        .collect();
    assert_eq!(record.measured.keys().cloned().collect::<BTreeSet<_>>(), experiments);
    let runs = record.deep.values().chain([&record.advisories]);
    for run in runs.chain(record.measured.values().flat_map(|it| [&it.quick, &it.full])) {
        assert!(run == NOT_ON_RECORD || is_run(run), "{run}: a day and a commit, or {NOT_ON_RECORD:?}");
    }
}

/// `2026-11-23 ee0c2f3`
fn is_run(text: &str) -> bool {
    let Some((day, commit)) = text.split_once(' ') else { return false };
    let parts: Vec<&str> = day.split('-').collect();
    let digits = |part: &str, length| part.len() == length && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_day = matches!(parts[..], [year, month, day] if digits(year, 4) && digits(month, 2) && digits(day, 2));
    is_day && commit.len() >= 7 && commit.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[test]
fn a_run_is_a_day_and_a_commit() {
    assert!(is_run("2026-11-23 ee0c2f3") && !is_run("yesterday ee0c2f3") && !is_run("2026-11-23"));
}
