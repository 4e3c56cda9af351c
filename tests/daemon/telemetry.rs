//! Telemetry of the real daemon on a device made of files: which rows it stores, when it stores none, and what it survives.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::LEASE;
use super::device::{Device, Running, eventually, exists};

const ON: &str = "[telemetry]\nenabled = true\n";
const FOLDER: &str = "var/lib/brisk/telemetry";

fn observed() -> Device {
    Device::with(&format!("{LEASE}{ON}"))
}

/// An export: its lines as JSON, and its checksum verified.
fn export(device: &Device) -> Vec<Value> {
    let output = device.brisk(&["telemetry", "export"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let trailer = text.trim_end().rfind('\n').unwrap() + 1;
    let mut checksum = flate2::Crc::new();
    checksum.update(&text.as_bytes()[..trailer]);
    assert_eq!(lines.last(), Some(&json!({"rows": lines.len() - 2, "crc32": checksum.sum()})));
    lines
}

fn rows(device: &Device, kind: &str) -> Vec<Value> {
    export(device).into_iter().filter(|row| row["kind"] == kind).collect()
}

/// Waits for so many rows of this kind, once there is a store.
fn await_rows(device: &Device, kind: &str, count: usize) -> Vec<Value> {
    let is_there = || fs::metadata(device.path(&format!("{FOLDER}/rows"))).is_ok_and(|rows| rows.len() > 0);
    eventually(&format!("{count} rows of kind {kind}"), || is_there() && rows(device, kind).len() >= count);
    rows(device, kind)
}

// Verifies FLEET-1.
#[test]
fn by_default_nothing_is_stored() {
    let device = Device::with(LEASE);
    let daemon = device.daemon();
    daemon.announce("browser");
    daemon.finish("browser");
    assert!(daemon.status().get("telemetry").is_none());
    drop(daemon);
    assert!(!exists(&device.path(FOLDER)));
    let output = device.brisk(&["telemetry", "export"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("Set enabled = true in the section [telemetry]"));
}

// Verifies FLEET-1.
#[test]
fn launches_states_and_the_hour_are_stored_without_names() {
    let device = observed();
    let daemon = device.daemon();
    for application in ["browser", "mail", "browser"] {
        daemon.announce(application);
        daemon.finish(application);
    }
    let launches = await_rows(&device, "launch", 3);
    for launch in &launches {
        assert_eq!((&launch["boosted"], &launch["governor"]), (&json!(true), &json!("ondemand")), "{launch}");
        assert!(launch["length_ms"].is_u64() && launch["loss_ms"].is_number() && launch["name"].is_null(), "{launch}");
    }
    let hashes: Vec<_> = launches.iter().map(|launch| launch["application"].as_str().unwrap()).collect();
    assert!(hashes[0] == hashes[2] && hashes[0] != hashes[1] && hashes[0].len() == 16, "{hashes:?}");
    let status = daemon.status();
    assert!(status["telemetry"]["error"].is_null() && status["telemetry"]["last_row"].as_u64() > Some(3), "{status}");
    let text = String::from_utf8(device.brisk(&["status"]).stdout).unwrap();
    assert!(text.contains("  telemetry      up to row "), "{text}");
    drop(daemon);
    let lines = export(&device);
    assert!(!lines.iter().any(|line| line.to_string().contains("browser")), "{lines:?}");
    let (header, rows) = (&lines[0], &lines[1..lines.len() - 1]);
    assert_eq!(
        (&header["brisk_telemetry"], &header["governor"], &rows[0]["kind"]),
        (&json!(1), &json!("ondemand"), &json!("start"))
    );
    let numbers: Vec<u64> = rows.iter().map(|row| row["row"].as_u64().unwrap()).collect();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
    let hour = rows.last().unwrap();
    assert!(hour["kind"] == "hour" && hour["dropped_rows"] == 0 && hour["resident_kib"].as_u64() > Some(0), "{hour}");
    assert!(hour["lookup_hits"].is_null() && hour["cpu_ms"].is_u64() && hour["uptime_s"].as_u64() > Some(0), "{hour}");
    let switches = rows.iter().filter(|row| row["kind"] == "switch");
    let states: Vec<_> = switches.map(|row| (row["mechanism"].as_str().unwrap(), row["active"] == true)).collect();
    assert!(states.contains(&("launch", true)) && states.contains(&("placement", false)), "{states:?}");
    assert!(states.contains(&("memory.killer", false)) && states.contains(&("boot", false)), "{states:?}");
    let folder = fs::metadata(device.path(FOLDER)).unwrap().permissions().mode();
    let salt = fs::metadata(device.path(&format!("{FOLDER}/salt"))).unwrap().permissions().mode();
    assert_eq!((folder & 0o777, salt & 0o777), (0o700, 0o600));
}

// Verifies FLEET-1.
#[test]
fn only_allowed_names_are_stored() {
    let device = Device::with(&format!("{LEASE}{ON}names = [\"own.*\"]\n"));
    let daemon = device.daemon();
    for application in ["own.mail", "browser"] {
        daemon.announce(application);
        daemon.finish(application);
    }
    let launches = await_rows(&device, "launch", 2);
    assert_eq!((&launches[0]["name"], &launches[1]["name"]), (&json!("own.mail"), &Value::Null));
}

// Verifies FLEET-1.
#[test]
fn an_export_goes_into_a_device_and_replaces_a_file() {
    let device = observed();
    let _daemon = device.daemon();
    await_rows(&device, "start", 1);
    let (null, file) = (device.path("null"), device.path("rows.jsonl"));
    symlink("/dev/null", &null).unwrap();
    device.write("rows.jsonl", "of yesterday\n");
    for output in [&null, &file] {
        let exported = device.brisk(&["telemetry", "export", "--output", output.to_str().unwrap()]);
        assert_eq!(exported.status.code(), Some(0), "{exported:?}");
    }
    assert!(null.is_symlink(), "it still leads to /dev/null");
    assert!(fs::read_to_string(&file).unwrap().starts_with("{\"brisk_telemetry\":1,"));
}

// Verifies FLEET-2.
#[test]
fn rows_survive_a_killed_daemon_and_the_next_one_continues() {
    let device = observed();
    let launch = |daemon: &super::device::Daemon<'_>, count| {
        daemon.announce("browser");
        daemon.finish("browser");
        await_rows(&device, "launch", count)
    };
    let mut daemon = device.daemon();
    let first = launch(&daemon, 1);
    daemon.signal(Signal::KILL);
    daemon.end();
    let before = export(&device);
    let daemon = device.daemon();
    let both = launch(&daemon, 2);
    assert_eq!(both[0], first[0]);
    assert_eq!((&both[1]["application"], &both[1]["boot"]), (&first[0]["application"], &first[0]["boot"]));
    let after = export(&device);
    assert_eq!(after[0]["device"], before[0]["device"]);
    assert_eq!(after[1..before.len() - 1], before[1..before.len() - 1], "what was exported stays as it was");
}

// Verifies FLEET-2.
#[test]
fn a_store_that_cannot_be_written_is_reported_once_and_changes_nothing_else() {
    let device = observed();
    device.write(FOLDER, "a file in its place");
    let mut daemon = device.daemon();
    let said = daemon.says("telemetry is not stored");
    assert!(said.contains("var/lib/brisk/telemetry"), "{said}");
    for _ in 0..3 {
        daemon.announce("browser");
        assert_eq!(device.sampling_rate(), "50000");
        daemon.finish("browser");
    }
    eventually("dropped rows are counted", || daemon.status()["telemetry"]["dropped_rows"].as_u64() >= Some(3));
    let text = String::from_utf8(device.brisk(&["status"]).stdout).unwrap();
    assert!(text.contains("  telemetry      NOT STORED, will retry: "), "{text}");
    daemon.signal(Signal::TERM);
    daemon.end();
    let other = daemon.other_messages();
    assert!(!other.iter().any(|line| line.contains("telemetry")), "{other:?}");
}

// Verifies FLEET-1.
#[test]
fn a_reload_begins_and_ends_telemetry_and_a_deleted_store_begins_anew() {
    let device = Device::with(LEASE);
    let mut daemon = device.daemon();
    let launch = |daemon: &super::device::Daemon<'_>| {
        daemon.announce("browser");
        daemon.finish("browser");
    };
    launch(&daemon);
    device.configure(&format!("{LEASE}{ON}"));
    daemon.signal(Signal::HUP);
    daemon.says("configuration reloaded");
    launch(&daemon);
    let first = await_rows(&device, "launch", 1);
    assert_eq!(first.len(), 1, "the launch before is not stored");
    let name = export(&device)[0]["device"].clone();
    assert_eq!(device.brisk(&["telemetry", "forget"]).status.code(), Some(0));
    assert!(!exists(&device.path(FOLDER)));
    launch(&daemon);
    let second = await_rows(&device, "launch", 1);
    assert_ne!((&second[0]["application"], &export(&device)[0]["device"]), (&first[0]["application"], &name));
    device.configure(LEASE);
    daemon.signal(Signal::HUP);
    daemon.says("configuration reloaded");
    assert_eq!(rows(&device, "hour").len(), 1, "its end is the end of an hour");
    launch(&daemon);
    drop(daemon);
    assert_eq!(rows(&device, "launch").len(), 1);
}

// Verifies FLEET-1.
#[test]
fn the_boot_is_stored_once() {
    let device = observed();
    fs::create_dir_all(device.path("run/systemd/system")).unwrap();
    let stamps = "UserspaceTimestampMonotonic=2100000\nFinishTimestampMonotonic=20500000";
    device.write("usr/bin/systemctl", &format!("#!/bin/sh\necho '{stamps}'\n"));
    fs::set_permissions(device.path("usr/bin/systemctl"), fs::Permissions::from_mode(0o755)).unwrap();
    for _ in 0..2 {
        let _daemon = device.daemon();
        let boots = await_rows(&device, "boot", 1);
        let lengths = ["length_ms", "kernel_ms", "performance_held"].map(|key| boots[0][key].clone());
        assert_eq!((boots.len(), lengths), (1, [json!(20_500), json!(2_100), json!(false)]));
    }
    assert_eq!((rows(&device, "boot").len(), rows(&device, "start").len()), (1, 2));
}

/// On a tree in which the killer finds one process: a child of this test.
// Verifies FLEET-1, MEMORY-4.
#[test]
fn a_kill_is_stored() {
    let device = Device::of_tree("06-embedded-board");
    let victim = Running(Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap());
    let pid = victim.id();
    eventually("it executes its program", || fs::read_to_string(format!("/proc/{pid}/comm")).unwrap() == "cat\n");
    fs::write(format!("/proc/{pid}/oom_score_adj"), "900").unwrap();
    let numbers = fs::read_dir(device.path("proc")).unwrap();
    let processes = numbers.filter(|name| name.as_ref().unwrap().file_name().to_str().unwrap().parse::<u32>().is_ok());
    assert_eq!(processes.count(), 0, "the killer sees no other process of this machine");
    symlink(format!("/proc/{pid}"), device.path(&format!("proc/{pid}"))).unwrap();
    device.write(
        "etc/brisk/brisk.toml",
        &format!(
            "[launch]\nenabled = false\n[memory.killer]\nenabled = true\nreserve_kib = 67108864\n{ON}names = [\"cat\"]\n"
        ),
    );
    let daemon = device.daemon();
    let kills = await_rows(&device, "kill", 1);
    let kill = &kills[0];
    assert_eq!((&kill["name"], &kill["oom_score_adj"]), (&json!("cat"), &json!(900)), "{kill}");
    assert!(kill["freed_kib"].is_i64() && kill["headroom_kib"].as_i64() < Some(67_108_864), "{kill}");
    let states: Vec<_> =
        rows(&device, "switch").iter().map(|row| (row["mechanism"].clone(), row["active"].clone())).collect();
    assert!(states.contains(&(json!("memory.killer"), json!(true))), "{states:?}");
    drop(daemon);
}

/// All threads of a process: how often they have slept.
fn sleeps(pid: u32) -> u64 {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let of_thread = |folder: fs::DirEntry| {
        let status = fs::read_to_string(folder.path().join("status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
        line.trim().parse::<u64>().unwrap()
    };
    threads.map(|thread| of_thread(thread.unwrap())).sum()
}

// Verifies COST-2.
#[test]
fn an_idle_daemon_sleeps_with_telemetry_as_well() {
    let device = observed();
    let daemon = device.daemon();
    await_rows(&device, "switch", 5);
    eventually("it has started", || {
        let before = sleeps(daemon.child.id());
        std::thread::sleep(Duration::from_secs(1));
        sleeps(daemon.child.id()) == before
    });
    let before = sleeps(daemon.child.id());
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(sleeps(daemon.child.id()), before);
}
