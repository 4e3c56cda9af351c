//! A phone with Android's generic kernel, from its recorded tree: the kernel reports no process events, and the daemon detects
//! launches by the cpuset that Android moves foreground applications into.

use std::fs;
use std::io::Write;
use std::process::Command;

use super::device::{Device, Running, eventually};

const TREE: &str = "03-android-gki-phone";
const TOP_APP: &str = "dev/cpuset/top-app/cgroup.procs";
const LIMIT: &str = "sys/devices/system/cpu/cpufreq/policy0/schedutil/rate_limit_us";

/// An application of `device`: a process that exists on this machine too, so that its exit is not reported before its launch.
struct Application(Running);

impl Application {
    fn forked_on(device: &Device) -> Self {
        let child = Command::new("sleep").arg("600").spawn().unwrap();
        let pid = child.id();
        let recorded = device.read("proc/5402/stat");
        device.write(&format!("proc/{pid}/stat"), &recorded.replace("5402", &pid.to_string()));
        for file in ["status", "oom_score_adj"] {
            device.write(&format!("proc/{pid}/{file}"), &device.read(&format!("proc/5402/{file}")));
        }
        Self(Running(child))
    }

    /// Android appends its thread group to the cpuset.
    fn comes_to_the_foreground(&self, device: &Device) {
        let mut members = fs::OpenOptions::new().append(true).open(device.path(TOP_APP)).unwrap();
        writeln!(members, "{}", self.0.id()).unwrap();
    }
}

// Verifies ANDROID-1.
#[test]
fn by_default_a_new_foreground_process_is_clamped() {
    let device = Device::of_tree(TREE);
    let daemon = device.daemon();
    let status = daemon.status();
    assert_eq!(status["sensors"]["foreground"], "watched", "{status}");
    let application = Application::forked_on(&device);
    application.comes_to_the_foreground(&device);
    let pid = application.0.id();
    eventually("its launch is noticed and boosted", || {
        let status = daemon.status();
        let mut decisions = status["decisions"].as_array().unwrap().iter();
        // Whether this machine's own kernel supports clamps does not matter: the decision is recorded either way.
        decisions.any(|decision| {
            decision["target"]["utilization-clamp-minimum"]["pid"] == pid
                && decision["reason"].as_str().unwrap().contains("noticed by foreground")
        })
    });
    assert_eq!(daemon.status()["metrics"]["launches"], 1, "an earlier foreground application is no launch");
}

// Verifies ANDROID-1.
#[test]
fn a_lease_begins_and_ends_with_a_launch_in_the_foreground() {
    let device = Device::of_tree(TREE);
    let settings = "[launch]\nforce = true\nactuators = [\"rate-limit\"]\n[launch.end]\nload_below_cpu_percent = 0\ndeadline_ms = 60000\n";
    device.write("vendor/etc/brisk/brisk.toml", settings);
    let daemon = device.daemon();
    let application = Application::forked_on(&device);
    assert_eq!(device.read(LIMIT).trim(), "10000");
    application.comes_to_the_foreground(&device);
    eventually("the lease", || device.read(LIMIT).trim() == "0");
    let status = daemon.status();
    let activity = status["mechanisms"][0]["activity"]["text"].as_str().unwrap();
    assert!(activity.contains("id.apps.photos (noticed by foreground)"), "{activity}");
    drop(application);
    // A process of a recorded tree has no pidfd: only process events report its exit.
    if daemon.hears_processes() {
        eventually("its end ends the lease", || device.read(LIMIT).trim() == "10000");
    }
}

// Verifies ANDROID-1.
#[test]
fn doctor_names_launch_triggers_and_offers_none_without_them() {
    let device = Device::of_tree(TREE);
    let launch = || {
        let output = device.brisk(&["doctor", "--json"]);
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let mechanisms = report["mechanisms"].as_array().unwrap();
        let launch = mechanisms.iter().find(|mechanism| mechanism["name"] == "launch").unwrap();
        ["state", "reason", "advice"].map(|part| launch[part].as_str().unwrap().to_owned())
    };
    let [state, reason, _] = launch();
    assert!(state == "available" && reason.ends_with("; launches are noticed by the top-app cpuset"), "{reason}");
    device.write("vendor/etc/brisk/brisk.toml", "[launch]\ntriggers = [\"fork\", \"exec\"]\n");
    let [state, reason, advice] = launch();
    assert!(state == "unsupported" && reason.contains("noticed by nothing"), "{state}: {reason}");
    assert!(advice.contains("CONFIG_PROC_EVENTS"), "{advice}");
    device.write("vendor/etc/brisk/brisk.toml", "[launch]\ntriggers = [\"announced\"]\n");
    let [state, reason, advice] = launch();
    assert!(state == "available" && reason.ends_with("noticed by announcements alone"), "{state}: {reason}");
    assert!(advice.contains("brisk launch"), "{advice}");
}
