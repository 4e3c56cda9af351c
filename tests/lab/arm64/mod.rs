//! The device's program on arm64, with Debian's kernel: the same code as on x86-64, built for the processor of most devices.

use std::time::Duration;

use brisk::lab::{self, LabError};
use serde_json::Value;

use super::job;
use super::steps::Report;
use crate::static_brisk::static_brisk_for_arm64;

// Verifies LAB-3, LAUNCH-1, UNDO-4, LOOKUP-8.
#[test]
fn an_arm64_launch_is_boosted_and_restored_after_sigkill() {
    let Some(binary) = static_brisk_for_arm64() else { return };
    let job = job(binary, "debian-arm64-6.1", &["sh", "/arm64.sh"]);
    // A mirror may have packages for one processor alone.
    if let Err(error @ LabError::Apt { .. }) = lab::prepare(&job.scenario) {
        eprintln!("skipped: {error}");
        return;
    }
    // A guest whose work does not take time proportional to 1/f runs no script.
    assert!(job.scenario.guest.self_check);
    let report = Report::of_launches(job, "/arm64.sh", include_str!("arm64.sh"), Duration::from_secs(300));
    let frequencies = serde_json::json!([200_000, 500_000, 800_000, 1_000_000, 1_200_000]);
    assert_eq!(report.json("describe")["cpufreq"][0]["frequencies_khz"], frequencies, "{report:#?}");
    doctor_is_right(&report);
    assert_eq!(report.one("launch.before"), "100000");
    let status = report.json("launch.status");
    let lease = &status["leases"][0];
    assert!(lease["target"].to_string().contains("ondemand/sampling_rate"), "{status}");
    assert_eq!((&lease["original"], &lease["value"]), (&"100000".into(), &"10000".into()), "{status}");
    assert_eq!(status["metrics"]["failures"], 0, "{status}");
    assert_eq!(report.one("launch.restored"), "100000");
    assert_eq!(report.one("launch.left"), "Nothing is left changed.");
    lookups_are_counted(&report);
}

fn doctor_is_right(report: &Report) {
    assert_eq!(report.one("machine"), "aarch64");
    let doctor = report.json("doctor");
    let device = &doctor["device"];
    assert!(device["kernel"].as_str().unwrap().ends_with("-arm64"), "{doctor}");
    assert_eq!(device["faults"], Value::Array(Vec::new()), "{doctor}");
    assert_eq!(device["policies"][0]["governor"], "ondemand", "{doctor}");
    let has = |name: &str| {
        let interfaces = device["interfaces"].as_array().unwrap();
        interfaces.iter().find(|it| it["name"] == name).unwrap_or_else(|| panic!("{name}: {doctor}"))["available"]
            .clone()
    };
    for (name, expected) in [("process events", true), ("energy", true), ("utilisation clamps", false)] {
        assert_eq!(has(name), expected, "{name}: {doctor}");
    }
    let mechanisms = doctor["mechanisms"].as_array().unwrap();
    let launch = mechanisms.iter().find(|it| it["name"] == "launch").unwrap();
    assert_eq!(launch["state"], "available", "{doctor}");
}

/// Time is counted in instructions there as well: but for those that a timer interrupts, every lookup takes as long.
fn lookups_are_counted(report: &Report) {
    let lookup = report.json("lookup");
    assert_eq!(lookup["unit"], "instructions", "{lookup}");
    let [mean, median] = ["mean", "p50"].map(|name| lookup["call"][name].as_f64().unwrap());
    assert!(median > 10_000.0 && (mean / median - 1.0).abs() < 0.05, "{lookup}");
}
