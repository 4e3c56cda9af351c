//! `brisk trace explain` and `compare` from outside: their JSON adds up, and damaged files are answered with what is missing.

use std::fs;
use std::io::Cursor;
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
    assert!(memory["because"].as_str().unwrap().contains("6.00 ms went to reclaim"), "{memory}");
    let none = report(&example(), &["--process", "browser", "--with", "none"]);
    assert_eq!(none["windows"][0]["what_if"], Value::Null);
}

// Verifies TRACE-1, TRACE-2.
#[test]
fn a_trace_for_perfetto_is_explained_as_the_original_is() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.pftrace");
    let mut command = Command::new(env!("CARGO_BIN_EXE_brisk"));
    let output = command.args(["trace", "convert", "--json"]).arg(example()).arg("-o").arg(&file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let converted: Value = serde_json::from_slice(&output.stdout).unwrap();
    let of_text = report(&example(), &["--process", "browser"]);
    assert_eq!(converted["events"], of_text["trace"]["events"]);
    assert_eq!(converted["bytes"], fs::metadata(&file).unwrap().len());
    assert_eq!(report(&file, &["--process", "browser"])["windows"], of_text["windows"]);
    let nowhere = folder.path().join("none/a.pftrace");
    let mut command = Command::new(env!("CARGO_BIN_EXE_brisk"));
    let output = command.args(["trace", "convert"]).arg(example()).arg("-o").arg(&nowhere).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.code() == Some(2) && said.contains("cannot write ") && said.contains("none/a.pftrace"),
        "{said}"
    );
}

fn pixels(png: &[u8]) -> Vec<[u8; 3]> {
    let mut reader = png::Decoder::new(Cursor::new(png)).read_info().unwrap();
    let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
    reader.next_frame(&mut bytes).unwrap();
    bytes.chunks_exact(3).map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect()
}

// Verifies TRACE-5.
#[test]
fn the_waterfall_is_painted_in_light_colours() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.png");
    let output = explain(&example(), &["--process", "browser", "--png", file.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let pixels = pixels(&fs::read(&file).unwrap());
    let count = |colour: [u8; 3]| pixels.iter().filter(|pixel| **pixel == colour).count();
    assert!(count([0xff, 0xff, 0xff]) > pixels.len() / 2, "the ground is white");
    // Each pixel is a quarter of a unit of the drawing: 24 of 150 ms behind another thread, of 740 by 18 units.
    let of_wait = count([0xd2, 0x48, 0x3f]) as f64;
    let whole = 740.0 * 18.0 * 4.0;
    assert!((0.19..0.22).contains(&(of_wait / whole)), "{of_wait} of {whole}: 24, 6 and 0.5 ms of 150 ms");
    assert!(count([0x1d, 0x21, 0x25]) > 2_000, "there is text");
}

/// The text of this many events: two CPUs, on which an application and a hundred other threads wake each other.
fn long_trace(events: u32) -> String {
    let mut text = String::new();
    for number in 0..events / 4 {
        let (cpu, us) = (number % 2, u64::from(number) * 40);
        let other = 100 + number / 2 % 100;
        let (app, other) = if cpu == 0 { (7, other) } else { (8, other + 100) };
        let mut line = |us: u64, tid: u32, event: String| {
            text += &format!("t{tid}-{tid} [{cpu:03}] .... {}.{:06}: {event}\n", us / 1_000_000, us % 1_000_000);
        };
        let switch = |from: u32, to: u32| {
            format!(
                "sched_switch: prev_comm=t{from} prev_pid={from} prev_prio=120 prev_state=S ==> next_comm=t{to} next_pid={to} next_prio=120"
            )
        };
        line(us, app, format!("sched_waking: comm=t{other} pid={other} prio=120 target_cpu={cpu:03}"));
        line(us + 5, app, switch(app, other));
        line(us + 20, other, format!("sched_waking: comm=t{app} pid={app} prio=120 target_cpu={cpu:03}"));
        line(us + 25, other, switch(other, app));
    }
    text
}

/// Two million events in 300 MB: 150 bytes an event, and what the program takes without any.
// Verifies TRACE-2.
#[test]
fn a_long_trace_takes_150_bytes_an_event() {
    const EVENTS: u32 = 120_000;
    const PROGRAM_BYTES: u32 = 16 << 20;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("long.txt");
    fs::write(&file, long_trace(EVENTS)).unwrap();
    let mut brisk = Command::new("prlimit");
    brisk.arg(format!("--data={}", EVENTS * 150 + PROGRAM_BYTES)).arg(env!("CARGO_BIN_EXE_brisk"));
    let output = brisk.args(["trace", "explain"]).arg(&file).args(["--process", "t7"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("until woken by"), "{output:?}");
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
