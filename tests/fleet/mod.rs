//! `brisk fleet` with the real DuckDB and the real Spark, on simulated fleets of which the truth is known.

mod bad_input;
mod comparison;
mod costs;

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use brisk::fleet::duckdb::DuckDb;
use brisk::fleet::question::Question;
use serde_json::Value;

const ASK_SPARK: &str = include_str!("ask_spark.py");
const PROOF: &str = include_str!("../fixtures/proof.json");

fn brisk(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_brisk")).args(arguments).current_dir(folder).output().unwrap()
}

/// What a successful run printed.
fn said(folder: &Path, arguments: &[&str]) -> String {
    let output = brisk(folder, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Whether Python has `module`; says what to do where it has not.
fn has(module: &str) -> bool {
    let found = Command::new("python3").args(["-c", &format!("import {module}")]).output();
    let is_there = found.is_ok_and(|output| output.status.success());
    if !is_there {
        eprintln!("skipped: python3 has no module {module}; ./dev test installs it");
    }
    is_there
}

/// All answers about the data set `fleet` in `folder`.
fn report(folder: &Path) -> Value {
    serde_json::from_str(&said(folder, &["fleet", "report", "fleet", "--json", "--quiet"])).unwrap()
}

// Verifies FLEET-6.
#[test]
fn a_planted_regression_is_found_with_its_size() {
    if !has("duckdb") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let plan = "fleet simulate --devices 300 --days 12 --to fleet --slower-build 2 --model board-a --percent 6 --quiet";
    said(folder, &plan.split(' ').collect::<Vec<_>>());
    let report = report(folder);
    let first = &report["answers"]["regressions"]["rows"][0];
    assert_eq!(
        ["metric", "model", "build", "previous"].map(|key| &first[key]),
        ["launch", "board-a", "build-002", "build-001"]
    );
    let [low, high] = ["low_percent", "high_percent"].map(|key| first[key].as_f64().unwrap());
    assert!(low > 3.0 && low < 6.0 && high > 6.0 && high < 10.0, "6 % is not in [{low}, {high}], or that is too wide");
    // The next build is faster again; nothing else has changed.
    let findings: Vec<&str> = report["findings"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
    let of = |words: &str| findings.iter().filter(|finding| finding.contains(words)).count();
    assert_eq!((of("% slower than"), of("% faster than")), (1, 1), "{findings:?}");
    assert!(findings[0].starts_with("Build build-002 starts applications"), "{findings:?}");
    let page = std::fs::read_to_string(folder.join("fleet.html")).unwrap();
    assert!(
        page.contains(" comparisons a build is slower than the one before it on its model")
            && page.contains("<svg class=\"plot wide\"")
    );
}

// Verifies FLEET-6.
#[test]
fn twenty_builds_without_a_regression_raise_no_alarm() {
    if !has("duckdb") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    said(
        folder.path(),
        &["fleet", "simulate", "--devices", "150", "--days", "42", "--builds", "21", "--to", "fleet", "-q"],
    );
    let report = report(folder.path());
    assert!(report["headline"].as_str().unwrap().starts_with("No build is slower than the one before it"), "{report}");
    let rows = report["answers"]["regressions"]["rows"].as_array().unwrap();
    // Each model, launches and boots, and a twentieth of the intervals may miss zero.
    assert!(rows.len() > 6 * 20, "{}", rows.len());
    let misses =
        |row: &&Value| row["low_percent"].as_f64().unwrap() > 0.0 || row["high_percent"].as_f64().unwrap() < 0.0;
    let missed = rows.iter().filter(misses).count();
    assert!(missed * 100 < rows.len() * 10, "{missed} of {} intervals miss the truth", rows.len());
}

/// An export of a device with a row an hour, each given by its keys from `kind` on.
fn export(device: u64, rows: &[String]) -> String {
    let first_s = 1_767_225_600;
    let exported_at_s = first_s + 3600 * rows.len();
    let mut text = format!(
        r#"{{"brisk_telemetry":1,"device":"{device:016x}","model":"m","build":"b","kernel":"6.1.0","architecture":"x86_64","memory_kib":2048,"cpus":2,"governor":"","brisk":"0.1.0","exported_at_s":{exported_at_s}}}
"#
    );
    for (row, keys) in rows.iter().enumerate() {
        let at_s = first_s + 3600 * row;
        text += &format!(r#"{{"row":{row},"at_s":{at_s},"boot":"",{keys}}}"#);
        text.push('\n');
    }
    brisk::fleet::export::seal(&mut text, rows.len() as u64);
    text
}

fn start(build: &str) -> String {
    format!(r#""kind":"start","brisk":"0.1.0","build":"{build}","kernel":"6.1.0""#)
}

fn boot(length_ms: u64) -> String {
    format!(r#""kind":"boot","length_ms":{length_ms},"kernel_ms":null,"performance_held":null"#)
}

/// Writes the exports of devices 1, 2 and so on to `folder`, and imports them into its data set `fleet`.
fn import(folder: &Path, devices: &[Vec<String>]) {
    std::fs::create_dir(folder.join("exports")).unwrap();
    for (device, rows) in (1..).zip(devices) {
        std::fs::write(folder.join(format!("exports/{device}")), export(device, rows)).unwrap();
    }
    said(folder, &["fleet", "import", "exports", "--to", "fleet"]);
}

// Verifies FLEET-5.
#[test]
fn the_answer_to_a_long_question_is_not_mixed_with_its_progress() {
    if !has("duckdb") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // After a millisecond, as other questions after two seconds.
    let sql =
        "SET progress_bar_time = 1; SELECT count(*) AS found FROM range(20000000) AS numbers(i) WHERE sin(i) > 0.3";
    let answers = DuckDb::find().unwrap().ask(folder.path(), &[], &[Question { name: "long", sql }]).unwrap();
    assert!(answers["long"].rows[0]["found"].as_u64() > Some(1_000_000), "{answers:?}");
}

// Verifies FLEET-5.
#[test]
fn a_device_with_many_rows_counts_once() {
    if !has("duckdb") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let device = |boots: usize, length_ms| [vec![start("b")], vec![boot(length_ms); boots]].concat();
    import(folder.path(), &[device(1, 1000), device(1, 2000), device(20, 3000)]);
    // Python takes no module from the data set, which may be another user's.
    std::fs::write(folder.path().join("fleet/json.py"), "raise SystemExit(9)").unwrap();
    let answer = &report(folder.path())["answers"]["boots"]["rows"][0];
    assert_eq!((&answer["devices"], &answer["boots"]), (&3.into(), &22.into()), "{answer}");
    let [mean, low, high] = ["length_ms", "low_ms", "high_ms"].map(|key| answer[key].as_f64().unwrap());
    assert!((mean - 2000.0).abs() < 1e-9, "{answer}");
    // Student's quantile for two degrees of freedom is 4.303, and the mean's standard error 1000 / sqrt(3).
    let half = 4.303 * 1000.0 / 3f64.sqrt();
    assert!((high - mean - half).abs() < half / 100.0 && (mean - low - half).abs() < half / 100.0, "{answer}");
}

/// Imports proofs of three devices of a model, which measured 4, 5 and 6 % for the first claim; one has an earlier proof, too.
fn import_proofs(folder: &Path) {
    for (device, day, measured) in [("a", 2, "4.0"), ("a", 1, "9.5705"), ("b", 1, "5.0"), ("c", 1, "6.0")] {
        let proof = PROOF.replace("2026-01-01T", &format!("2026-01-0{day}T")).replace("9.5705", measured);
        std::fs::write(folder.join("proof.json"), proof).unwrap();
        said(folder, &["fleet", "import", "proof.json", "--to", "fleet", "--device", device, "--model", "virtual"]);
    }
}

// Verifies FLEET-5.
#[test]
fn a_claim_counts_once_for_each_device_by_its_latest_proof() {
    if !has("duckdb") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    import_proofs(folder.path());
    let report = report(folder.path());
    let rows = report["answers"]["claims"]["rows"].as_array().unwrap();
    assert_eq!((rows.len(), &rows[0]["not_shown"]), (14, &3.into()), "what is refuted comes first: {rows:?}");
    let answer = rows.iter().find(|row| row["claim"] == "launch.paper-200").unwrap();
    let counts = ["devices", "shown", "not_shown"].map(|key| answer[key].as_u64().unwrap());
    assert_eq!((counts, &answer["model"], &answer["build"]), ([3, 3, 0], &"virtual".into(), &"unknown".into()));
    let [mean, low, high] = ["measured", "low", "high"].map(|key| answer[key].as_f64().unwrap());
    // Student's quantile for two degrees of freedom is 4.303, and the mean's standard error 1 / sqrt(3).
    let half = 4.303 / 3f64.sqrt();
    let is_right = |end: f64| ((end - mean).abs() - half).abs() < half / 100.0;
    assert!((mean - 5.0).abs() < 1e-9 && low < mean && mean < high && is_right(low) && is_right(high), "{answer}");
}

// Verifies FLEET-6.
#[test]
fn builds_that_cannot_be_compared_do_not_part_two_that_can() {
    if !has("duckdb") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let devices: Vec<Vec<String>> = (1..=5)
        .map(|device| {
            let (before, after) = (1000 * device, 1100 * device + device * device);
            // One device ran a build that no other did, the others one that they do not know.
            let between = if device == 5 { "test" } else { "" };
            vec![start("b1"), boot(before), start(between), boot(before), start("b2"), boot(after)]
        })
        .collect();
    import(folder.path(), &devices);
    let answers = &report(folder.path())["answers"];
    assert_eq!(answers["boots"]["rows"].as_array().unwrap().len(), 4, "each build has its length: {answers}");
    let changes = answers["regressions"]["rows"].as_array().unwrap();
    assert_eq!(changes.len(), 1, "{changes:?}");
    assert_eq!(["build", "previous"].map(|key| &changes[0][key]), ["b2", "b1"]);
    let change = changes[0]["change_percent"].as_f64().unwrap();
    assert!(changes[0]["devices"] == 5 && (change - 10.3).abs() < 0.1, "{changes:?}");
}

// Verifies FLEET-4.
#[test]
fn an_import_that_is_killed_at_any_moment_neither_loses_nor_repeats_rows() {
    const ROUNDS: u64 = 24;
    const DEVICES: u64 = 12;
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::create_dir(folder.join("exports")).unwrap();
    let arguments = ["fleet", "import", "exports", "--to", "fleet", "--json"];
    for round in 0..ROUNDS {
        for device in round * DEVICES..(round + 1) * DEVICES {
            let rows = [vec![start("b")], vec![boot(1000); 5]].concat();
            std::fs::write(folder.join(format!("exports/{device}")), export(device, &rows)).unwrap();
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_brisk"));
        command.args(arguments).current_dir(folder).stdout(Stdio::null()).stderr(Stdio::null());
        let mut import = command.spawn().unwrap();
        // Later in each round, so that another moment of an import is hit; after it in the last ones.
        std::thread::sleep(Duration::from_millis(2 * round));
        import.kill().unwrap();
        import.wait().unwrap();
    }
    let report: Value = serde_json::from_str(&said(folder, &arguments)).unwrap();
    let (devices, rows) = (ROUNDS * DEVICES, ROUNDS * DEVICES * 5);
    assert_eq!((&report["total"]["devices"], &report["total"]["rows"]), (&devices.into(), &rows.into()), "{report}");
    let files = brisk::fleet::import::files(&[folder.join("fleet/boots")]).unwrap();
    let stored = files.iter().flat_map(|path| brisk::fleet::parquet_file::read(path).unwrap());
    assert_eq!(stored.map(|batch| batch.num_rows() as u64).sum::<u64>(), rows);
}

// Verifies FLEET-5.
#[test]
fn the_kills_of_two_devices_have_no_interval() {
    if !has("duckdb") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let hour = r#""kind":"hour","period_s":3600,"uptime_s":3600,"memory_some_ms":null,"memory_full_ms":null,"cpu_some_ms":null,"io_some_ms":null,"lookup_hits":null,"lookup_misses":null,"cpu_ms":1,"resident_kib":1,"dropped_rows":0"#;
    let kill = r#""kind":"kill","application":"00000000000000cc","name":null,"freed_kib":-7,"oom_score_adj":900,"headroom_kib":9"#;
    let device = |kills: usize| [vec![start("b"), hour.to_owned()], vec![kill.to_owned(); kills]].concat();
    import(folder.path(), &[device(1), device(3)]);
    let answer = &report(folder.path())["answers"]["kills"]["rows"][0];
    assert_eq!(["low", "high"].map(|key| &answer[key]), [&Value::Null; 2], "{answer}");
    assert_eq!((&answer["kills_in_100_hours"], &answer["freed_kib"]), (&200.0.into(), &(-7.0).into()), "{answer}");
}

/// The answers of an engine as text: numbers to nine digits, because sums are added in another order.
fn rows(answer: &Value) -> Vec<String> {
    let cell = |value: &Value| match value.as_f64() {
        Some(number) => format!("{number:.9e}"),
        None => value.to_string(),
    };
    let row =
        |row: &Value| row.as_object().unwrap().iter().map(|(key, value)| format!("{key}={} ", cell(value))).collect();
    answer["rows"].as_array().unwrap().iter().map(row).collect()
}

// Verifies FLEET-5.
#[test]
#[ignore = "deep: Spark is a download of 450 MB"]
fn spark_answers_as_duckdb_does() {
    if !has("duckdb") || !has("pyspark") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let plan = "fleet simulate --devices 90 --days 4 --builds 2 --to fleet --slower-build 2 --model kiosk-1 --percent 8 --quiet";
    said(folder, &plan.split(' ').collect::<Vec<_>>());
    import_proofs(folder);
    // With a device that contradicts itself, the views are others.
    let before = [start("b"), boot(1_000_000)];
    let after = bad_input::altered(&export(1, &before), &[("model\":\"m\"", "model\":\"n\"")]);
    import(folder, &[before.to_vec()]);
    std::fs::write(folder.join("exports/2"), after).unwrap();
    said(folder, &["fleet", "import", "exports", "--to", "fleet"]);
    let report = report(folder);
    std::fs::write(folder.join("ask.py"), ASK_SPARK).unwrap();
    for question in ["regressions", "boots", "launch_loss", "kills", "switched_on", "claims"] {
        let script = said(folder, &["fleet", "sql", "fleet", question, "--engine", "spark"]);
        std::fs::write(folder.join(format!("{question}.sql")), script).unwrap();
    }
    let output = Command::new("python3").arg("ask.py").current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let spark: Value = serde_json::from_slice(&output.stdout).unwrap();
    for (question, answer) in report["answers"].as_object().unwrap() {
        let (ours, theirs) = (rows(answer), rows(&spark[question]));
        assert!(!ours.is_empty() && ours == theirs, "{question}: DuckDB {ours:#?}, Spark {theirs:#?}");
    }
}

/// A folder of programs without any DuckDB.
#[test]
fn without_duckdb_the_command_that_installs_it_is_named() {
    let folder = tempfile::tempdir().unwrap();
    said(
        folder.path(),
        &["fleet", "simulate", "--devices", "3", "--days", "2", "--builds", "1", "--to", "fleet", "-q"],
    );
    let mut command = Command::new(env!("CARGO_BIN_EXE_brisk"));
    let output =
        command.args(["fleet", "report", "fleet"]).current_dir(folder.path()).env("PATH", "/nowhere").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(said.contains("python3 -m venv ~/duckdb && ~/duckdb/bin/pip install duckdb"), "{said}");
    assert!(!folder.path().join("fleet.html").exists());
}
