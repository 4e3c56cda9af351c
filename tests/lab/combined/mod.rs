//! Every write can be undone, with everything on at once, under load, and however the daemon ends.

use std::time::Duration;

use brisk::lab::Scenario;
use brisk::lab::scenario::CgroupVersion;

use super::arm64::is_unavailable;
use super::steps::Report;
use super::{job_in_turn, static_brisk};
use crate::static_brisk::static_brisk_for_arm64;

/// The packaged units, except for the path of the program in the guest. A killed process is not restarted, so that only
/// the service's own end restores.
const UNITS: [(&str, &str); 4] = [
    ("brisk.service", include_str!("../../../packaging/systemd/brisk.service")),
    ("brisk.service.d/memory.conf", include_str!("../../../packaging/systemd/memory.conf")),
    ("brisk.service.d/placement.conf", include_str!("../../../packaging/systemd/placement.conf")),
    ("brisk.service.d/zz-stays-dead.conf", "[Service]\nRestart=no\nStandardError=append:/run/check/log\n"),
];
/// SIGTERM and SIGINT; SIGKILL of the daemon; of the killer; of the guardian and 0.02 s later of the daemon; of both at once;
/// of all three, and then a start.
const WAYS: [&str; 7] = ["term", "int", "daemon", "killer", "apart0.02", "both", "all"];

/// Gives `scenario` zram, a governor that can be held, and pressure stall information on the command line.
fn device(scenario: &mut Scenario) {
    for other in ["memory-6.1", "debian-6.1"] {
        let modules = Scenario::load(other).unwrap().modules;
        let wanted = ["lz4", "zstd", "zram", "cpufreq_ondemand", "virtual_cpufreq"];
        let known: Vec<String> = scenario.modules.iter().map(|module| module.name.clone()).collect();
        let missing = |name: &String| wanted.contains(&name.as_str()) && !known.contains(name);
        scenario.modules.extend(modules.into_iter().filter(|module| missing(&module.name)));
    }
    scenario.guest.self_check = false;
    scenario.machine.memory_mib = scenario.machine.memory_mib.max(512);
    if !scenario.kernel.command_line.contains("psi=1") {
        scenario.kernel.command_line += " psi=1";
    }
}

/// Ends the daemon in each of `ways` in a guest of `scenario`, with so many sleeping processes.
fn ended(scenario: &str, ways: &[&str], sleepers: &str, change: impl FnOnce(&mut Scenario)) {
    let is_arm64 = scenario.starts_with("debian-arm64");
    let Some(binary) = (if is_arm64 { static_brisk_for_arm64() } else { static_brisk() }) else { return };
    let (manager, rule) = match scenario {
        "systemd-6.1" => ("systemd", "weight"),
        "debian-6.1-parallel" => ("none", "thesis"),
        _ => ("none", "weight"),
    };
    let command = [&["sh", "/combined.sh", manager, sleepers, rule], ways].concat();
    let mut job = job_in_turn(binary, scenario, &command);
    device(&mut job.scenario);
    change(&mut job.scenario);
    if is_arm64 && is_unavailable(&job.scenario) {
        return;
    }
    let report = Report::of_whole_state(job, "/combined.sh", include_str!("combined.sh"), Duration::from_secs(3600));
    let lines: u32 = report.one("lines").parse().unwrap();
    assert!(lines > 500, "the compared state: {report:#?}");
    for way in ways {
        assert_eq!(report.one(way), "same", "{way}: {report:#?}");
        assert_eq!(report.one(&format!("{way}.left")), "Nothing is left changed.", "{report:#?}");
    }
    assert_eq!(report.one("warned"), "0", "write-back is not configured: {report:#?}");
    assert_eq!(report.one("planted"), "1", "a planted warning is counted: {report:#?}");
    if manager == "none" {
        assert_eq!(report.one("replayed"), "0", "the first daemon's recording: {report:#?}");
        for mechanism in ["launch", "placement", "memory"] {
            let decided = report.all("replay").into_iter().find(|line| line.starts_with(mechanism)).unwrap_or_default();
            assert!(decided.ends_with("decisions, all as recorded"), "{mechanism}: {report:#?}");
        }
    }
}

// Verifies UNDO-4.
#[test]
fn all_mechanisms_on_any_end_of_the_daemon_restores_all() {
    ended("debian-6.1", &["term", "both"], "5", |_| {});
}

// Verifies UNDO-4.
#[test]
#[ignore = "minutes: ./dev test --deep"]
fn all_mechanisms_on_any_end_restores_all_with_cgroup_v2() {
    ended("debian-6.1", &WAYS, "300", |_| {});
}

// Verifies UNDO-4.
#[test]
#[ignore = "minutes: ./dev test --deep"]
fn all_mechanisms_on_any_end_restores_all_with_cgroup_v1() {
    ended("debian-6.1", &WAYS, "300", |scenario| scenario.guest.cgroup = CgroupVersion::V1);
}

// Verifies UNDO-4.
#[test]
#[ignore = "minutes: ./dev test --deep"]
fn all_mechanisms_on_any_end_restores_all_on_two_cpus() {
    let ways = [&WAYS[..], &["apart0.05", "apart0.2", "apart1", "apart2"]].concat();
    ended("debian-6.1-parallel", &ways, "300", |_| {});
}

// Verifies UNDO-4.
#[test]
#[ignore = "a newer kernel's packages: ./dev test --deep"]
fn all_mechanisms_on_any_end_restores_all_on_linux_6_12() {
    ended("debian-6.12", &WAYS, "300", |_| {});
}

// Verifies UNDO-4.
#[test]
#[ignore = "minutes: ./dev test --deep"]
fn all_mechanisms_on_any_end_restores_all_on_arm64() {
    ended("debian-arm64-6.1", &WAYS, "300", |_| {});
}

// Verifies UNDO-4.
#[test]
#[ignore = "minutes: ./dev test --deep"]
fn all_mechanisms_on_any_end_of_the_service_restores_all() {
    let ways = ["stop", "term", "int", "daemon", "killer", "apart0.02", "both", "all"];
    ended("systemd-6.1", &ways, "300", |scenario| {
        let systemd = scenario.guest.systemd.as_mut().unwrap();
        systemd.users.push("brisk".to_owned());
        for (name, text) in UNITS {
            let text = text.replace("/usr/bin/brisk", "/bin/brisk");
            systemd.files.insert(format!("/etc/systemd/system/{name}"), text);
        }
    });
}
