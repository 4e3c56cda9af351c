//! Both sensors of a real kernel report the same threads; where one is missing, the other is used and the reason is reported.

use std::time::Duration;

use serde_json::Value;

use super::steps::Report;
use super::{job_in_turn, static_brisk};

/// The thread `tid` in `snapshot`.
fn thread<'snapshot>(snapshot: &'snapshot Value, tid: &str) -> &'snapshot Value {
    let threads = snapshot["threads"].as_array().unwrap();
    let tid: u64 = tid.parse().unwrap();
    threads.iter().find(|thread| thread["tid"] == tid).unwrap_or_else(|| panic!("{tid}: {snapshot:#}"))
}

/// The number of all threads, awake or asleep.
fn population(snapshot: &Value) -> u64 {
    snapshot["threads"].as_array().unwrap().len() as u64 + snapshot["asleep"].as_u64().unwrap()
}

fn sensors_agree(scenario: &str) {
    let Some(binary) = static_brisk() else { return };
    let mut job = job_in_turn(binary, scenario, &["sh", "/sensing.sh"]);
    job.scenario.modules.clear();
    job.scenario.guest.self_check = false;
    let report = Report::of(job, "/sensing.sh", include_str!("sensing.sh"), Duration::from_secs(600));
    let [files, tasks, auto] = ["schedstat", "bpf", "auto"].map(|name| report.json(name));
    let reason = |snapshot: &Value| snapshot["support"]["reason"].as_str().unwrap().to_owned();
    assert!(!reason(&files).contains("threads are seen"), "{report:#?}");
    for snapshot in [&tasks, &auto] {
        assert!(reason(snapshot).ends_with("; threads are seen by BPF"), "{report:#?}");
        let [one, other] = [&files, snapshot].map(population);
        // The napper's sleeps are separate processes, of which a sample contains one or none.
        assert!(one.abs_diff(other) <= 2, "{one} and {other} threads: {report:#?}");
    }
    let hog = report.one("hog");
    let [by_files, by_tasks] = [&files, &tasks].map(|snapshot| thread(snapshot, hog));
    for what in ["tid", "pid", "command", "class"] {
        assert_eq!(by_files[what], by_tasks[what], "{report:#?}");
    }
    for (what, difference) in [("demand", 0.1), ("wait", 0.3)] {
        let [one, other] = [by_files, by_tasks].map(|thread| thread[what].as_f64().unwrap());
        assert!((one - other).abs() <= difference, "{what}: {one} and {other}: {report:#?}");
    }
    let hidden = "/sys/kernel/btf/vmlinux cannot be read";
    let own = "this is a PID namespace of its own";
    for (name, why, has_advice) in
        [("hidden.bpf", hidden, true), ("hidden.auto", hidden, false), ("container", own, true)]
    {
        let snapshot = report.json(name);
        let told = format!("threads are seen by schedstat and not by BPF: {why}");
        assert!(reason(&snapshot).contains(&told), "{report:#?}");
        assert_eq!(!snapshot["support"]["advice"].as_str().unwrap().is_empty(), has_advice, "{report:#?}");
        assert_eq!(thread(&snapshot, hog)["class"], by_files["class"], "{report:#?}");
    }
}

// Verifies PLACE-1.
#[test]
fn both_sensors_see_the_same_threads_and_report_what_is_missing() {
    sensors_agree("debian-6.1-parallel");
}

// Verifies PLACE-1.
#[test]
#[ignore = "a newer kernel's packages: ./dev test --deep"]
fn both_sensors_see_the_same_threads_on_a_newer_kernel() {
    sensors_agree("debian-6.12");
}
