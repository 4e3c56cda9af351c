//! Recordings of a real kernel: a cause that is made is found, and nothing is left, however the recorder ends.

mod causes;

use std::time::Duration;

use serde_json::Value;

use super::steps::Report;
use super::{job, static_brisk};

fn report(steps: &[&str]) -> Option<Report> {
    let mut job = job(static_brisk()?, "debian-6.1", &[&["sh", "/trace.sh"], steps].concat());
    job.scenario.modules.clear();
    job.scenario.guest.self_check = false;
    Some(Report::of(job, "/trace.sh", include_str!("trace.sh"), Duration::from_secs(600)))
}

/// The nanoseconds of the window's parts for which `is_wanted` is true.
fn sum(explained: &Value, is_wanted: impl Fn(&Value) -> bool) -> f64 {
    let parts = explained["windows"][0]["parts"].as_array().unwrap_or_else(|| panic!("no window: {explained:#}"));
    parts.iter().filter(|part| is_wanted(part)).map(|part| part["ns"].as_f64().unwrap()).sum()
}

fn is_near(found: f64, expected: f64) -> bool {
    (found / expected - 1.0).abs() <= 0.05
}

/// What placement would have gained is estimated within a quarter of what a hog of its lower priority costs less.
fn assert_predicts(report: &Report, waited: f64) {
    let diagnosed = report.json("diagnosed");
    let explained = &diagnosed["explained"];
    assert_eq!(explained["windows"][0]["thread"], "victim", "{diagnosed:#}");
    let waits = sum(explained, |part| part["cause"] == "runnable" && part["subject"] == "hog");
    assert!((waits / waited - 1.0).abs() <= 0.25, "the second launch is like the first: {waits} and {waited}");
    let here = diagnosed["here"].as_array().unwrap();
    let placement = here.iter().find(|it| it["mechanism"] == "placement").unwrap();
    let predicted = placement["removed_ns"].as_f64().unwrap();
    let gained = waits - report.one("deprioritised").split(' ').nth(1).unwrap().parse::<f64>().unwrap();
    println!("placement: {predicted} ns predicted, {gained} ns gained");
    assert!((predicted / gained - 1.0).abs() <= 0.25, "{predicted} and {gained}: {diagnosed:#}");
    let lookup = here.iter().find(|it| it["mechanism"] == "lookup").unwrap();
    assert_eq!(
        (&lookup["removed_ns"], &lookup["support"]["state"]),
        (&Value::Null, &"unsupported".into()),
        "{lookup:#}"
    );
}

/// The kernel's own account of the thread, in its schedstat, is the truth.
// Verifies TRACE-2, TRACE-6, TRACE-9, TRACE-10.
#[test]
fn a_hog_is_found_by_its_name_and_its_true_time() {
    let Some(report) = report(&["cause"]) else { return };
    let times: Vec<f64> = report.one("victim").split(' ').map(|number| number.parse().unwrap()).collect();
    let [ran, waited] = times[..] else { panic!("{report:#?}") };
    assert!(ran > 1e8 && waited > 1e8, "both are long enough to be compared: {ran} {waited}");
    let (record, explained) = (report.json("record"), report.json("explained"));
    assert_eq!((&record["clock"], &record["lost_events"]), (&"boot".into(), &0.into()), "{record:#}");
    let behind_hog = sum(&explained, |part| part["cause"] == "runnable" && part["subject"] == "hog");
    assert!(is_near(behind_hog, waited), "{behind_hog} and {waited}: {explained:#}");
    let running = sum(&explained, |part| part["cause"] == "running");
    assert!(is_near(running, ran), "{running} and {ran}: {explained:#}");
    assert_eq!(explained["trace"]["format"], "trace-cmd v6");
    assert_eq!(report.one("cause.left"), "");
    assert_predicts(&report, waited);
}

/// The recorder ends by itself, with the launch that was named and not the one before it; and not while that waits for a lock.
// Verifies TRACE-6, TRACE-10.
#[test]
fn an_awaited_launch_ends_the_recording_and_is_explained() {
    let Some(report) = report(&["launches"]) else { return };
    let all = report.all("launches.explained");
    for (name, text) in ["long", "locked"].iter().zip(&all) {
        let explained: Value = serde_json::from_str(text).unwrap();
        let window = &explained["explained"]["windows"][0];
        assert_eq!(window["thread"], *name, "{explained:#}");
        assert!(window["to_ns"].as_u64().unwrap() - window["from_ns"].as_u64().unwrap() > 200_000_000, "{explained:#}");
        assert_eq!(explained["recording"]["is_full"], false, "{explained:#}");
    }
    let locked: Value = serde_json::from_str(all[1]).unwrap();
    let is_behind_holder = |part: &Value| part["on_behalf"]["wait"] == "lock" && part["on_behalf"]["of"] == "holder";
    let waited = sum(&locked["explained"], is_behind_holder);
    println!("locked: {waited} ns for the lock");
    assert!(waited > 2e8, "the wait is long enough to look like an end: {locked:#}");
    assert!(report.all("launches.left").iter().all(|left| left.is_empty()), "{report:#?}");
}

// Verifies TRACE-6, TRACE-7.
#[test]
fn nothing_is_left_however_a_recorder_ends() {
    let Some(report) = report(&["killed"]) else { return };
    assert_eq!(report.one("killed.instances"), "2", "one has the events, one tells which programs begin");
    let restored = report.one("killed.restore");
    assert!(restored.starts_with("removed   /sys/kernel/tracing/instances/brisk-trace-"), "{restored}");
    for left in ["killed.left", "next.left", "ended.left"] {
        assert_eq!(report.one(left), "", "{left}");
    }
    assert_eq!(report.one("ended.exit"), "0");
    let settings = report.all("settings");
    assert!(settings[0].contains("nop") && settings.iter().all(|it| *it == settings[0]), "{settings:?}");

    let explained = report.json("killed.explained");
    let missing = explained["trace"]["missing"].to_string();
    assert!(missing.contains("the recording did not end properly"), "{missing}");
    // The hog ran nearly always, and the recorder had recorded for a second.
    let running = sum(&explained, |part| part["cause"] == "running");
    assert!(running > 0.8e9 && is_near(running, sum(&explained, |_| true)), "{running}: {explained:#}");
}

// Verifies TRACE-6.
#[test]
fn a_recording_that_is_refused_tells_why() {
    let Some(report) = report(&["refused"]) else { return };
    for (name, expected) in [
        ("refused.folder", "2 brisk: cannot write /none/trace.dat: No such file or directory"),
        ("refused.space", "2 brisk: cannot write /small/trace.dat: No space left on device"),
        ("refused.command", "2 brisk: cannot run /none: No such file or directory"),
        ("refused.tracefs", "2 brisk: there is no tracefs at /sys/kernel/tracing: mount it"),
    ] {
        assert!(report.one(name).starts_with(expected), "{name}: {report:#?}");
    }
    assert_eq!(report.one("refused.left"), "");
    let explained = report.one("refused.explained");
    assert!(explained.contains("the recording did not end properly"), "it can be read: {explained}");
}

// Verifies TRACE-6.
#[test]
fn a_recording_uses_less_memory_where_it_is_scarce() {
    let Some(report) = report(&["scarce"]) else { return };
    let record = report.json("scarce.record");
    let buffer_kib = record["buffer_kib"].as_u64().unwrap();
    assert!([32_768, 16_384].contains(&buffer_kib) && record["events"].as_u64() > Some(0), "{record:#}");
    assert_eq!((report.one("scarce.exit"), report.one("scarce.left")), ("0", ""), "{report:#?}");
}

// Verifies TRACE-6.
#[test]
fn a_launch_takes_at_most_2_percent_longer_when_recorded() {
    let Some(report) = report(&["cost"]) else { return };
    let median = |name: &str| {
        let launch_ms = |line: &&str| line.split(' ').nth(1).unwrap().parse::<f64>().unwrap();
        let mut times: Vec<f64> = report.all(name).iter().map(launch_ms).collect();
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    let (plain, recorded) = (median("cost.plain"), median("cost.recorded"));
    println!("{plain} ms, recorded {recorded} ms");
    assert!(recorded <= plain * 1.02, "{plain} ms, recorded {recorded} ms: {report:#?}");
}
