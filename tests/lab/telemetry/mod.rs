//! Telemetry of a daemon on a real kernel: launches that process events report, SIGKILL again and again, and what becomes of the
//! exports in a fleet's data set.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use super::steps::Report;
use super::{job, static_brisk};
use crate::patience::{LONG_PATIENCE, OutputWithin};

/// So many that newer rows replace the first ones.
const KILLS: usize = 24;
/// What telemetry.sh allows the rows to take.
const SIZE_BYTES: usize = 32 << 10;

/// The lines of an export; the first is its header, the last its trailer.
fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The rows of an export, by their numbers.
fn rows(text: &str) -> BTreeMap<u64, Value> {
    let lines = lines(text);
    let rows = &lines[1..lines.len() - 1];
    rows.iter().map(|row| (row["row"].as_u64().unwrap(), row.clone())).collect()
}

fn of_kind<'rows>(rows: &'rows BTreeMap<u64, Value>, kind: &str) -> Vec<&'rows Value> {
    rows.values().filter(|row| row["kind"] == kind).collect()
}

/// What `brisk fleet import` says of these exports, in a folder of its own.
fn import(folder: &Path, exports: &[&String]) -> Value {
    fs::create_dir(folder.join("exports")).unwrap();
    for (number, text) in exports.iter().enumerate() {
        fs::write(folder.join(format!("exports/{number}")), text).unwrap();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_brisk"));
    command.args(["fleet", "import", "exports", "--to", "fleet", "--json"]).current_dir(folder);
    let output = command.output_within(LONG_PATIENCE);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

// Verifies FLEET-1, FLEET-2, FLEET-3.
#[test]
fn a_killed_daemons_launches_are_exported_without_names_and_imported_once() {
    let Some(binary) = static_brisk() else { return };
    let mut job = job(binary, "debian-6.1", &["sh", "/telemetry.sh", &KILLS.to_string()]);
    job.scenario.guest.self_check = false;
    let report = Report::of(job, "/telemetry.sh", include_str!("telemetry.sh"), Duration::from_secs(1200));
    let exports = ["first", "later", "last"].map(|name| report.all(name).join("\n") + "\n");
    let [first, later, last] = exports.each_ref().map(|text| rows(text));

    for (text, rows) in exports.iter().zip([&first, &later, &last]) {
        assert!(text.len() <= SIZE_BYTES && !text.contains("private"), "{} bytes: {text}", text.len());
        let numbers: Vec<u64> = rows.keys().copied().collect();
        assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "a kill has lost a row: {numbers:?}");
        assert_eq!(lines(text)[0]["device"], lines(&exports[0])[0]["device"], "{text}");
        assert_eq!(rows.values().next().unwrap()["kind"], "start", "its system is known: {text}");
    }
    let (replaced, kept) = (first.last_key_value().unwrap(), last.first_key_value().unwrap());
    assert!(replaced.0 < kept.0, "newer rows have replaced {replaced:?}: {kept:?}");
    assert!(report.one("largest").parse::<usize>().unwrap() <= SIZE_BYTES, "{report:#?}");
    assert_eq!((report.one("named"), report.one("complaints")), ("0", "0"), "{report:#?}");

    let applications = |rows| -> BTreeSet<String> {
        of_kind(rows, "launch").iter().map(|launch| launch["application"].to_string()).collect()
    };
    assert_eq!((of_kind(&first, "launch").len(), applications(&first).len()), (2, 2), "{first:?}");
    assert_eq!(applications(&last), applications(&first), "the salt has survived each kill");
    for launch in of_kind(&last, "launch") {
        assert_eq!((&launch["governor"], &launch["boosted"]), (&json!("ondemand"), &json!(true)), "{launch}");
        assert!(launch["length_ms"].as_u64() > Some(0) && launch["loss_ms"].is_number(), "{launch}");
    }

    let folder = tempfile::tempdir().unwrap();
    // The first one twice.
    let summary = import(folder.path(), &[&exports[0], &exports[1], &exports[2], &exports[0]]);
    let all: BTreeMap<u64, Value> = [first, later.clone(), last.clone()].into_iter().flatten().collect();
    let counted = |rows: &BTreeMap<u64, Value>| rows.len() - of_kind(rows, "start").len();
    let overlap: BTreeMap<u64, Value> = later.into_iter().filter(|(row, _)| last.contains_key(row)).collect();
    assert!(counted(&overlap) > 0, "two exports overlap");
    let expected = json!({
        "files": 4, "imported": 3, "known": 1, "rows": counted(&all), "known_rows": counted(&overlap), "set_aside": {},
    });
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(&summary[key], value, "{key}: {summary}");
    }
    assert_eq!(summary["total"]["devices"], 1, "{summary}");
    let files = brisk::fleet::import::files(&[folder.path().join("fleet/launches")]).unwrap();
    let stored = files.iter().flat_map(|path| brisk::fleet::parquet_file::read(path).unwrap());
    assert_eq!(stored.map(|batch| batch.num_rows()).sum::<usize>(), of_kind(&all, "launch").len());
}
