//! What is wrong with what devices send: it is counted, kept aside with its reason, on the page, and in no answer.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{boot, export, has, report, rows, said, start};

/// No device takes this long: the answers would show it.
const WRONG_MS: u64 = 1_000_000;

/// The export `text` with each first text replaced by its second one, and a trailer that fits.
pub(super) fn altered(text: &str, changes: &[(&str, &str)]) -> String {
    let (body, _) = text.trim_end().rsplit_once('\n').unwrap();
    let mut text = body.to_owned() + "\n";
    for (from, to) in changes {
        assert!(text.contains(from), "{from}: {text}");
        text = text.replace(from, to);
    }
    let rows = text.lines().count() as u64 - 1;
    brisk::fleet::export::seal(&mut text, rows);
    text
}

/// A device's rows: a boot of `length_ms`, and an hour.
fn device(device: u64, length_ms: u64) -> String {
    let hour = r#""kind":"hour","period_s":3600,"uptime_s":3600,"memory_some_ms":null,"memory_full_ms":null,"cpu_some_ms":null,"io_some_ms":null,"lookup_hits":null,"lookup_misses":null,"cpu_ms":1,"resident_kib":1,"dropped_rows":0"#;
    export(device, &[start("b"), boot(length_ms), hour.to_owned()])
}

/// Files of which nothing may be used: their name, their content, and the kind of their fault.
fn bad() -> Vec<(&'static str, String, &'static str)> {
    let wrong = device(8, WRONG_MS);
    vec![
        ("letter", "rows, but no header\n".to_owned(), "no export"),
        ("next-format", altered(&wrong, &[("telemetry\":1", "telemetry\":2")]), "other format"),
        ("older-format", altered(&wrong, &[("telemetry\":1", "telemetry\":0")]), "other format"),
        ("without-trailer", wrong[..wrong.trim_end().rfind('\n').unwrap() + 1].to_owned(), "half file"),
        ("within-a-row", wrong[..wrong.len() / 2].to_owned(), "half file"),
        ("another-length", wrong.replace("1000000", "9000000"), "damaged"),
        ("future", altered(&wrong, &[("exported_at_s\":1", "exported_at_s\":9")]), "clock off"),
        ("never-set", altered(&wrong, &[("exported_at_s\":1767236400", "exported_at_s\":60")]), "clock off"),
        ("back-by-a-week", altered(&wrong, &[("\"at_s\":1767232800", "\"at_s\":1766628000")]), "clock off"),
        // Device 4 has said before that it is of model m.
        ("lie", altered(&device(4, WRONG_MS), &[("model\":\"m\"", "model\":\"n\"")]), "contradicting device"),
    ]
}

/// Imports the folder `exports` into `fleet`, and returns what the import says.
fn import(folder: &Path) -> Value {
    serde_json::from_str(&said(folder, &["fleet", "import", "exports", "--to", "fleet", "--json"])).unwrap()
}

/// All files below `folder` with their content.
fn tree(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = brisk::fleet::import::files(&[folder.to_owned()]).unwrap();
    files.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

fn write(folder: &Path, name: &str, text: &str) {
    fs::create_dir_all(folder.join("exports")).unwrap();
    fs::write(folder.join("exports").join(name), text).unwrap();
}

// Verifies FLEET-3.
#[test]
fn bad_input_is_counted_set_aside_reported_and_in_no_answer() {
    if !has("duckdb") {
        return;
    }
    let [good, all] = [0, 1].map(|_| tempfile::tempdir().unwrap());
    let [good, all] = [good.path(), all.path()];
    for number in 1..=3 {
        [good, all].iter().for_each(|folder| write(folder, &number.to_string(), &device(number, 1000 * number)));
    }
    import(good);

    // The same file by another name, and a later export that overlaps with an earlier one.
    write(all, "1-again", &device(1, 1000));
    write(all, "2-later", &export(2, &[start("b"), boot(2000)]));
    // Rows from before the clock was set: the rest of the file is used.
    let undated = [("\"at_s\":1767229200", "\"at_s\":7"), ("\"row\":", "\"row\":10")];
    write(all, "3-undated", &altered(&device(3, WRONG_MS), &undated));
    // It is imported before the file in which it is of another model: neither can be believed then.
    write(all, "4", &device(4, WRONG_MS));
    let mut kinds = BTreeMap::new();
    for (name, text, kind) in bad() {
        write(all, &format!("9-{name}"), &text);
        *kinds.entry(kind).or_insert(0) += 1;
    }
    let summary = import(all);
    assert_eq!(summary["set_aside"], serde_json::json!(kinds), "{summary}");
    let counted =
        ["files", "imported", "known", "known_rows", "undated_rows"].map(|key| summary[key].as_u64().unwrap());
    assert_eq!(counted, [7 + bad().len() as u64, 6, 1, 1, 1], "{summary}");
    assert_eq!(summary["total"]["doubted"], serde_json::json!([4]), "{summary}");

    // A copy of each, and its reason.
    let aside = tree(&all.join("fleet/set-aside"));
    let reasons: Vec<Value> = aside
        .values()
        .filter_map(|bytes| serde_json::from_slice(bytes).ok())
        .filter(|it: &Value| it["kind"].is_string())
        .collect();
    for (name, text, kind) in bad() {
        assert!(aside.values().any(|bytes| bytes == text.as_bytes()), "a copy of {name}");
        let file = format!("exports/9-{name}");
        let reason = reasons.iter().find(|reason| reason["file"] == file.as_str()).unwrap_or_else(|| panic!("{file}"));
        assert!(reason["kind"] == kind && reason["reason"].as_str().is_some_and(|it| !it.is_empty()), "{reason}");
    }
    assert!(reasons.iter().any(|reason| reason["kind"] == "undated rows"), "{reasons:?}");

    // The hour of 3-undated is a fourth one of device 3, and of no other figure than its hours.
    let [expected, found] = [good, all].map(|folder| report(folder)["answers"].take());
    for question in ["boots", "regressions", "launch_loss", "switched_on", "claims"] {
        assert_eq!(rows(&found[question]), rows(&expected[question]), "{question}");
    }
    assert_eq!(rows(&found["boots"]).len(), 1, "{found}");
    let hours = |answers: &Value| answers["kills"]["rows"][0]["hours"].as_f64().unwrap();
    assert_eq!((hours(&expected), hours(&found)), (3.0, 4.0), "{found}");
    let page = fs::read_to_string(all.join("fleet.html")).unwrap();
    for (kind, count) in &kinds {
        assert!(page.contains(&format!("{kind}: {count}")), "{kind}");
    }
    assert!(page.contains("The rows of 1 of them are in no answer"), "the device that contradicts itself");

    let before = tree(&all.join("fleet"));
    let again = import(all);
    assert_eq!((&again["set_aside"], &again["rows"]), (&summary["set_aside"], &Value::from(0)), "{again}");
    assert_eq!(tree(&all.join("fleet")), before, "the same files again change nothing");
}
