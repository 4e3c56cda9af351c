//! A guest whose first process is Debian's systemd, and the processes that systemd-oomd kills there.

use std::time::Duration;

use super::steps::Report;
use super::{job, results, run, static_brisk};

const SCENARIO: &str = "memory-systemd-6.1";

/// The output of `steps` of systemd.sh, where systemd-oomd keeps a log.
fn report(steps: &[&str]) -> Option<Report> {
    let command = [&["sh", "/systemd.sh"], steps].concat();
    let mut job = job(static_brisk()?, SCENARIO, &command);
    let systemd = job.scenario.guest.systemd.as_mut().unwrap();
    systemd.files.insert(
        "/etc/systemd/system/systemd-oomd.service.d/log.conf".into(),
        "[Service]\nStandardError=append:/run/oomd.log\nEnvironment=SYSTEMD_LOG_TARGET=console\n".into(),
    );
    Some(Report::of(job, "/systemd.sh", include_str!("systemd.sh"), Duration::from_secs(900)))
}

#[test]
fn the_job_is_a_service_of_systemd_and_its_services_run() {
    let Some(report) = report(&["first"]) else { return };
    assert_eq!(report.one("first.name"), "systemd");
    assert_eq!(report.one("first.group"), "0::/system.slice/brisk-job.service");
    assert_eq!(report.one("first.services"), "brisk-job.service systemd-oomd.service ");
}

#[test]
fn a_service_that_does_not_start_fails_the_lab_with_its_name() {
    let Some(binary) = static_brisk() else { return };
    let mut job = job(binary, SCENARIO, &["brisk", "lab", "list"]);
    job.scenario.guest.systemd.as_mut().unwrap().users.clear();
    let (outcome, lines) = run(&job);
    let reason = outcome.unwrap_err().to_string();
    assert!(reason.contains("systemd-oomd.service does not run in the guest"), "{reason}\n{lines:#?}");
    assert!(results(&lines).is_empty());
}

// Verifies MEMORY-7.
#[test]
#[ignore = "a minute: ./dev test --deep"]
fn systemd_oomd_kills_on_pressure_and_the_largest_on_full_swap() {
    let Some(report) = report(&["pressure", "full"]) else { return };
    let gone: Vec<&str> = report.one("full.killed").split_whitespace().collect();
    assert!(report.one("full.large").split_whitespace().any(|large| gone == [large]), "{report:#?}");
    for killer in ["pressure.oom", "full.oom"] {
        assert_eq!(report.one(killer), "0", "not the kernel");
    }
    let [by_pressure, by_swap] = report.all("killed")[..] else { panic!("{report:#?}") };
    assert!(by_pressure.contains("Killed /app.slice/") && by_pressure.contains("> 50.00% for > 20s"), "{by_pressure}");
    assert!(by_swap.contains("Killed /app.slice/") && by_swap.contains("swap used"), "{by_swap}");
}
