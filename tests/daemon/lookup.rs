//! The binder driver's cache on a device made of files: the daemon configures it, reports its statistics, and restores it.

use rustix::process::Signal;
use serde_json::{Value, json};

use super::device::{Device, eventually};

const FOLDER: &str = "sys/kernel/binder_cache/binder";
const FILES: [(&str, &str); 4] = [("mode", "cooperative"), ("policy", "lru"), ("capacity", "2048"), ("profile", "")];
const ON: &str =
    "[launch]\nenabled = false\n[lookup]\nenabled = true\nmode = \"transparent\"\nentries = 64\npolicy = \"lfu\"\n";

fn device(config: &str) -> Device {
    let device = Device::with(config);
    device.write("dev/binder", "");
    for (name, text) in FILES.into_iter().chain([("state", "active"), ("stats", "hits 30\nmisses 10")]) {
        device.write(&format!("{FOLDER}/{name}"), &format!("{text}\n"));
    }
    device
}

fn values(device: &Device) -> [String; 4] {
    FILES.map(|(name, _)| device.read(&format!("{FOLDER}/{name}")).trim().to_owned())
}

fn originals() -> [String; 4] {
    FILES.map(|(_, text)| text.to_owned())
}

// Verifies LOOKUP-6.
#[test]
fn the_drivers_cache_is_set_and_restored_after_any_death() {
    for signal in [Signal::TERM, Signal::KILL] {
        let device = device(ON);
        let daemon = device.daemon();
        let [mode, policy, capacity, profile] = values(&device);
        assert_eq!([mode.as_str(), &policy, &capacity], ["transparent", "lfu", "64"]);
        assert!(profile.starts_with("lookup=") && profile.contains(" header="), "{profile}");
        let status = daemon.status();
        let lookup = status["mechanisms"].as_array().unwrap().iter().find(|it| it["name"] == "lookup").unwrap();
        let reason = lookup["reason"].as_str().unwrap();
        assert!(reason.contains("30 of 40 lookups (75.0 %)") && reason.contains("brisk has set"), "{reason}");
        assert_eq!(lookup["activity"]["text"], "lookups of binder are answered in the driver (transparent)");
        // The statistics since then are reported.
        device.write(&format!("{FOLDER}/stats"), "hits 90\nmisses 10\n");
        assert!(daemon.status().to_string().contains("90 of 100 lookups (90.0 %)"));
        daemon.signal(signal);
        eventually("the driver's settings are restored", || values(&device) == originals());
    }
}

// Verifies LOOKUP-6.
#[test]
fn a_reload_changes_the_mode_and_off_leaves_the_driver_alone() {
    const OFF: &str = "[launch]\nenabled = false\n[lookup]\nenabled = false\n";
    let device = device(OFF);
    let mut daemon = device.daemon();
    assert_eq!(values(&device), originals(), "it is switched off");
    let lookup = || {
        let status = daemon.status();
        status["mechanisms"].as_array().unwrap().iter().find(|it| it["name"] == "lookup").unwrap().clone()
    };
    assert_eq!(lookup()["state"], "available", "the driver's own setting is not brisk's");
    assert!(lookup()["reason"].as_str().unwrap().contains("lookup.enabled is false"), "{}", lookup());
    for off in [ON.replace("enabled = true", "enabled = false"), ON.replace("transparent", "off")] {
        device.configure(&off);
        daemon.signal(Signal::HUP);
        daemon.says("configuration reloaded");
        assert_eq!(values(&device), originals(), "{off}");
    }
    device.configure(ON);
    daemon.signal(Signal::HUP);
    daemon.says("configuration reloaded");
    assert_eq!(values(&device)[0], "transparent");
    device.configure(&ON.replace("64", "128"));
    daemon.signal(Signal::HUP);
    daemon.says("configuration reloaded");
    assert_eq!(values(&device)[2], "128");
    // A value that another process writes meanwhile is kept.
    device.write(&format!("{FOLDER}/capacity"), "7\n");
    device.configure(OFF);
    daemon.signal(Signal::HUP);
    daemon.says("configuration reloaded");
    let [mode, policy, capacity, profile] = values(&device);
    assert_eq!([mode.as_str(), &policy, &capacity, &profile], ["cooperative", "lru", "7", ""]);
}

/// A reload begins no other period.
// Verifies FLEET-1.
#[test]
fn telemetry_counts_the_lookups_of_a_whole_period() {
    const TELEMETRY: &str = "[telemetry]\nenabled = true\n";
    let device = device(&format!("{ON}{TELEMETRY}"));
    let mut daemon = device.daemon();
    eventually("the store is open", || device.brisk(&["telemetry", "show"]).status.code() == Some(0));
    device.write(&format!("{FOLDER}/stats"), "hits 90\nmisses 15\n");
    device.configure(&format!("{}{TELEMETRY}", ON.replace("64", "128")));
    daemon.signal(Signal::HUP);
    daemon.says("configuration reloaded");
    device.write(&format!("{FOLDER}/stats"), "hits 100\nmisses 17\n");
    daemon.signal(Signal::TERM);
    daemon.end();
    let text = String::from_utf8(device.brisk(&["telemetry", "export"]).stdout).unwrap();
    let rows = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let hours: Vec<Value> = rows.filter(|row| row["kind"] == "hour").collect();
    assert_eq!((&hours[0]["lookup_hits"], &hours[0]["lookup_misses"]), (&json!(70), &json!(7)), "{hours:?}");
    assert_eq!(hours.len(), 1);
}
