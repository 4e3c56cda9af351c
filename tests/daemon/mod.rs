//! The real daemon on a device made of files: how it handles real launches, and what must not disturb it.

mod control;
pub mod device;
mod dry_run;
mod launch;
mod listeners;
mod lookup;
mod managers;
mod phone;
mod recording;
mod resume;
mod session;
mod switches;
mod telemetry;

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use brisk::sys::{BootTime, Root, Target};
use brisk::undo::journal::{Holder, Journal};
use rustix::process::Signal;

use device::{Device, Messages, eventually, exists};

use crate::patience::{Limit, PATIENCE, end_of};

const LEASE: &str = "
[placement]
enabled = false
[launch]
triggers = [\"announced\"]
actuators = [\"sampling-rate\"]
[launch.sampling_rate]
sampling_rate_us = 50000
[launch.end]
load_below_cpu_percent = 0
";

#[test]
fn real_forks_and_execs_become_kicks() {
    let device = Device::with("[launch]\nmaximum_launches_per_minute = 60000\nburst_launches = 1000\n");
    let daemon = device.daemon();
    if !daemon.hears_processes() {
        return;
    }
    eventually("a program of ours is noticed and the governor kicked", || {
        let mut program = Command::new("sleep").arg("0.01").spawn().unwrap();
        assert!(program.wait().unwrap().success());
        // The name is known when the exec was reported, but not when only the fork was.
        let [named, unnamed] =
            ["launch of sleep (process", "launch of process"].map(|what| format!("{what} {}", program.id()));
        let is_its_launch = |reason: &str| {
            let rest = reason.strip_prefix(&named).or_else(|| reason.strip_prefix(&unnamed));
            rest.is_some_and(|rest| rest.starts_with([')', ',']))
        };
        let status = daemon.status();
        let decisions = status["decisions"].as_array().unwrap();
        let kicked = |tunable: &str| {
            decisions.iter().any(|decision| {
                decision["action"] == "rewrite"
                    && decision["target"]["tunable"].as_str().unwrap().ends_with(tunable)
                    && is_its_launch(decision["reason"].as_str().unwrap())
            })
        };
        kicked("/ondemand/io_is_busy") && kicked("/ondemand/sampling_rate")
    });
    assert_eq!(device.sampling_rate(), "100000");
    let metrics = &daemon.status()["metrics"];
    assert!(metrics["launches"].as_u64().unwrap() > 0);
    assert_eq!(metrics["failures"], 0);
    let counts = metrics["event_to_write"]["counts"].as_array().unwrap();
    assert!(counts.iter().map(|count| count.as_u64().unwrap()).sum::<u64>() > 0, "latencies are measured");
}

#[test]
fn a_sampling_rate_lease_lasts_as_long_as_the_launch() {
    let device = Device::with(LEASE);
    let daemon = device.daemon();
    daemon.announce("browser");
    assert_eq!(device.sampling_rate(), "50000");
    let status = daemon.status();
    assert_eq!(status["leases"][0]["original"], "100000");
    assert!(status["mechanisms"][0]["activity"]["text"].as_str().unwrap().contains("browser"));
    daemon.finish("browser");
    assert_eq!(device.sampling_rate(), "100000");
    assert_eq!(daemon.status()["leases"].as_array().unwrap().len(), 0);
}

#[test]
fn a_launch_without_an_end_ends_at_its_deadline() {
    let device = Device::with(&format!("{LEASE}deadline_ms = 300\n"));
    let daemon = device.daemon();
    daemon.announce("browser");
    assert_eq!(device.sampling_rate(), "50000");
    eventually("the deadline ends the lease", || device.sampling_rate() == "100000");
    assert!(daemon.status()["mechanisms"][0]["activity"].is_null());
}

#[test]
fn any_end_of_the_daemon_restores_its_leases() {
    for signal in [Signal::TERM, Signal::INT, Signal::KILL] {
        let device = Device::with(LEASE);
        let mut daemon = device.daemon();
        daemon.announce("browser");
        assert_eq!(device.sampling_rate(), "50000");
        daemon.signal(signal);
        let status = daemon.end();
        if signal == Signal::KILL {
            eventually("the guardian restores", || device.sampling_rate() == "100000");
        } else {
            assert_eq!(status.code(), Some(0), "{signal:?}");
            assert_eq!(device.sampling_rate(), "100000");
            assert!(!exists(&device.path("run/brisk/control")));
        }
    }
}

// Verifies ON-1.
#[test]
fn launches_are_left_to_another_manager_unless_configured() {
    let device = Device::of_tree("06-embedded-board");
    device.write("sys/fs/cgroup/system.slice/tuned.service/cgroup.procs", "7\n");
    let mut daemon = device.daemon();
    let state = |daemon: &device::Daemon| daemon.status()["mechanisms"][0].clone();
    let left = state(&daemon);
    assert_eq!(left["state"], "available", "{left}");
    let reason = left["reason"].as_str().unwrap();
    assert!(reason.starts_with("auto: this is left to tuned (/sys/fs/cgroup/"), "{reason}");
    device.configure("[launch]\nenabled = true\n");
    daemon.signal(Signal::HUP);
    daemon.says("configuration reloaded");
    assert_eq!(state(&daemon)["state"], "active");
    device.configure("");
    fs::remove_dir_all(device.path("sys/fs/cgroup/system.slice")).unwrap();
    daemon.signal(Signal::HUP);
    daemon.says("configuration reloaded");
    assert_eq!(state(&daemon)["state"], "active", "the manager has exited");
}

// Verifies UNDO-4.
#[test]
fn a_dead_guardian_is_replaced_and_the_next_restores_leases() {
    let device = Device::with(LEASE);
    let mut daemon = device.daemon();
    daemon.announce("browser");
    let first = daemon.status()["guardian_pid"].as_i64().unwrap();
    let pid = rustix::process::Pid::from_raw(i32::try_from(first).unwrap()).unwrap();
    // Read only after the guardian was replaced: while the daemon answers a request it does not replace a guardian.
    let children = format!("/proc/{0}/task/{0}/children", daemon.child.id());
    rustix::process::kill_process(pid, Signal::KILL).unwrap();
    let is_replaced = || {
        let children = fs::read_to_string(&children).unwrap_or_default();
        children.split_whitespace().any(|child| child.parse() != Ok(first))
    };
    // In the lab, whose clock stops while the host is busy, 20 ms are allowed.
    eventually("another guardian is started", is_replaced);
    daemon.signal(Signal::KILL);
    daemon.end();
    eventually("the next guardian restores", || device.sampling_rate() == "100000");

    let daemon = device.daemon();
    let first = daemon.status()["guardian_pid"].as_i64().unwrap();
    rustix::process::kill_process(rustix::process::Pid::from_raw(first as i32).unwrap(), Signal::KILL).unwrap();
    eventually("another guardian watches", || {
        daemon.status()["guardian_pid"].as_i64().is_some_and(|second| second != first)
    });
    let status = daemon.status();
    assert_eq!(status["metrics"]["guardian_restarts"], 1);
    // Field 41 of stat: the daemon's real-time policy speeds up its guardian's start alone.
    let stat = format!("/proc/{}/stat", status["guardian_pid"]);
    eventually("the guardian is an ordinary task", || {
        let stat = fs::read_to_string(&stat).unwrap();
        stat.rsplit_once(')').unwrap().1.split_ascii_whitespace().nth(38) == Some("0")
    });
}

/// Voluntary context switches of `pid`: how often it has slept.
fn sleeps(pid: u64) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
    line.trim().parse().unwrap()
}

// Verifies COST-2.
#[test]
fn the_daemon_sleeps_while_nothing_happens() {
    let device = Device::with(&format!("{LEASE}deadline_ms = 60000\n"));
    let daemon = device.daemon();
    let pids = [u64::from(daemon.child.id()), daemon.status()["guardian_pid"].as_u64().unwrap()];
    for what in ["nothing leased", "a lease that holds"] {
        // The guardian collects events for up to a second.
        std::thread::sleep(Duration::from_millis(2500));
        let before = pids.map(sleeps);
        std::thread::sleep(Duration::from_secs(5));
        assert_eq!(pids.map(sleeps), before, "daemon and guardian, {what}");
        daemon.announce("browser");
        assert_eq!(device.sampling_rate(), "50000");
    }
}

// Verifies UNDO-2.
#[test]
fn a_sooner_lease_expires_in_time_when_the_daemon_hangs() {
    let device = Device::with(&format!("{LEASE}deadline_ms = 60000\n"));
    let daemon = device.daemon();
    daemon.announce("first");
    std::thread::sleep(Duration::from_millis(1500));
    daemon.finish("first");
    device.configure(&format!("{LEASE}deadline_ms = 1000\n"));
    daemon.signal(Signal::HUP);
    eventually("it hangs with a short lease in force", || {
        daemon.announce("second");
        let lease = daemon.status()["leases"][0].clone();
        let lasts_ns = lease["until"].as_u64().unwrap_or(u64::MAX) - lease["since"].as_u64().unwrap_or(0);
        daemon.signal(Signal::STOP);
        let hangs = lasts_ns <= 1_000_000_000 && device.sampling_rate() == "50000";
        if !hangs {
            daemon.signal(Signal::CONT);
        }
        hangs
    });
    let stopped = Instant::now();
    eventually("the guardian restores it", || device.sampling_rate() == "100000");
    assert!(stopped.elapsed() < Duration::from_secs(10), "{:?}", stopped.elapsed());
    daemon.signal(Signal::CONT);
}

#[test]
fn a_second_daemon_is_refused_with_the_first_ones_pid() {
    let device = Device::new();
    let daemon = device.daemon();
    let second = device.brisk(&["daemon"]);
    assert_eq!(second.status.code(), Some(2));
    let said = String::from_utf8(second.stderr).unwrap();
    assert!(said.contains(&format!("in use by another brisk (process {})", daemon.child.id())), "{said}");
    assert!(exists(&device.path("run/brisk/control")), "the first one's socket stays");
    daemon.status();
}

#[test]
fn a_bad_configuration_keeps_the_old_one_and_says_so() {
    let device = Device::with(LEASE);
    let mut daemon = device.daemon();
    device.configure("[launch]\nspeed = \"high\"\n");
    daemon.signal(Signal::HUP);
    let said = daemon.says("the configuration stays as it was");
    assert!(said.contains("etc/brisk/brisk.toml:2:1: unknown field `speed`"), "{said}");
    assert!(daemon.status()["configuration_error"].as_str().unwrap().contains("unknown field `speed`"));
    daemon.announce("browser");
    assert_eq!(device.sampling_rate(), "50000", "the old configuration is in force");
    device.configure(&LEASE.replace("50000", "20000"));
    daemon.signal(Signal::HUP);
    daemon.says("configuration reloaded");
    assert!(daemon.status()["configuration_error"].is_null());
    assert_eq!(device.sampling_rate(), "20000", "a launch continues with the new one");
    daemon.finish("browser");
    assert_eq!(device.sampling_rate(), "100000");
}

/// A leased value, taken for the device's original, would leave nothing to gain.
// Verifies LAUNCH-2.
#[test]
fn a_leased_value_is_not_taken_for_the_original() {
    let rate = format!("{LEASE}deadline_ms = 60000\n");
    let maximum = rate.replace("\"sampling-rate\"", "\"scaling-min-freq\"");
    let limit = Device::tunable("scaling_min_freq");
    for (config, file, ours) in
        [(rate, Device::tunable("ondemand/sampling_rate"), "50000"), (maximum, limit, "1200000")]
    {
        let device = Device::with(&config);
        let mut daemon = device.daemon();
        let value = || fs::read_to_string(device.path(&file)).unwrap().trim().to_owned();
        let stock = value();
        daemon.announce("browser");
        assert_eq!(value(), ours);
        daemon.signal(Signal::HUP);
        let said = daemon.says("configuration reloaded");
        assert_eq!(value(), ours, "the launch continues: {said}");
        // Another program sets a limit, as thermal daemons often do.
        device.write(&Device::tunable("scaling_max_freq"), "1200000\n");
        eventually("the daemon probes the device again", || {
            let status = daemon.status();
            let decisions = status["decisions"].as_array().unwrap();
            let leased = |it: &&serde_json::Value| it["action"] == "lease";
            decisions.iter().filter(leased).count() == 3
        });
        assert_eq!(daemon.status()["mechanisms"][0]["state"], "active", "{}", daemon.status());
        assert_eq!((value().as_str(), daemon.status()["leases"][0]["original"].as_str()), (ours, Some(&*stock)));
        daemon.finish("browser");
        assert_eq!(value(), stock);
    }
}

#[test]
fn a_daemon_does_not_start_with_a_bad_configuration() {
    let device = Device::with("[launch.end]\ndeadline_ms = \"soon\"\n");
    let output = device.brisk(&["daemon"]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("brisk.toml:2:15: invalid type: string \"soon\""), "{said}");
}

#[test]
fn a_governor_change_is_noticed_and_followed() {
    let device = Device::with(LEASE);
    let mut daemon = device.daemon();
    daemon.announce("browser");
    assert_eq!(device.sampling_rate(), "50000");
    device.write(&Device::tunable("scaling_governor"), "performance\n");
    let said = daemon.says("the device changed");
    assert!(said.contains("governor performance holds the maximum already"), "{said}");
    assert_eq!(device.sampling_rate(), "100000", "the lease of the old plan is restored");
    assert_eq!(daemon.status()["mechanisms"][0]["state"], "available");
    device.write(&Device::tunable("scaling_governor"), "ondemand\n");
    daemon.says("the device changed");
    daemon.announce("editor");
    assert_eq!(device.sampling_rate(), "50000");
}

#[test]
fn a_tunable_that_vanishes_is_reported_and_probed_for() {
    let device = Device::with("[launch]\ntriggers = [\"announced\"]\n");
    let mut daemon = device.daemon();
    daemon.announce("browser");
    let file = device.path(&Device::tunable("ondemand/sampling_rate"));
    fs::remove_file(&file).unwrap();
    daemon.announce("editor");
    let said = daemon.says("cannot");
    assert!(said.contains("ondemand/sampling_rate") && said.contains("see `brisk doctor`"), "{said}");
    // brisk does not know ondemand without sampling_rate: it probes again and continues with the tunables that exist.
    daemon.says("the device changed");
    fs::write(file, "100000\n").unwrap();
    daemon.signal(Signal::HUP);
    daemon.says("configuration reloaded; launch: kick on policy0");
}

// Verifies DAEMON-1.
#[test]
fn a_dry_run_prints_what_it_would_do_and_writes_nothing() {
    let device = Device::with("[launch]\nmaximum_launches_per_minute = 60000\n[launch.kick]\nat_us = [0, 1000]\n");
    let guardian = {
        let probe = device.daemon();
        if !probe.hears_processes() {
            return;
        }
        probe.status()["guardian_pid"].as_u64().unwrap()
    };
    // The guardian outlives the daemon briefly, and uses that folder.
    let command_line = format!("/proc/{guardian}/cmdline");
    eventually("the guardian ends", || fs::read(&command_line).map_or(true, |words| words.is_empty()));
    fs::remove_dir_all(device.path("run/brisk")).unwrap();
    let before = fs::metadata(device.path(&Device::tunable("ondemand/io_is_busy"))).unwrap().modified().unwrap();
    let mut dry = device
        .command(&["daemon", "--dry-run", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let _limit = Limit::of(&dry, PATIENCE);
    Messages::of(dry.stderr.take().unwrap()).await_line("brisk: ready");
    assert!(Command::new("true").status().unwrap().success());
    let mut line = String::new();
    BufReader::new(dry.stdout.take().unwrap()).read_line(&mut line).unwrap();
    rustix::process::kill_process(rustix::process::Pid::from_child(&dry), Signal::TERM).unwrap();
    assert!(end_of(&mut dry, PATIENCE).success());
    let decision: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&decision["mechanism"], &decision["action"]), (&"launch".into(), &"rewrite".into()));
    assert!(!exists(&device.path("run/brisk")), "no journal, no socket, no guardian");
    let after = fs::metadata(device.path(&Device::tunable("ondemand/io_is_busy"))).unwrap().modified().unwrap();
    assert_eq!(after, before);
}

#[test]
fn without_a_daemon_status_says_so() {
    let device = Device::new();
    let output = device.brisk(&["status"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("no daemon is running"));
    let json = device.brisk(&["status", "--json"]);
    assert_eq!((json.status.code(), json.stdout.as_slice()), (Some(1), &b"{\"running\":false}\n"[..]));
}

#[test]
fn status_is_printed_as_text_json_and_metrics() {
    let device = Device::with(LEASE);
    let daemon = device.daemon();
    daemon.announce("browser");
    let text = String::from_utf8(device.brisk(&["status"]).stdout).unwrap();
    for part in [
        &format!("runs as process {}", daemon.child.id()),
        "launch: active",
        "boosting the launch of browser (noticed by announced) since ",
        "holds 50000 in place of 100000",
        "launch of browser, noticed by announced",
    ] {
        assert!(text.contains(part), "{part:?} is missing in {text}");
    }
    let json: serde_json::Value = serde_json::from_slice(&device.brisk(&["status", "--json"]).stdout).unwrap();
    assert_eq!(json["pid"], daemon.child.id());
    let metrics = String::from_utf8(device.brisk(&["status", "--metrics"]).stdout).unwrap();
    assert!(metrics.contains("\nbrisk_launches_total 1\n"), "{metrics}");
    assert!(metrics.contains("\nbrisk_active{mechanism=\"launch\"} 1\n") && metrics.ends_with("# EOF\n"), "{metrics}");
}

// Verifies ON-4.
#[test]
fn status_reports_a_held_boot() {
    let device = Device::new();
    let governor = Device::tunable("scaling_governor");
    device.write(&Device::tunable("scaling_available_governors"), "ondemand performance\n");
    let root = Root::at(device.path(""));
    let mut journal = Journal::open(Holder::Boot, &Holder::Boot.folder(&root), &root).unwrap();
    let target = Target::Governor("/sys/devices/system/cpu/cpufreq/policy0".into());
    let now = BootTime::now();
    journal.lease(now, &target, "performance", now + Duration::from_secs(600), "a boot").unwrap();
    let daemon = device.daemon();
    let boot = || {
        let status = daemon.status();
        let mechanisms = status["mechanisms"].as_array().unwrap();
        let names: Vec<_> = mechanisms.iter().map(|it| it["name"].as_str().unwrap().to_owned()).collect();
        assert_eq!(names, ["launch", "placement", "memory", "lookup", "boot"]);
        mechanisms[4].clone()
    };
    let held = boot();
    assert_eq!(held["state"], "active", "{held}");
    assert!(held["reason"].as_str().unwrap().contains("holds 1 governors"), "{held}");
    assert!(!held["activity"].is_null());
    drop(journal);
    assert_eq!(device.read(&governor).trim(), "ondemand");
    let over = boot();
    assert!(over["state"] == "available" && over["activity"].is_null(), "{over}");
}
