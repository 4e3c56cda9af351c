//! Other managers that start and exit while the daemon runs.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};

use super::device::{Daemon, Device, Running};
use crate::patience::PATIENCE;

/// Ondemand has a long sampling period here, so launches are boosted.
const BOARD: &str = "06-embedded-board";
const RATE: &str = "sys/devices/system/cpu/cpufreq/policy0/ondemand/sampling_rate";

fn launch(daemon: &Daemon<'_>) -> Value {
    daemon.status()["mechanisms"][0].clone()
}

/// Waits for a state of launch and a reason that holds `reason`. Meanwhile processes start, as they do on a device in use.
fn becomes(daemon: &Daemon<'_>, state: &str, reason: &str) -> Value {
    let started = Instant::now();
    loop {
        let launch = launch(daemon);
        if launch["state"] == state && launch["reason"].as_str().unwrap().contains(reason) {
            return launch;
        }
        assert!(started.elapsed() < PATIENCE, "never {state} because of {reason:?}: {launch}");
        assert!(Command::new("true").status().unwrap().success());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

// Verifies ON-2.
#[test]
fn launches_are_left_to_a_later_manager_until_it_exits() {
    let device = Device::of_tree(BOARD);
    device.configure("[launch.end]\nload_below_cpu_percent = 0\ndeadline_ms = 60000\n[launch.other_managers]\ncheck_s = 1\naway_s = 3\n");
    let daemon = device.daemon();
    let (rate, tuned) = (device.read(RATE), |is_there: bool| match is_there {
        true => {
            device.write("proc/7777/comm", "tuned\n");
            device.write("proc/7777/status", "Name:\ttuned\nUid:\t0\t0\t0\t0\n");
        }
        false => fs::remove_dir_all(device.path("proc/7777")).unwrap(),
    });
    assert_eq!(launch(&daemon)["state"], "active");
    daemon.announce("browser");
    assert_ne!(device.read(RATE), rate, "the launch is helped");

    tuned(true);
    let left = becomes(&daemon, "available", "left to tuned (process 7777), which has started; ");
    assert!(left["activity"].is_null(), "{left}");
    assert_eq!(
        (device.read(RATE), &daemon.status()["leases"]),
        (rate.clone(), &json!([])),
        "what was held is restored"
    );
    daemon.announce("mail");
    assert_eq!(device.read(RATE), rate);
    let why = String::from_utf8(device.brisk(&["why"]).stdout).unwrap();
    assert!(why.contains("launch         off  auto: this is left to tuned (process 7777), which has started"), "{why}");

    // A restart of the manager is none of brisk's turns.
    tuned(false);
    becomes(&daemon, "available", "which has gone; this is taken over after 3 s without");
    tuned(true);
    becomes(&daemon, "available", "which has started");
    tuned(false);
    let gone_at = Instant::now();
    becomes(&daemon, "active", "launches are noticed by");
    assert!(gone_at.elapsed().as_secs() >= 2, "not before it has stayed away");
    daemon.announce("browser");
    assert_ne!(device.read(RATE), rate, "launches are helped again");
}

// Verifies ON-2.
#[test]
fn the_exec_of_a_manager_is_noticed_within_seconds() {
    const CONFIG: &str = "
[launch]
actuators = [\"sampling-rate\"]
# Whatever else this machine starts meanwhile mutes no event.
maximum_launches_per_minute = 60000
burst_launches = 1000
[launch.other_managers]
check_s = 3600
away_s = 0
";
    let device = Device::of_tree(BOARD);
    device.configure(CONFIG);
    let daemon = device.daemon();
    assert_eq!(launch(&daemon)["state"], "active");
    if !daemon.hears_processes() {
        return;
    }
    let shell = ["-c", "read -r line && exec sleep 600"];
    // A process of this machine that becomes another one; on the recorded device it is a manager.
    let mut manager = Running(Command::new("sh").args(shell).stdin(Stdio::piped()).spawn().unwrap());
    let pid = manager.id();
    device.write(&format!("proc/{pid}/comm"), "gamemoded\n");
    device.write(&format!("proc/{pid}/status"), "Name:\tgamemoded\nUid:\t1000\t1000\t1000\t1000\n");
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    device.write(&format!("proc/{pid}/stat"), &stat.replace("(sh)", "(gamemoded)"));
    manager.0.stdin.take().unwrap().write_all(b"go\n").unwrap();
    becomes(&daemon, "available", &format!("left to GameMode (process {pid}), which has started; "));
}
