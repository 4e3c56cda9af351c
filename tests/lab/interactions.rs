//! Mechanisms that act at the same time, on the same processes and CPUs.

use std::time::Duration;

use brisk::lab::Scenario;
use serde_json::Value;

use super::steps::Report;
use super::{job, static_brisk};

/// What one step of interactions.sh said on a device with all that the mechanisms use, while lookups go on. Afterwards everything
/// is as it was.
fn played(step: &str, change: impl FnOnce(&mut Scenario)) -> Option<Report> {
    let mut job = job(static_brisk()?, "together-6.1", &["sh", "/interactions.sh", step]);
    job.scenario.guest.self_check = false;
    change(&mut job.scenario);
    let script = include_str!("interactions.sh");
    let report = Report::of_whole_state(job, "/interactions.sh", script, Duration::from_secs(600));
    assert_eq!(report.one(&format!("{step}.cache")), "transparent 64", "{report:#?}");
    let rounds: u32 = report.one("rounds").parse().unwrap();
    // The first one ended before anything began.
    assert!(rounds > 1, "lookups went on: {report:#?}");
    for nothing in ["failed", "errors"] {
        assert_eq!(report.one(nothing), "", "{nothing}: {report:#?}");
    }
    let lines: u32 = report.one("lines").parse().unwrap();
    assert!(lines > 500, "what is compared: {report:#?}");
    let leases = report.json("in_force")["leases"].to_string();
    for held in ["swappiness", "binder_cache"] {
        assert!(leases.contains(held), "{held}: {leases}");
    }
    assert_eq!((report.one("exit"), report.one("same")), ("0", "yes"), "{report:#?}");
    assert_eq!(report.one("left"), "Nothing is left changed.", "{report:#?}");
    Some(report)
}

/// The mechanism `name` in an answer of `brisk status`.
fn mechanism<'a>(status: &'a Value, name: &str) -> &'a Value {
    status["mechanisms"].as_array().unwrap().iter().find(|mechanism| mechanism["name"] == name).unwrap()
}

// Verifies BOOT-2, LOOKUP-6, TOGETHER-3.
#[test]
fn a_daemon_takes_over_when_the_held_boot_has_completed() {
    let Some(report) = played("handover", |_| {}) else { return };
    let status = report.json("handover.held");
    let boot = mechanism(&status, "boot");
    assert_eq!(boot["state"], "active", "{boot}");
    assert!(boot["reason"].as_str().unwrap().contains("holds 1 governors"), "{boot}");
    assert_eq!(report.one("handover.governor"), "performance", "{report:#?}");
    assert_eq!(report.one("handover.after"), "ondemand 100000", "{report:#?}");
    assert_eq!(report.one("handover.launch"), "helped");
}

// Verifies MEMORY-4, PLACE-5, TOGETHER-3.
#[test]
fn a_launch_is_helped_while_a_victim_with_leases_is_killed() {
    // The less memory, the sooner it is short.
    let less = |scenario: &mut Scenario| scenario.kernel.command_line += " memmap=256M$256M";
    let Some(report) = played("pressure", less) else { return };
    assert_ne!(report.one("pressure.leases"), "0", "the victim has some: {report:#?}");
    assert!(report.one("pressure.launch").starts_with("helped with "), "{report:#?}");
    assert_eq!(report.one("pressure.rate"), "10000", "the launch goes on: {report:#?}");
    let kills = report.json("pressure.kills");
    let killed: Vec<_> = kills["kills"].as_array().unwrap().iter().map(|kill| kill["pid"].to_string()).collect();
    assert_eq!(killed, [report.one("pressure.victim")], "{kills}");
    assert_eq!((report.one("pressure.oom"), report.one("pressure.left")), ("0", "0"), "{report:#?}");
    assert_eq!(report.one("pressure.killer"), "free", "placement leaves brisk's own alone: {report:#?}");
}
