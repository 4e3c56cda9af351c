//! The lab with real boots: a static brisk, a stock Debian kernel, QEMU.

mod android;
pub(crate) mod arm64;
mod autogroup;
mod binder_cache;
mod boot;
mod combined;
mod day;
mod energy;
mod flash_model;
mod init;
mod install;
mod interactions;
mod lookup;
mod memory;
mod placement;
mod reboots;
mod recording;
mod sensing;
mod service;
mod session;
mod steps;
mod systemd;
mod telemetry;
mod trace;
mod undo;
mod units;

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use brisk::lab::{self, Channel, GuestLine, Job, LabError, Mode, RunOutcome, Scenario};

use crate::patience::{LONG_PATIENCE, end_of};
use crate::static_brisk::static_brisk;

fn job(binary: &Path, scenario: &str, command: &[&str]) -> Job {
    let mut job = Job::new(Scenario::load(scenario).unwrap(), command.iter().copied());
    job.binary = Some(binary.to_owned());
    job.timeout = Duration::from_secs(180);
    job
}

/// A job whose CPUs run in turn, where no race of two CPUs is tested: see [`Mode::Parallel`] for what QEMU may do otherwise.
fn job_in_turn(binary: &Path, scenario: &str, command: &[&str]) -> Job {
    let mut job = job(binary, scenario, command);
    if job.scenario.machine.mode == Mode::Parallel {
        job.scenario.machine.mode = Mode::InTurn;
    }
    job
}

fn shell_job(binary: &Path, script: &str) -> Job {
    let mut job = job(binary, "debian-6.1", &["sh", "-c", script]);
    job.scenario.guest.self_check = false;
    job.scenario.modules.clear();
    job.busybox = true;
    job
}

fn run(job: &Job) -> (Result<RunOutcome, LabError>, Vec<GuestLine>) {
    let mut lines = Vec::new();
    let outcome = lab::run(job, &mut |line| lines.push(line));
    (outcome, lines)
}

fn results(lines: &[GuestLine]) -> Vec<&str> {
    lines.iter().filter(|line| line.channel == Channel::Results).map(|line| line.text.as_str()).collect()
}

// Verifies LAB-1.
#[test]
fn a_job_runs_on_a_checked_device_and_returns_its_lines() {
    let Some(binary) = static_brisk() else { return };
    let (outcome, lines) = run(&job(binary, "debian-6.1", &["brisk", "lab", "describe"]));
    let outcome = outcome.unwrap();
    assert_eq!(outcome.status, 0);
    let check = outcome.self_check.expect("the scenario asks for it");
    assert_eq!(check.points.len(), 5);
    assert!(check.passed(), "{}", check.figures());

    let device: serde_json::Value = serde_json::from_str(&results(&lines).join("\n")).unwrap();
    assert!(device["kernel"].as_str().unwrap().starts_with(&outcome.kernel), "{device}");
    assert_eq!(device["cpu_count"], 1);
    assert_eq!(device["cgroup"], "cgroup2");
    let policy = &device["cpufreq"][0];
    assert_eq!(policy["frequencies_khz"], serde_json::json!([200_000, 500_000, 800_000, 1_000_000, 1_200_000]));
    assert_eq!(device["energy_zones"][0], "virtual-cpufreq:0 package-0");
}

// Verifies LAB-1.
#[test]
fn files_stderr_and_the_exit_status_come_through() {
    let Some(binary) = static_brisk() else { return };
    let job = shell_job(binary, "cat /job/a/plan; echo aside >&2; printf 'no end of line'; exit 7");
    let (outcome, lines) = run(&job.with_file("/job/a/plan", "one\ntwo\n"));
    assert_eq!(outcome.unwrap().status, 7);
    assert_eq!(results(&lines), ["one", "two", "no end of line"]);
    assert!(lines.iter().any(|line| line.channel == Channel::Console && line.text == "aside"));
}

#[test]
fn lines_come_while_the_guest_runs() {
    let Some(binary) = static_brisk() else { return };
    let work = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
    let (outcome, lines) = run(&shell_job(binary, &format!("echo first; {work}; echo second")));
    outcome.unwrap();
    let walls: Vec<_> =
        lines.iter().filter(|line| line.channel == Channel::Results).map(|line| line.host.wall).collect();
    assert!(walls[1] - walls[0] > Duration::from_millis(50), "{lines:?}");
}

#[test]
fn a_parallel_guest_has_two_cpus_and_a_clock_a_thread() {
    let Some(binary) = static_brisk() else { return };
    let (outcome, lines) = run(&job(binary, "debian-6.1-parallel", &["brisk", "lab", "describe"]));
    assert_eq!(outcome.unwrap().status, 0);
    let device: serde_json::Value = serde_json::from_str(&results(&lines).join("\n")).unwrap();
    assert_eq!(device["cpu_count"], 2);
    let last = &lines.iter().rfind(|line| line.channel == Channel::Results).unwrap().host;
    assert_eq!(last.run_delay.len(), 2);
    assert!(last.run_delay.iter().all(|delay| *delay < last.wall), "{last:?}");
}

// Verifies LAB-1.
#[test]
fn a_panic_is_noticed_at_once() {
    let Some(binary) = static_brisk() else { return };
    let (outcome, _) = run(&shell_job(binary, "echo c > /proc/sysrq-trigger; echo alive"));
    match outcome.unwrap_err() {
        LabError::Kernel { line, last_lines } => {
            assert!(line.contains("sysrq triggered crash") || line.contains("BUG: kernel NULL"), "{line}");
            assert!(last_lines.iter().any(|line| line.contains("Call Trace")), "{last_lines:?}");
        }
        error => panic!("{error}"),
    }
}

// Verifies LAB-1.
#[test]
fn a_time_out_reports_the_last_lines() {
    let Some(binary) = static_brisk() else { return };
    // On a busy host a boot takes much longer than on an idle one.
    let boot = run(&shell_job(binary, "true")).0.unwrap().wall;
    let mut job = shell_job(binary, "echo last words; while :; do :; done");
    job.timeout = boot * 2 + Duration::from_secs(5);
    let start = Instant::now();
    match run(&job).0.unwrap_err() {
        LabError::TimedOut { last_lines, .. } => assert!(last_lines.contains(&"last words".into()), "{last_lines:?}"),
        error => panic!("{error}"),
    }
    assert!(start.elapsed() < job.timeout + Duration::from_secs(20));
}

// Verifies LAB-1.
#[test]
fn a_hanging_kernel_is_distinguished_from_a_hanging_command() {
    let Some(binary) = static_brisk() else { return };
    let mut job = shell_job(binary, "true");
    // Its CPUs do not run.
    job.scenario.machine.arguments.push("-S".into());
    job.boot_timeout = Duration::from_secs(1);
    let start = Instant::now();
    match run(&job).0.unwrap_err() {
        LabError::BootTimedOut { limit, last_lines } => assert_eq!((limit, last_lines), (job.boot_timeout, vec![])),
        error => panic!("{error}"),
    }
    assert!(start.elapsed() >= 3 * job.boot_timeout, "it was started three times");
}

#[test]
fn a_module_that_does_not_load_fails_the_lab_with_its_name() {
    let Some(binary) = static_brisk() else { return };
    let mut job = job(binary, "debian-6.1", &["brisk", "lab", "list"]);
    let module = job.scenario.modules.last_mut().unwrap();
    module.parameters.insert("frequencies_mhz".into(), "1200,200".into());
    match run(&job).0.unwrap_err() {
        LabError::Ended { reason, .. } => {
            assert!(reason.starts_with("cannot load the kernel module virtual_cpufreq"), "{reason}");
        }
        error => panic!("{error}"),
    }
}

// Verifies LAB-1.
#[test]
fn a_device_without_frequency_effect_fails_the_self_check() {
    let Some(binary) = static_brisk() else { return };
    let mut job = job(binary, "debian-6.1", &["brisk", "lab", "list"]);
    // Each stall is reduced by much more than an interrupt's cost, so that the lowest frequency slows too little.
    let module = job.scenario.modules.last_mut().unwrap();
    module.parameters.insert("overhead_ns".into(), toml::Value::Integer(50_000));
    match run(&job).0.unwrap_err() {
        LabError::SelfCheck { check } => assert!(!check.passed(), "{}", check.figures()),
        error => panic!("{error}"),
    }
}

// Verifies LAB-1.
#[test]
fn two_machines_run_at_the_same_time_on_a_core_each() {
    let Some(binary) = static_brisk() else { return };
    let cores = std::thread::available_parallelism().unwrap().get();
    std::thread::scope(|scope| {
        let boots = [0, 1].map(|core| {
            scope.spawn(move || {
                let mut job = shell_job(binary, "echo $((6 * 7))");
                job.core = Some(core % cores);
                let (outcome, lines) = run(&job);
                assert_eq!(outcome.unwrap().status, 0);
                assert_eq!(results(&lines), ["42"]);
            })
        });
        for boot in boots {
            boot.join().unwrap();
        }
    });
}

fn children_of(parent: u32) -> Vec<u32> {
    let path = format!("/proc/{parent}/task/{parent}/children");
    let children = std::fs::read_to_string(path).unwrap_or_default();
    children.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

// Verifies LAB-1.
#[test]
fn a_killed_brisk_leaves_no_emulator() {
    let Some(binary) = static_brisk() else { return };
    for signal in [rustix::process::Signal::KILL, rustix::process::Signal::TERM, rustix::process::Signal::INT] {
        // A shell that started the tests in the background lets them ignore SIGINT, and that is inherited.
        let mut brisk = Command::new("env")
            .arg("--default-signal=INT")
            .arg(binary)
            .args(["lab", "run", "debian-6.1", "--busybox", "--", "sh", "-c", "while :; do :; done"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let is_emulator = |pid: &u32| {
            std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.starts_with("qemu-system"))
        };
        let emulator = wait_for("an emulator", || children_of(brisk.id()).into_iter().find(is_emulator));
        let pid = rustix::process::Pid::from_child(&brisk);
        rustix::process::kill_process(pid, signal).unwrap();
        end_of(&mut brisk, LONG_PATIENCE);
        wait_for("the emulator's end", || (!is_emulator(&emulator)).then_some(()));
    }
}

#[test]
fn a_shell_has_the_console_as_its_terminal() {
    let Some(binary) = static_brisk() else { return };
    let mut brisk = Command::new(binary)
        .args(["lab", "shell", "debian-6.1", "--timeout", "180"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (mut keys, mut screen) = (brisk.stdin.take().unwrap(), brisk.stdout.take().unwrap());
    let mut seen = String::new();
    let mut buffer = [0; 256];
    // Input before the prompt would be lost.
    while !seen.contains("/ # ") {
        let count = screen.read(&mut buffer).unwrap();
        assert_ne!(count, 0, "no prompt: {seen}");
        seen.push_str(&String::from_utf8_lossy(&buffer[..count]));
    }
    keys.write_all(b"tty; exit 3\n").unwrap();
    screen.read_to_string(&mut seen).unwrap();
    assert_eq!(end_of(&mut brisk, LONG_PATIENCE).code(), Some(3), "{seen}");
    assert!(seen.contains("\n/dev/ttyS0"), "{seen}");
}

fn wait_for<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    while Instant::now() < deadline {
        if let Some(value) = condition() {
            return value;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("waited a minute for {what}");
}

// Verifies LAB-1.
#[test]
fn exits_with_69_for_a_failed_lab_and_2_for_a_wrong_scenario() {
    let Some(binary) = static_brisk() else { return };
    for (arguments, expected, message) in [
        (&["lab", "run", "none"][..], 2, "there is no scenario none: known are "),
        (&["lab", "run", "debian-6.1", "--timeout", "1"], 69, "no end after 1 s"),
    ] {
        let output = Command::new(binary).args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(expected), "{said}");
        assert!(said.contains(message), "{said}");
    }
}
