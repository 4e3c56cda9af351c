//! Every write can be undone, on a real kernel with real governors, hotplug and modules.

use std::io::Write;
use std::time::Duration;

use serde_json::Value;

use super::steps::Report;
use super::{job, job_in_turn, results, run, static_brisk};

/// The number of kills in `./dev test`; `./dev soak` and `./dev test --deep` set 1000.
const KILLS: u32 = 40;
/// A governor whose replacement removes the tunables of the others, its tunables, and a frequency limit.
const LEASED: &str = "policy0/scaling_governor=performance,userspace,schedutil ondemand/sampling_rate=20000,50000 \
                      ondemand/io_is_busy=1 policy0/scaling_min_freq=500000,800000";

/// Kills a daemon with leases, its guardian or both in a guest, `$BRISK_SOAK_KILLS` times. At least one kill of `found_each`
/// must leave something for `brisk restore`. After a guardian's death the daemon has a new one within `unguarded_us`.
fn soak(scenario: &str, found_each: u32, unguarded_us: u64) {
    let Some(binary) = static_brisk() else { return };
    let kills = std::env::var("BRISK_SOAK_KILLS").map_or(KILLS, |text| text.parse().expect("a number of kills"));
    let folder = "/sys/devices/system/cpu/cpufreq";
    let leased: Vec<_> = LEASED.split_whitespace().map(|tunable| format!("{folder}/{tunable}")).collect();
    let govern = format!("echo ondemand >{folder}/policy0/scaling_governor");
    let script = format!("{govern}; exec brisk soak --kills {kills} --seed {kills} {}", leased.join(" "));
    let mut job = job(binary, scenario, &["sh", "-c", &script]);
    job.scenario.guest.self_check = false;
    job.busybox = true;
    job.timeout += Duration::from_secs(u64::from(kills) * 10);
    let (outcome, lines) = run(&job);
    let printed = results(&lines).join("\n");
    // Bypass the capture of test output: the count is for the user who runs the tests.
    let _ = writeln!(std::io::stderr(), "{scenario}: {printed}");
    assert_eq!(outcome.unwrap().status, 0, "{lines:#?}");
    let tally: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!((tally["kills"].as_u64(), tally["left_changed"].as_u64()), (Some(kills.into()), Some(0)), "{tally}");
    assert!(tally["found_changed"].as_u64() >= Some(u64::from(kills / found_each)), "the kills hit leases: {tally}");
    assert!(tally["longest_unguarded_us"].as_u64() <= Some(unguarded_us), "{tally}");
}

// Verifies UNDO-4.
#[test]
fn any_kill_on_a_real_kernel_leaves_nothing_changed() {
    soak("debian-6.1", 20, 20_000);
}

/// Daemon, guardian and the killing process run at the same time: a daemon whose guardian is killed has often started another,
/// which restores, before it is killed itself.
// Verifies UNDO-4.
#[test]
#[ignore = "1000 kills take a quarter of an hour: ./dev soak, ./dev test --deep"]
fn any_kill_on_two_cpus_leaves_nothing_changed() {
    // With the host's clock.
    soak("debian-6.1-parallel", 100, 500_000);
}

/// The output of `steps` of faults.sh in a guest of `scenario`; `None` where no machine can be emulated.
fn report(scenario: &str, steps: &[&str]) -> Option<Report> {
    let job = job_in_turn(static_brisk()?, scenario, &[&["sh", "/faults.sh"], steps].concat());
    Some(Report::of_launches(job, "/faults.sh", include_str!("faults.sh"), Duration::from_secs(600)))
}

// Verifies UNDO-6.
#[test]
fn a_kernel_fault_on_a_lease_is_an_error_and_keeps_the_state() {
    let Some(report) = report("debian-6.1-parallel", &["experiment", "hotplug", "governor"]) else { return };
    an_experiment_is_refused(&report);
    a_cpu_goes_and_comes(&report);
    governors_and_drivers_go(&report);
}

fn an_experiment_is_refused(report: &Report) {
    assert_eq!(report.all("experiment.exit"), ["2", "2"]);
    let expected = [
        ["ondemand/up_threshold: Invalid argument", "choose another in the configuration"],
        ["policy0/cpuinfo_max_freq: Permission denied", "run as root, or give the service the right to it"],
    ];
    for (error, parts) in report.all("experiment.error").into_iter().zip(expected) {
        assert!(parts.iter().all(|part| error.contains(part)), "{parts:?}: {error}");
    }
    assert_eq!(report.all("experiment.left"), ["ondemand 100000 200000 "; 2], "everything is restored");
}

fn a_cpu_goes_and_comes(report: &Report) {
    assert!(report.one("hotplug.read").contains("resource busy"), "{}", report.one("hotplug.read"));
    let offline = report.json("hotplug.offline");
    assert_eq!(offline["mechanisms"][0]["state"], "active", "launches are boosted on the other CPU: {offline}");
    assert_eq!(offline["leases"].as_array().unwrap().len(), 2, "the offline CPU's limit is still leased: {offline}");
    assert_eq!(report.json("hotplug.after")["leases"], Value::Array(Vec::new()));
    report.said(
        "hotplug.log",
        &["policy1/scaling_min_freq: restore failed, will retry", "busy", "an offline CPU holds it"],
    );
    report.said("hotplug.log", &["policy1/scaling_min_freq: restored after an earlier failure"]);
    assert_eq!(report.one("hotplug.exit"), "0");
}

fn governors_and_drivers_go(report: &Report) {
    let gone = report.json("governor.gone");
    assert_eq!(gone["leases"], Value::Array(Vec::new()), "{gone}");
    // If the daemon probes between the changes of the two policies, it reads a tunable that is being removed.
    let failures = gone["metrics"]["failures"].as_u64().unwrap();
    assert!(failures <= 1, "{gone}");
    assert_eq!(report.one("governor.kept"), "performance", "displaced by another writer");
    assert_eq!(report.one("governor.refused"), "100000");
    report.said("governor.log", &["ondemand30/sampling_rate: Permission denied", "run as root"]);
    assert_eq!(report.json("governor.denied")["metrics"]["failures"], failures + 1);
    report.said("governor.log", &["ondemand30/sampling_rate: No such file", "is gone: see `brisk doctor`"]);
    let unsupported = report.json("governor.unsupported");
    assert_eq!(unsupported["mechanisms"][0]["state"], "unsupported", "{unsupported}");
    assert_eq!(unsupported["leases"], Value::Array(Vec::new()));
    assert_eq!(report.one("governor.exit"), "0");
}

#[test]
#[ignore = "builds a kernel; ./dev test --deep"]
fn a_clamp_ends_with_its_launch_or_daemon_without_kernel_faults() {
    let Some(report) = report("debian-6.1-checked", &["hotplug", "clamp", "unload"]) else { return };
    for status in report.all("clamp.held") {
        let status: Value = serde_json::from_str(status).unwrap();
        assert!(status["leases"][0]["target"].to_string().contains("clamp"), "{status}");
    }
    assert_eq!(report.all("clamp.freed"), ["TERM", "KILL"]);
    a_cpu_goes_and_comes(&report);
    assert_eq!(report.one("unload.done"), "yes");
}
