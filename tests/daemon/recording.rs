//! `brisk daemon --record` and `brisk replay`: a replay of the recording makes the same decisions as the daemon did.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::LEASE;
use super::device::{Daemon, Device, eventually};
use crate::golden;
use crate::patience::{LONG_PATIENCE, OutputWithin};

const EVERYTHING: &str = "
[launch]
triggers = [\"fork\", \"exec\", \"announced\", \"foreground\"]
maximum_launches_per_minute = 60000
[placement]
enabled = true
[memory]
restraint_s = 60
";

/// Starts a daemon on `device`, does `work` and stops the daemon; returns its recording.
fn record(device: &Device, work: impl FnOnce(&mut Daemon<'_>)) -> PathBuf {
    let path = device.path("recording.jsonl");
    let mut daemon = device.daemon_with(&["--record", path.to_str().unwrap()]);
    work(&mut daemon);
    daemon.signal(Signal::TERM);
    assert!(daemon.end().success());
    path
}

fn replay(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_brisk"))
        .arg("replay")
        .args(arguments)
        .env("NO_COLOR", "1")
        .output_within(LONG_PATIENCE)
}

fn replay_json(path: &Path, arguments: &[&str]) -> (Option<i32>, Value) {
    let output = replay(&[&[path.to_str().unwrap(), "--json"], arguments].concat());
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    let parsed = serde_json::from_slice(&output.stdout);
    (output.status.code(), parsed.unwrap_or_else(|_| panic!("no JSON: {error}")))
}

/// Launches, changes of the foreground, of the configuration and of the device, and a tunable that vanishes.
fn a_busy_minute(device: &Device, daemon: &mut Daemon<'_>) {
    daemon.announce("browser");
    for _ in 0..20 {
        assert!(Command::new("true").status().unwrap().success());
    }
    daemon.ask(&json!({"version": 1, "request": "foreground", "pids": [std::process::id()]}));
    std::thread::sleep(Duration::from_millis(1500));
    daemon.finish("browser");
    device.configure(&LEASE.replace("enabled = false", "enabled = true"));
    daemon.signal(Signal::HUP);
    daemon.says("configuration reloaded");
    daemon.announce("editor");
    device.write(&Device::tunable("scaling_governor"), "performance\n");
    daemon.says("the device changed");
    device.write(&Device::tunable("scaling_governor"), "ondemand\n");
    daemon.says("the device changed");
    daemon.announce("reader");
    fs::remove_file(device.path(&Device::tunable("ondemand/sampling_rate"))).unwrap();
    daemon.announce("player");
    eventually("the last launch is over", || daemon.status()["mechanisms"][0]["activity"].is_null());
}

// Verifies DAEMON-1.
#[test]
fn a_recording_replays_to_the_same_decisions() {
    let device = Device::with(EVERYTHING);
    let path = record(&device, |daemon| a_busy_minute(&device, daemon));
    let (code, replayed) = replay_json(&path, &[]);
    assert_eq!((code, &replayed["differences"]), (Some(0), &json!([])), "{replayed:#}");
    let launch = &replayed["mechanisms"][0];
    assert!(launch["recorded"].as_u64().unwrap() >= 8 && launch["recorded"] == launch["replayed"], "{replayed:#}");
    assert!(replayed["events"].as_u64().unwrap() >= 10, "{replayed:#}");
    let text = String::from_utf8(replay(&[path.to_str().unwrap()]).stdout).unwrap();
    assert!(text.contains(&format!("{} decisions, all as recorded", launch["recorded"])), "{text}");
}

// Verifies DAEMON-1.
#[test]
fn another_configuration_shows_what_would_differ() {
    let device = Device::with(LEASE);
    let path = record(&device, |daemon| {
        daemon.announce("browser");
        daemon.finish("browser");
    });
    let other = device.path("other.toml");
    let with = other.to_str().unwrap().to_owned();
    fs::write(&other, format!("{}deadline_ms = 100\n", LEASE.replace("50000", "20000"))).unwrap();
    let (code, replayed) = replay_json(&path, &["--config", &with]);
    assert_eq!(code, Some(1), "{replayed:#}");
    let differences = replayed["differences"].as_array().unwrap();
    let leased = |is_recorded: bool| {
        let leases = differences.iter().filter(|it| it["action"] == "lease" && it["is_recorded"] == is_recorded);
        leases.map(|it| it["value"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!((leased(true), leased(false)), (vec!["50000".to_owned()], vec!["20000".to_owned()]), "{replayed:#}");

    fs::write(&other, LEASE).unwrap();
    assert_eq!(replay_json(&path, &["--config", &with]).0, Some(0), "the same configuration, from a file");

    fs::write(&other, LEASE.replace("enabled = false", "enabled = true")).unwrap();
    let text = String::from_utf8(replay(&[path.to_str().unwrap(), "--config", &with]).stdout).unwrap();
    assert!(text.contains("samples of threads") && text.contains("did not subscribe to them"), "{text}");

    fs::write(&other, "[launch]\nspeed = 1\n").unwrap();
    let refused = replay(&[path.to_str().unwrap(), "--config", &with]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("unknown field `speed`"));
}

// Verifies DAEMON-1.
#[test]
fn a_replay_with_another_configuration_has_its_deadlines() {
    let device = Device::with(&format!("{LEASE}deadline_ms = 60000\n"));
    let path = record(&device, |daemon| {
        daemon.announce("browser");
        std::thread::sleep(Duration::from_millis(400));
        daemon.finish("browser");
    });
    let other = device.path("other.toml");
    fs::write(&other, format!("{LEASE}deadline_ms = 100\n")).unwrap();
    let (_, replayed) = replay_json(&path, &["--config", other.to_str().unwrap()]);
    let differences = replayed["differences"].as_array().unwrap();
    let released =
        |is_recorded: bool| differences.iter().any(|it| it["action"] == "release" && it["is_recorded"] == is_recorded);
    let lasts_ms = |is_recorded: bool| {
        let is_lease = |it: &&Value| it["action"] == "lease" && it["is_recorded"] == is_recorded;
        differences.iter().find(is_lease).unwrap()["lasts_ms"].as_f64().unwrap()
    };
    assert_eq!((lasts_ms(true), lasts_ms(false)), (60_000.0, 100.0), "{replayed:#}");
    assert!(released(true) && !released(false), "its deadline has ended it before the launch was over: {replayed:#}");
}

// Verifies DAEMON-1.
#[test]
fn a_replay_supports_each_recorded_device_as_recorded() {
    for entry in fs::read_dir(golden::trees()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if !golden::trees().join(&name).is_dir() || name.starts_with("08") {
            continue;
        }
        let device = Device::of_tree(&name);
        let mut recorded = Value::Null;
        let path = record(&device, |daemon| recorded = daemon.status()["mechanisms"].clone());
        let (code, replayed) = replay_json(&path, &[]);
        assert_eq!(code, Some(0), "{name}: {replayed:#}");
        let tree = device.path("").display().to_string();
        for (recorded, replayed) in recorded.as_array().unwrap().iter().zip(replayed["mechanisms"].as_array().unwrap())
        {
            let reason = recorded["reason"].as_str().unwrap().replace(&tree, "/");
            assert_eq!(replayed["support"]["state"], recorded["state"], "{name} {}", recorded["name"]);
            assert_eq!(replayed["support"]["reason"], *reason, "{name} {}", recorded["name"]);
        }
    }
}

// Verifies DAEMON-1.
#[test]
fn a_damaged_recording_is_refused_with_its_line() {
    let device = Device::with(LEASE);
    let path = record(&device, |daemon| daemon.announce("browser"));
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let without = |index: usize| {
        let rest = lines.iter().enumerate().filter(|(at, _)| *at != index);
        rest.map(|(_, line)| format!("{line}\n")).collect::<String>()
    };
    let last = lines.len() - 1;
    let forged = text.replace("/sys/devices/system/cpu/online", "/../../../etc/forged");
    assert_ne!(forged, text);
    for (text, reason) in [
        (text[..text.len() / 2].to_owned(), "is cut"),
        (without(last), "the recording is cut after line"),
        (without(2), "lines before it are missing"),
        (text.replacen("\"format\":2", "\"format\":1", 1), "format 1, and this brisk reads format 2"),
        (without(0), "line 1 does not open a recording"),
        (format!("{text}{}\n", lines[last]), "something follows the end"),
        (text.replacen("\"record\":\"followed\"", "\"record\":\"swallowed\"", 1), "is no record: unknown variant"),
        (forged, "\"/../../../etc/forged\" is no file of a device"),
        (String::new(), "line 1 does not open a recording"),
        ("hello\n".to_owned(), "line 1 is no record"),
    ] {
        let damaged = device.path("damaged.jsonl");
        fs::write(&damaged, &text).unwrap();
        let output = replay(&[damaged.to_str().unwrap()]);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{reason}: {error}");
        assert!(error.contains(reason) && error.contains("damaged.jsonl"), "{reason}: {error}");
    }
    let missing = replay(&["/nowhere/at/all"]);
    assert_eq!(missing.status.code(), Some(2));

    let again = device.brisk(&["daemon", "--record", path.to_str().unwrap()]);
    assert_eq!(again.status.code(), Some(2), "an earlier recording is not overwritten");
    let said = String::from_utf8_lossy(&again.stderr);
    assert!(said.contains("cannot record to") && said.contains("; name a new file"), "{again:?}");
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

// Verifies DAEMON-1.
#[test]
fn a_recording_of_a_killed_daemon_is_refused() {
    let device = Device::with(LEASE);
    let path = device.path("recording.jsonl");
    let mut daemon = device.daemon_with(&["--record", path.to_str().unwrap()]);
    daemon.announce("browser");
    daemon.signal(Signal::KILL);
    daemon.end();
    eventually("the guardian restores", || device.sampling_rate() == "100000");
    let output = replay(&[path.to_str().unwrap()]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(error.contains("cut") || error.contains("does not open"), "{error}");
}
