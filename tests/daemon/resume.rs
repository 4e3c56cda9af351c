//! An application that is resumed becomes foreground without starting a process; a program reports it to the daemon.

use std::process::Command;

use serde_json::{Value, json};

use super::device::{Daemon, Device, Running, eventually};

/// Ondemand has a long sampling period here, so launches are boosted.
const BOARD: &str = "06-embedded-board";
const RATE: &str = "sys/devices/system/cpu/cpufreq/policy0/ondemand/sampling_rate";
/// No process that this machine starts meanwhile has such a name on the recorded device.
const CONFIG: &str = "
[launch]
actuators = [\"sampling-rate\"]
[launch.filter]
commands = [\"mail\", \"browser\"]
[launch.end]
load_below_cpu_percent = 0
deadline_ms = 1500
";

/// A process that runs on this machine and has a name on the device.
struct Application(Running);

impl Application {
    fn on(device: &Device, name: &str) -> Self {
        let child = Command::new("sleep").arg("600").spawn().unwrap();
        let pid = child.id();
        device.write(
            &format!("proc/{pid}/stat"),
            &format!("{pid} ({name}) S 1 {pid} {pid} 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {pid} 0\n"),
        );
        Self(Running(child))
    }

    fn comes_to_the_foreground(&self, daemon: &Daemon<'_>) -> Value {
        daemon.ask(&json!({"version": 1, "request": "foreground", "pids": [self.0.id()]}));
        daemon.status()
    }
}

// Verifies LAUNCH-1.
#[test]
fn by_default_a_resume_is_boosted_and_a_launch_only_once() {
    let device = Device::of_tree(BOARD);
    device.configure(CONFIG);
    let idle = device.read(RATE);
    // Started before the daemon, which would take their exec for a launch where the kernel reports process events.
    let (mail, browser) = (Application::on(&device, "mail"), Application::on(&device, "browser"));
    let daemon = device.daemon();
    let is_over = || device.read(RATE) == idle && daemon.status()["mechanisms"][0]["activity"].is_null();

    let resumed = mail.comes_to_the_foreground(&daemon);
    assert_ne!(device.read(RATE), idle, "{resumed}");
    let activity = resumed["mechanisms"][0]["activity"]["text"].as_str().unwrap();
    assert!(activity.contains("mail (noticed by foreground)"), "{activity}");
    eventually("the boost ends", is_over);

    daemon.ask(&json!({"version": 1, "request": "launch", "application": "browser", "pid": browser.0.id()}));
    let launched = browser.comes_to_the_foreground(&daemon);
    assert_eq!(launched["metrics"]["launches"], 2, "a foreground change caused by a launch is no second launch");
    let last = launched["decisions"].as_array().unwrap().last().unwrap();
    assert!(last["reason"].as_str().unwrap().contains("noticed by announced"), "{last}");
    eventually("the boost ends", is_over);

    mail.comes_to_the_foreground(&daemon);
    let back = browser.comes_to_the_foreground(&daemon);
    assert_eq!(back["metrics"]["launches"], 4, "each resume is a launch");
}
