//! Every write can be undone. Real daemons and guardians are killed on a tree of files.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use brisk::experiment::runner;
use brisk::sys::{BootTime, Root, Target};
use brisk::undo::journal::{Holder, Journal, JournalState};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};

use crate::patience::{LONG_PATIENCE, Limit, OutputWithin, PATIENCE};

const TUNABLES: [&str; 3] = ["sampling_rate", "io_is_busy", "up_threshold"];
const ORIGINAL: &str = "100000\n";
const FOLDER: &str = "/sys/devices/system/cpu/cpufreq/governor";
const ARGUMENTS: [&str; 3] = [
    "/sys/devices/system/cpu/cpufreq/governor/sampling_rate=1,22,333333333",
    "/sys/devices/system/cpu/cpufreq/governor/io_is_busy=5",
    "/sys/devices/system/cpu/cpufreq/governor/up_threshold=80,90",
];

struct Device {
    folder: tempfile::TempDir,
}

impl Device {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(Root::at(folder.path()).path(FOLDER)).unwrap();
        fs::create_dir_all(folder.path().join("run")).unwrap();
        for name in TUNABLES {
            fs::write(Root::at(folder.path()).path(FOLDER).join(name), ORIGINAL).unwrap();
        }
        Self { folder }
    }

    fn root(&self) -> Root {
        Root::at(self.folder.path())
    }

    /// The path of tunable `name`.
    fn place(&self, name: &str) -> PathBuf {
        self.root().path(FOLDER).join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_brisk"));
        command.arg("--root").arg(self.folder.path()).args(arguments);
        command
    }

    fn brisk(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output_within(LONG_PATIENCE)
    }

    fn is_original(&self) -> bool {
        TUNABLES.iter().all(|name| fs::read_to_string(self.place(name)).unwrap().trim_end() == ORIGINAL.trim_end())
    }

    /// A daemon that leases at random, and the pid of its guardian.
    fn daemon(&self) -> (Daemon, u32) {
        let mut child = self
            .command(&["soak", "--be-daemon", "--seed", "7"])
            .args(ARGUMENTS)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let mut daemon = Daemon { child, lines };
        let _limit = Limit::of(&daemon.child, PATIENCE);
        daemon.lines.read_line(&mut line).unwrap();
        (daemon, line.trim().parse().unwrap())
    }
}

/// No process of this device outlives a test, even a failed one.
impl Drop for Device {
    fn drop(&mut self) {
        let folder = self.folder.path().as_os_str().as_bytes();
        let is_here = |pid: &u32| {
            let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            arguments.split(|byte| *byte == 0).any(|argument| argument.strip_suffix(b"/").unwrap_or(argument) == folder)
        };
        let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        for pid in pids.filter(is_here) {
            let Ok(process) = pidfd_open(Pid::from_raw(pid as i32).unwrap(), PidfdFlags::empty()) else { continue };
            // Check again: once the pidfd is open, the number cannot belong to another process.
            if is_here(&pid) && pidfd_send_signal(&process, Signal::KILL).is_ok() {
                let _ = poll(&mut [PollFd::new(&process, PollFlags::IN)], None);
            }
        }
    }
}

/// A daemon; dropped, it is killed.
struct Daemon {
    child: Child,
    /// The daemon reports its next guardian, if it needs one, through this pipe.
    lines: BufReader<ChildStdout>,
}

impl Daemon {
    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid as i32).unwrap(), signal).unwrap();
}

fn within(limit: Duration, what: &str, condition: impl Fn() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < limit, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn is_running(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

// Verifies UNDO-4.
#[test]
fn any_kill_leaves_nothing_changed() {
    let device = Device::new();
    let output =
        device.command(&["soak", "--kills", "48", "--seed", "11"]).args(ARGUMENTS).output_within(LONG_PATIENCE);
    let tally = String::from_utf8(output.stdout).unwrap();
    println!("{tally}");
    assert!(output.status.success(), "{tally}{}", String::from_utf8_lossy(&output.stderr));
    let tally: serde_json::Value = serde_json::from_str(&tally).unwrap();
    assert_eq!((tally["kills"].as_u64(), tally["left_changed"].as_u64()), (Some(48), Some(0)));
    assert!(tally["found_changed"].as_u64() >= Some(3), "the kills hit leases: {tally}");
    assert!(tally["apart"].as_u64() >= Some(3), "{tally}");
    // The lab, whose clock stops while the host is busy, allows 20 ms.
    assert!(tally["longest_unguarded_us"].as_u64() < Some(500_000), "a dead guardian is replaced at once: {tally}");
    assert!(device.is_original());
}

// Verifies UNDO-2.
#[test]
fn a_daemon_that_hangs_loses_its_overdue_leases() {
    let device = Device::new();
    let (mut daemon, _) = device.daemon();
    // Stop it repeatedly until it holds a lease when it stops.
    within(Duration::from_secs(60), "the daemon never held anything", || {
        signal(daemon.child.id(), Signal::STOP);
        let held = !device.is_original();
        if !held {
            signal(daemon.child.id(), Signal::CONT);
        }
        held
    });
    within(Duration::from_secs(15), "the guardian restores overdue leases", || device.is_original());
    daemon.kill();
}

#[test]
fn the_guardian_survives_the_daemons_signals_and_ends_with_it() {
    let device = Device::new();
    let (mut daemon, guardian) = device.daemon();
    for meant_for_the_daemon in [Signal::TERM, Signal::INT, Signal::HUP] {
        signal(guardian, meant_for_the_daemon);
    }
    std::thread::sleep(Duration::from_millis(50));
    assert!(is_running(guardian));
    let session = rustix::process::getsid(Pid::from_raw(guardian as i32)).unwrap();
    assert_eq!(session.as_raw_nonzero().get() as u32, guardian, "its own session");
    let name = fs::read(format!("/proc/{guardian}/cmdline")).unwrap();
    assert!(name.starts_with(b"@brisk-guardian\0"));
    daemon.kill();
    within(Duration::from_secs(15), "the guardian ends", || !is_running(guardian));
    assert!(device.is_original());
    assert_eq!(JournalState::of(&device.root().runtime_folder()).unwrap(), JournalState::Empty);
}

// Verifies UNDO-5.
#[test]
fn a_daemon_right_after_a_killed_one_takes_over() {
    let device = Device::new();
    for round in 0..20 {
        let (mut daemon, guardian) = device.daemon();
        std::thread::sleep(Duration::from_millis(round));
        // With its guardian dead a daemon starts another: a process that was just forked has the lock as well.
        if round % 2 == 0 {
            signal(guardian, Signal::KILL);
            std::thread::sleep(Duration::from_micros(100 * round));
        }
        daemon.kill();
        drop(Journal::open(Holder::Daemon, &device.root().runtime_folder(), &device.root()).unwrap());
        assert!(device.is_original(), "round {round}");
    }
}

/// Leaves a daemon's journal behind, with `count` tunables changed.
fn leave_behind(device: &Device, count: usize) {
    leave_behind_in(Holder::Daemon, device, count, "1");
}

fn leave_behind_in(holder: Holder, device: &Device, count: usize, value: &str) {
    let folder = holder.folder(&device.root());
    let mut journal = Journal::open(holder, &folder, &device.root()).unwrap();
    let now = BootTime::now();
    for name in &TUNABLES[..count] {
        let target = Target::Tunable(Path::new(FOLDER).join(name));
        journal.lease(now, &target, value, now + Duration::from_secs(60), "test").unwrap();
    }
    let log = fs::read(journal.path()).unwrap();
    let path = journal.path().to_owned();
    drop(journal);
    fs::write(path, log).unwrap();
    for name in &TUNABLES[..count] {
        fs::write(device.place(name), format!("{value}\n")).unwrap();
    }
}

#[test]
fn restore_says_what_it_did_and_exits_accordingly() {
    let device = Device::new();
    let output = device.brisk(&["restore"]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "Nothing is left changed.\n");

    leave_behind(&device, 3);
    let text = String::from_utf8(device.brisk(&["doctor"]).stdout).unwrap();
    assert!(text.contains("3 tunables left changed: run `brisk restore`"), "{text}");
    fs::remove_file(device.place("up_threshold")).unwrap();
    fs::write(device.place("io_is_busy"), "2\n").unwrap();
    let output = device.brisk(&["restore"]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        format!(
            "gone      {FOLDER}/up_threshold does not exist any more\n\
         kept      {FOLDER}/io_is_busy holds 2, which another process has set\n\
         restored  {FOLDER}/sampling_rate holds 100000 again\n"
        )
    );

    leave_behind(&device, 1);
    let file = device.place("sampling_rate");
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    let output = device.brisk(&["restore", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["schema"], &report["complete"]), (&1.into(), &false.into()));
    assert_eq!(report["restorations"][0]["outcome"], "refused");
    fs::remove_dir(&file).unwrap();
    fs::write(&file, "1\n").unwrap();
    assert_eq!(device.brisk(&["restore"]).status.code(), Some(0), "a refused restoration is kept for the next run");
    assert_eq!(fs::read_to_string(&file).unwrap(), ORIGINAL);
}

// Verifies UNDO-4.
#[test]
fn restore_reverts_an_experiment_and_its_daemon() {
    let device = Device::new();
    let experiment = runner::runtime_folder(&device.root());
    leave_behind_in(Holder::Experiment, &device, 2, "50000");
    leave_behind(&device, 1);
    let text = String::from_utf8(device.brisk(&["doctor"]).stdout).unwrap();
    assert!(text.contains("/run/brisk-experiment: 2 tunables left changed: run `brisk restore`"), "{text}");
    let output = device.brisk(&["restore"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        format!(
            "restored  {FOLDER}/sampling_rate holds 50000 again\n\
         restored  {FOLDER}/io_is_busy holds 100000 again\n\
         restored  {FOLDER}/sampling_rate holds 100000 again\n"
        )
    );
    assert!(device.is_original());

    // A running experiment keeps its own leases, and what a dead daemon has left is restored all the same.
    let living = Journal::open(Holder::Experiment, &experiment, &device.root()).unwrap();
    leave_behind(&device, 1);
    let output = device.brisk(&["restore", "--json"]);
    assert_eq!(output.status.code(), Some(2));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["complete"], &report["restorations"][0]["outcome"]), (&false.into(), &"restored".into()));
    assert!(device.is_original());
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("brisk-experiment/journal is in use") && error.contains("Ctrl-C"), "{error}");
    drop(living);
}

#[test]
fn restore_leaves_a_living_daemon_alone() {
    let device = Device::new();
    let journal = Journal::open(Holder::Daemon, &device.root().runtime_folder(), &device.root()).unwrap();
    let output = device.brisk(&["restore"]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(error.contains(&format!("process {}", std::process::id())) && error.contains("SIGTERM"), "{error}");
    drop(journal);
    assert_eq!(device.brisk(&["restore"]).status.code(), Some(0));
}
