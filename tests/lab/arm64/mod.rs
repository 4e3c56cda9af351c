//! The device's program on arm64, with Debian's kernel: the same code as on x86-64, built for the processor of most devices.

use std::time::Duration;

use brisk::lab::{self, Job, LabError, Scenario};
use serde_json::Value;

use super::job;
use super::steps::Report;
use crate::static_brisk::static_brisk_for_arm64;

// Verifies LAB-3, LAUNCH-1, UNDO-4, LOOKUP-8.
#[test]
fn an_arm64_launch_is_boosted_and_restored_after_sigkill() {
    let Some(binary) = static_brisk_for_arm64() else { return };
    let job = job(binary, "debian-arm64-6.1", &["sh", "/arm64.sh"]);
    if is_unavailable(&job.scenario) {
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

/// A mirror may have packages for one processor alone.
pub(crate) fn is_unavailable(scenario: &Scenario) -> bool {
    match lab::prepare(scenario) {
        Err(error @ LabError::Apt { .. }) => {
            eprintln!("skipped: {error}");
            true
        }
        _ => false,
    }
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

// Verifies LAB-3, LAUNCH-1, UNDO-4, PLACE-4.
#[test]
fn unequal_cpus_are_as_stated_and_a_launch_boosts_each() {
    let Some(binary) = static_brisk_for_arm64() else { return };
    let job = job(binary, "debian-arm64-6.1-biglittle", &["sh", "/unequal.sh"]);
    if is_unavailable(&job.scenario) {
        return;
    }
    // Where the kernel does not know the capacities, or schedules without regard to energy, no script runs.
    assert!(job.scenario.guest.self_check);
    let report = Report::of_launches(job, "/unequal.sh", include_str!("unequal.sh"), Duration::from_secs(300));
    assert_eq!((report.one("capacities"), report.one("governors")), ("407 1024", "schedutil schedutil"));
    // C V^2 f with the scenario's 154 and 442 pF, at 1.05 and 1.25 V.
    assert_eq!(report.all("power_uw"), ["135828", "389844", "828750"]);
    let doctor = report.json("doctor");
    let reason = |name: &str| {
        let mechanisms = doctor["mechanisms"].as_array().unwrap();
        mechanisms.iter().find(|it| it["name"] == name).unwrap()["reason"].as_str().unwrap()
    };
    assert!(reason("placement").starts_with("2 unequal CPUs are online"), "{doctor}");
    // The big CPU under schedutil is fast enough at once: there a launch would gain less than 1 %.
    assert!(reason("launch").starts_with("scaling-min-freq on policy0: "), "{doctor}");
    assert_eq!(report.one("launch.before"), "200000 200000");
    let status = report.json("launch.status");
    let mut leases: Vec<[&str; 2]> = status["leases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|lease| [lease["target"]["tunable"].as_str().unwrap(), lease["value"].as_str().unwrap()])
        .collect();
    leases.sort_unstable();
    let expected = [
        ["/sys/devices/system/cpu/cpufreq/policy0/scaling_min_freq", "800000"],
        ["/sys/devices/system/cpu/cpufreq/policy1/scaling_min_freq", "1200000"],
    ];
    assert_eq!(leases, expected, "{status}");
    assert_eq!(status["metrics"]["failures"], 0, "{status}");
    assert_eq!(report.one("launch.restored"), "200000 200000");
    assert_eq!(report.one("launch.left"), "Nothing is left changed.");
}

// Verifies LAB-3.
#[test]
fn a_little_cpu_is_slower_by_its_capacity() {
    const SCRIPT: &str = "\
. /steps.sh
echo performance >/sys/devices/system/cpu/cpufreq/policy0/scaling_governor
hundredths() { cut -d ' ' -f 1 /proc/uptime | tr -d . | sed 's/^0*//'; }
begin=$(hundredths)
i=0; while [ $i -lt 40000 ]; do i=$((i + 1)); done
say took $(($(hundredths) - begin))
";
    let Some(binary) = static_brisk_for_arm64() else { return };
    let mut job = job(binary, "debian-arm64-6.1", &["sh", "/work.sh"]);
    if is_unavailable(&job.scenario) {
        return;
    }
    // Instructions count: the same work takes as long in each boot.
    job.scenario.guest.self_check = false;
    let took = |job: Job| {
        let report = Report::of(job, "/work.sh", SCRIPT, Duration::from_secs(300));
        report.one("took").parse::<f64>().unwrap()
    };
    let big = took(job.clone());
    let driver = job.scenario.modules.iter_mut().find(|module| module.name == "virtual_cpufreq").unwrap();
    for (name, value) in [("capacities", 407), ("maxima_mhz", 800)] {
        driver.parameters.insert(name.into(), toml::Value::Integer(value));
    }
    let (little, expected) = (took(job), big * 1024.0 / 407.0);
    assert!(big >= 100.0, "{big}: hundredths of a second are too coarse");
    assert!((little / expected - 1.0).abs() < 0.02, "{little} and not {expected:.0} after {big}");
}

// Verifies LAB-3.
#[test]
fn a_seeded_guest_repeats_itself() {
    const SCRIPT: &str = "\
. /steps.sh
say random \"$(cat /proc/sys/kernel/random/boot_id)\"
say waited \"$(grep cpu0 /proc/schedstat) $(cat /proc/uptime) $(grep MemFree /proc/meminfo)\"
";
    let Some(binary) = static_brisk_for_arm64() else { return };
    let mut job = job(binary, "debian-arm64-6.1", &["sh", "/repeat.sh"]);
    if is_unavailable(&job.scenario) {
        return;
    }
    job.scenario.guest.self_check = false;
    job.seed = Some(5);
    let said = || {
        let report = Report::of(job.clone(), "/repeat.sh", SCRIPT, Duration::from_secs(300));
        ["random", "waited"].map(|name| report.one(name).to_owned())
    };
    assert_eq!(said(), said());
}
