//! `brisk launch`: exit codes and signals are the command's, with a daemon and without.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use super::LEASE;
use super::device::{Device, eventually};
use crate::patience::{PATIENCE, end_of};

fn read_rate(device: &Device) -> String {
    device.path(&Device::tunable("ondemand/sampling_rate")).display().to_string()
}

#[test]
fn exit_codes_are_the_commands_with_and_without_a_daemon() {
    let device = Device::with(LEASE);
    let codes = || {
        for (script, code) in [("exit 0", 0), ("exit 5", 5), ("kill -TERM $$", 143), ("kill -KILL $$", 137)] {
            let output = device.brisk(&["launch", "--", "sh", "-c", script]);
            assert_eq!(output.status.code(), Some(code), "{script}: {}", String::from_utf8_lossy(&output.stderr));
        }
        assert_eq!(device.brisk(&["launch", "--", "/nowhere/at/all"]).status.code(), Some(127));
        assert_eq!(device.brisk(&["launch", "--", "/etc/passwd"]).status.code(), Some(126));
    };
    codes();
    let _daemon = device.daemon();
    codes();
}

#[test]
fn without_a_daemon_brisk_launch_boosts_itself() {
    let device = Device::with(LEASE);
    // The launch is boosted shortly after its start.
    let script = format!("while [ $(cat {}) != 50000 ]; do sleep 0.01; done; echo boosted", read_rate(&device));
    let output = device.brisk(&["launch", "--", "timeout", "30", "sh", "-c", &script]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "boosted\n", "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(device.sampling_rate(), "100000", "restored when the command ended");
}

/// After a daemon's death `brisk launch` boosts each launch itself until the daemon is started again.
// Verifies UNDO-5.
#[test]
fn a_daemon_that_starts_meanwhile_waits_for_the_launch() {
    let device = Device::with(&format!("{LEASE}deadline_ms = 60000\n"));
    let mut launch = device.command(&["launch", "--", "sleep", "1"]).spawn().unwrap();
    eventually("brisk launch boosts", || device.sampling_rate() == "50000");
    let daemon = device.daemon();
    assert_eq!(end_of(&mut launch, PATIENCE).code(), Some(0));
    assert_eq!((device.sampling_rate().as_str(), &daemon.status()["leases"]), ("100000", &serde_json::json!([])));
}

#[test]
fn with_a_daemon_the_daemon_boosts_before_the_command_begins() {
    let device = Device::with(LEASE);
    let daemon = device.daemon();
    let output = device.brisk(&["launch", "--name", "reader", "--", "cat", &read_rate(&device)]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "50000\n");
    assert_eq!(daemon.status()["metrics"]["launches"], 1, "announced twice, before and with its process");
    eventually("its end ends the launch", || device.sampling_rate() == "100000");
}

#[test]
fn a_device_without_cpufreq_runs_the_command_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_brisk"))
        .arg("--root")
        .arg(folder.path())
        .args(["launch", "--verbose", "--", "echo", "here"])
        .output()
        .unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b"here\n"[..]));
    assert!(String::from_utf8_lossy(&output.stderr).contains("has no policy"), "--verbose says why");
}

#[test]
fn signals_reach_the_command() {
    let device = Device::with(LEASE);
    // It ends by itself where no signal reaches it.
    let script =
        "trap 'echo got it; exit 3' USR1; echo ready; n=0; while [ $((n += 1)) -lt 3000 ]; do sleep 0.01; done";
    let mut brisk = device
        .command(&["launch", "--", "sh", "-c", script])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(brisk.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    kill_process(Pid::from_child(&brisk), Signal::USR1).unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "got it");
    assert_eq!(end_of(&mut brisk, PATIENCE).code(), Some(3));
    assert_eq!(device.sampling_rate(), "100000");
}
