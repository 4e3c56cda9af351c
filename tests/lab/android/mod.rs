//! The device's program on a kernel like Android's generic one, in a userspace as Android's init makes it.

use std::time::Duration;

use serde_json::Value;

use super::arm64::is_unavailable;
use super::job;
use super::steps::Report;
use crate::static_brisk::static_brisk_for_arm64;

/// The phone's profile, as a platform build installs it.
const PROFILE: (&str, &str) =
    ("/system_ext/etc/brisk/brisk.toml", include_str!("../../../android/integration/brisk.toml"));

// Verifies LAB-3, ANDROID-1, ANDROID-2, LAUNCH-1, UNDO-4.
#[test]
#[ignore = "builds a kernel; ./dev test --deep"]
fn an_application_in_top_app_is_boosted_without_process_events() {
    let Some(binary) = static_brisk_for_arm64() else { return };
    let job = job(binary, "android-6.12", &["sh", "/android.sh"]);
    if is_unavailable(&job.scenario) {
        return;
    }
    // A guest whose work does not take time proportional to 1/f runs no script.
    assert!(job.scenario.guest.self_check);
    let job = job.with_file(PROFILE.0, PROFILE.1);
    let report = Report::of_launches(job, "/android.sh", include_str!("android.sh"), Duration::from_secs(600));
    userspace_is_androids(&report);
    doctor_finds_a_phone(&report);
    for (name, user, lease) in [("mail", "10061", "scaling_min_freq"), ("maps", "10062", "clamp")] {
        let of = |what: &str| report.one(&format!("{name}.{what}"));
        let groups = format!(":/uid_{user}/pid_PID blkio:/ cpu:/top-app cpuset:/top-app ");
        assert_eq!((of("user"), of("adj"), of("khz")), (user, "0", "1200000"), "{name}");
        assert_eq!(without_pid(of("groups")), groups, "{name}");
        let status = report.json(&format!("{name}.status"));
        let leases = status["leases"].as_array().unwrap();
        assert!(leases.len() == 1 && leases[0]["target"].to_string().contains(lease), "{name}: {status}");
        assert_eq!(status["metrics"]["failures"], 0, "{name}: {status}");
        let mechanisms = status["mechanisms"].as_array().unwrap();
        let launch = mechanisms.iter().find(|it| it["name"] == "launch").unwrap();
        let reason = launch["reason"].as_str().unwrap();
        assert!(reason.ends_with("launches are noticed by the top-app cpuset"), "{name}: {status}");
    }
    assert_eq!((report.one("term.floor"), report.one("term.left")), ("200000", "Nothing is left changed."));
    assert_eq!(report.one("mail.later"), "700 /background 0", "another application came to the foreground");
    assert_eq!(report.one("maps.later"), "700 /background");
    assert_eq!(report.one("killed.left"), "Nothing is left changed.");
    assert_eq!(report.complaints(|_| false), Vec::<&str>::new(), "{report:#?}");
}

// Verifies LOOKUP-5, LOOKUP-7.
#[test]
#[ignore = "builds a kernel; ./dev test --deep"]
fn lookups_are_answered_in_the_driver_of_a_kernel_like_androids() {
    let Some(binary) = static_brisk_for_arm64() else { return };
    let mut job = job(binary, "android-6.12", &["sh", "/lookup.sh"]);
    job.scenario.kernel.drivers.push("binder-cache".into());
    if is_unavailable(&job.scenario) {
        return;
    }
    let report = Report::of(job, "/lookup.sh", include_str!("lookup.sh"), Duration::from_secs(600));
    let lookup = |mode: &str| {
        let lookup = report.json(mode);
        assert_eq!(lookup["unit"], "instructions", "{lookup}");
        lookup["call"]["p50"].as_f64().unwrap()
    };
    let (off, on) = (lookup("off"), lookup("on"));
    // More than the paper's cache saves: this kernel's hardening makes each call of the driver longer.
    assert!(off > 10_000.0 && on < off * (1.0 - 0.529), "{off} instructions without the cache, {on} with it");
    assert!(report.one("hits").parse::<u32>().unwrap() >= 400, "{report:#?}");
}

/// The groups of a process, with PID in place of its number.
fn without_pid(groups: &str) -> String {
    let (before, rest) = groups.split_once("/pid_").unwrap_or_else(|| panic!("{groups}"));
    format!("{before}/pid_PID{}", rest.trim_start_matches(|letter: char| letter.is_ascii_digit()))
}

fn userspace_is_androids(report: &Report) {
    assert_eq!(report.one("machine"), "aarch64");
    let sets = "background camera-daemon foreground restricted system-background top-app ";
    assert_eq!(report.one("sets"), sets);
    let devices = ["binder", "hwbinder", "vndbinder"].map(|name| format!("/dev/binderfs/{name} 666"));
    assert_eq!(report.all("binder"), devices);
    // The other controllers are in version 1; "50" is what the scenario's device writes.
    assert_eq!((report.one("unified"), report.one("clamp")), ("memory: memory", "50.00"));
    let (governor, others) = report.one("governors").split_once(": ").unwrap();
    assert!(governor == "schedutil" && !others.contains("ondemand"), "{others}");
    assert!(report.one("properties").contains("sys.boot_completed"), "{report:#?}");
}

fn doctor_finds_a_phone(report: &Report) {
    let doctor = report.json("doctor");
    let device = &doctor["device"];
    assert!(device["kernel"].as_str().unwrap().starts_with("6.12."), "{doctor}");
    assert_eq!(device["faults"], Value::Array(Vec::new()), "{doctor}");
    assert_eq!(device["journal"]["folder"], "/dev/brisk", "where Android lets brisk write: {doctor}");
    let has = |name: &str| {
        let interfaces = device["interfaces"].as_array().unwrap();
        interfaces.iter().find(|it| it["name"] == name).unwrap_or_else(|| panic!("{name}: {doctor}"))["available"]
            .clone()
    };
    for (name, expected) in [
        ("process events", false),
        ("foreground group", true),
        ("control groups", true),
        ("utilisation clamps", true),
        ("pressure stall information", true),
        ("energy", true),
    ] {
        assert_eq!(has(name), expected, "{name}: {doctor}");
    }
    let mechanisms = doctor["mechanisms"].as_array().unwrap();
    let launch = mechanisms.iter().find(|it| it["name"] == "launch").unwrap();
    // One CPU of full capacity under schedutil is fast enough at once: the script forces launches.
    assert!(launch["reason"].as_str().unwrap().starts_with("nothing to gain on policy0: "), "{doctor}");
    assert_ne!(report.one("origin"), "0", "the phone's profile is in force");
}
