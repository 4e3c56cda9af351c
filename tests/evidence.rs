//! When each promise was last checked that not every test run checks: `tests/evidence.toml`, kept by `cargo xtask evidence`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde::Deserialize;

/// Why a date is missing.
const NOT_ON_RECORD: &str = "not on record";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Evidence {
    /// Of which day the database was that has no advisory against a dependency of which commit (`cargo deny check advisories`).
    advisories: String,
    /// By `FILE::TEST`, the day and commit of the last passing run.
    deep: BTreeMap<String, String>,
    /// By the experiment's file, the day and commit of its last run.
    measured: BTreeMap<String, Measured>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Measured {
    quick: String,
    full: String,
}

fn text(file: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap_or_default()
}

fn evidence() -> Evidence {
    toml::from_str(&text("tests/evidence.toml")).unwrap()
}

/// True when `file` holds the test `name`, and an ordinary run leaves it out.
fn is_deep(file: &str, name: &str) -> bool {
    let text = text(file);
    let Some(at) = text.find(&format!("fn {name}(")) else { return false };
    let attributes = text[..at].rsplit("\n\n").next().unwrap_or_default();
    attributes.contains("#[ignore")
}

/// The rows of SPECIFICATION.md and what each names as its checks.
fn promises(specification: &str) -> Vec<(&str, Vec<(&str, &str)>)> {
    let rows = specification.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| Promise"));
    rows.map(|row| (row, checks(row))).collect()
}

fn checks(row: &str) -> Vec<(&str, &str)> {
    row.split('`').skip(1).step_by(2).filter_map(|code| code.split_once("::")).collect()
}

/// Each run, deep or measured: a row that no ordinary run checks says so.
#[test]
fn promises_that_only_deep_tests_check_are_marked() {
    let specification = text("SPECIFICATION.md");
    let mut wrong = Vec::new();
    for (row, checks) in promises(&specification) {
        let deep = !checks.is_empty() && !row.contains('#') && checks.iter().all(|(file, name)| is_deep(file, name));
        if deep != row.contains("(deep)") {
            wrong.push(format!("{}: {row}", if deep { "is deep" } else { "is not deep" }));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_deep_test_and_every_experiment_has_its_last_run_on_record() {
    let evidence = evidence();
    let specification = text("SPECIFICATION.md");
    let deep: BTreeSet<String> = promises(&specification)
        .into_iter()
        .flat_map(|(_, checks)| checks)
        .filter(|(file, name)| is_deep(file, name))
        .map(|(file, name)| format!("{file}::{name}"))
        .collect();
    assert!(deep.len() > 10, "the deep tests are found");
    assert_eq!(evidence.deep.keys().cloned().collect::<BTreeSet<_>>(), deep);

    let experiments = Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments");
    let experiments: BTreeSet<String> = fs::read_dir(experiments)
        .unwrap()
        .map(|entry| format!("experiments/{}", entry.unwrap().file_name().display()))
        .filter(|file| text(file).contains("[[claim]]"))
        .collect();
    assert_eq!(evidence.measured.keys().cloned().collect::<BTreeSet<_>>(), experiments);
    let runs = evidence.deep.values().chain([&evidence.advisories]);
    for run in runs.chain(evidence.measured.values().flat_map(|it| [&it.quick, &it.full])) {
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
fn the_checks_find_what_is_wrong() {
    assert!(is_run("2026-11-23 ee0c2f3") && !is_run("yesterday ee0c2f3") && !is_run("2026-11-23"));
    assert!(is_deep("tests/lab/undo.rs", "any_kill_on_two_cpus_leaves_nothing_changed"));
    assert!(!is_deep("tests/evidence.rs", "the_checks_find_what_is_wrong") && !is_deep("tests/none.rs", "any"));
}
