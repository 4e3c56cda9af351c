//! Mechanisms that act at the same time, on the same processes and CPUs.

use std::time::Duration;

use brisk::lab::Scenario;
use serde_json::Value;

use super::steps::Report;
use super::{job_in_turn, static_brisk};

/// Runs one step of interactions.sh in a scenario with everything that the mechanisms use, with `actuator` for launches, while
/// lookups continue. Checks that everything is restored, and that brisk's log has only complaints that contain `expected`.
fn played(
    (step, scenario): (&str, &str),
    actuator: &str,
    expected: Option<&str>,
    change: impl FnOnce(&mut Scenario),
) -> Option<Report> {
    let mut job = job_in_turn(static_brisk()?, scenario, &["sh", "/interactions.sh", step, actuator]);
    job.scenario.guest.self_check = false;
    change(&mut job.scenario);
    let script = include_str!("interactions.sh");
    let report = Report::of_whole_state(job, "/interactions.sh", script, Duration::from_secs(1200));
    assert_eq!(report.one(&format!("{step}.cache")), "transparent 64", "{report:#?}");
    let rounds: u32 = report.one("rounds").parse().unwrap();
    // The first round ended before a mechanism acted.
    assert!(rounds > 1, "lookups continued: {report:#?}");
    assert_eq!(report.one("failed"), "", "{report:#?}");
    let is_expected = |line: &str| expected.is_some_and(|part| line.contains(part));
    assert_eq!(report.complaints(is_expected), Vec::<&str>::new(), "{report:#?}");
    let lines: u32 = report.one("lines").parse().unwrap();
    assert!(lines > 500, "the compared state: {report:#?}");
    let leases = report.json("in_force")["leases"].to_string();
    for held in ["swappiness", "binder_cache"] {
        assert!(leases.contains(held), "{held}: {leases}");
    }
    assert_eq!((report.one("exit"), report.one("same")), ("0", "yes"), "{report:#?}");
    assert_eq!(report.one("left"), "Nothing is left changed.", "{report:#?}");
    Some(report)
}

/// The mechanism `name` in the output of `brisk status`.
fn mechanism<'a>(status: &'a Value, name: &str) -> &'a Value {
    status["mechanisms"].as_array().unwrap().iter().find(|mechanism| mechanism["name"] == name).unwrap()
}

// Verifies BOOT-2, LOOKUP-6, TOGETHER-3.
#[test]
fn a_daemon_takes_over_when_the_held_boot_has_completed() {
    let Some(report) = played(("handover", "together-6.1"), "sampling-rate", None, |_| {}) else { return };
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
fn a_launch_is_boosted_while_a_victim_with_leases_is_killed() {
    // Less memory makes it run short sooner.
    let less = |scenario: &mut Scenario| scenario.kernel.command_line += " memmap=320M$192M";
    let Some(report) = played(("pressure", "together-6.1"), "sampling-rate", None, less) else { return };
    assert_ne!(report.one("pressure.leases"), "0", "the victim has leases: {report:#?}");
    assert!(report.one("pressure.launch").starts_with("helped with "), "{report:#?}");
    assert_eq!(report.one("pressure.rate"), "10000", "the launch continues: {report:#?}");
    let kills = report.json("pressure.kills");
    let killed: Vec<_> = kills["kills"].as_array().unwrap().iter().map(|kill| kill["pid"].to_string()).collect();
    assert_eq!(killed, [report.one("pressure.victim")], "{kills}");
    assert_eq!((report.one("pressure.oom"), report.one("pressure.left")), ("0", "0"), "{report:#?}");
    assert_eq!(report.one("pressure.killer"), "free", "placement ignores brisk's own processes: {report:#?}");
}

// Verifies UNDO-6, PLACE-5, LOOKUP-6, TOGETHER-3.
#[test]
fn a_cpu_goes_offline_while_four_mechanisms_hold_leases() {
    // The kernel accepts no value for an offline CPU; its leases are restored when it comes back.
    let busy = "policyN/scaling_min_freq: restore failed, will retry";
    // Its two CPUs have the host's clock: on a busy host one of them may stall for a long time, even during boot.
    let patient = |scenario: &mut Scenario| {
        scenario.kernel.command_line += " nowatchdog rcupdate.rcu_cpu_stall_suppress=1";
    };
    let step = ("unplug", "together-6.1-parallel");
    let Some(report) = played(step, "scaling-min-freq", Some(busy), patient) else { return };
    for moment in ["online", "offline"] {
        let status = report.json(&format!("unplug.{moment}"));
        let leases = status["leases"].to_string();
        let held_by_placement = ["\"group-member\"", "\"priority\""].iter().any(|kind| leases.contains(kind));
        assert!(held_by_placement, "{moment}: {leases}");
        for held in ["policy0/scaling_min_freq", "policy1/scaling_min_freq", "swappiness", "binder_cache"] {
            assert!(leases.contains(held), "{moment}, {held}: {leases}");
        }
    }
    assert_eq!((report.one("unplug.floor"), report.one("unplug.swap")), ("1200000", "1"), "{report:#?}");
}
