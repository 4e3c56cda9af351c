//! `--on` with two boards: virtual machines of arm64 with systemd and OpenSSH's server, measured at the same time.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;

use brisk::lab::{self, Channel, Job, LabError, Scenario};
use rustix::process::Signal;
use serde_json::Value;

use super::super::lab::arm64::is_unavailable;
use super::super::loopback::free_port;
use super::here::{HERE, signal, wait_until};
use super::ssh_server::{Host, brisk_with_ssh_of, client_of, make_key};
use super::{assert_code, launches, merged, result};
use crate::patience::{LONG_PATIENCE, OutputWithin, output_of};
use crate::static_brisk::static_brisk_for_arm64;

const SCENARIO: &str = "board-arm64-6.1";

/// A virtual machine that runs until it is told to stop.
struct Board {
    host: Host,
    /// Its lines, until it ends.
    lines: mpsc::Receiver<String>,
    thread: thread::JoinHandle<Result<u8, LabError>>,
}

impl Board {
    /// Boots one that accepts `key`, and waits until its ssh server runs.
    fn start(name: &str, binary: &Path, key: &Path) -> Self {
        let port = free_port();
        let mut scenario = Scenario::load(SCENARIO).unwrap();
        let network = scenario.machine.arguments.last_mut().unwrap();
        network.push_str(&format!(",hostfwd=tcp:127.0.0.1:{port}-:22"));
        let mut job = Job::new(scenario, ["sh", "/board.sh"]);
        job.busybox = true;
        job.binary = Some(binary.to_owned());
        let public = std::fs::read(key.with_extension("pub")).unwrap();
        let job =
            job.with_file("/board.sh", include_str!("on_guests.sh")).with_file("/etc/ssh/authorized_keys", public);
        let (sender, lines) = mpsc::channel();
        let thread = thread::spawn(move || {
            let mut pass_on = |line: lab::GuestLine| {
                // A test that has failed receives nothing any more.
                let _ = (line.channel == Channel::Results).then(|| sender.send(line.text));
            };
            lab::run(&job, &mut pass_on).map(|outcome| outcome.status)
        });
        let host = Host { name: name.to_owned(), port, key: key.to_owned() };
        let board = Self { host, lines, thread };
        match board.lines.recv() {
            Ok(line) => assert_eq!(line, "ready"),
            Err(_) => panic!("{name} has ended: {:?}", board.thread.join().unwrap()),
        }
        board
    }

    /// Tells it to stop: what is not as before, and its exit status.
    fn stop(self, client: &Path) -> (Vec<String>, u8) {
        assert!(ssh(client, &self.host.name, "touch /run/stop").status.success());
        (self.lines.iter().collect(), self.thread.join().unwrap().unwrap())
    }
}

fn ssh(client: &Path, host: &str, command: &str) -> Output {
    Command::new(client.join("ssh")).args([host, command]).stdin(Stdio::null()).output_within(LONG_PATIENCE)
}

/// `brisk prove` of `experiment` on both boards.
fn measuring(client: &Path, binary: &Path, experiment: &str) -> Command {
    let file = client.join("mini-here.toml");
    // There is nothing to gain on the boards, so that three launches may refute a gain.
    std::fs::write(&file, experiment.replace("required = \">= 10\"", "required = \">= -1000\"")).unwrap();
    let mut command = brisk_with_ssh_of(client);
    command.arg("prove").arg(file).args(["--here", "--on", "ssh:board-1", "--on", "ssh:board-2"]);
    command.arg("--binary").arg(binary).arg("--output").arg(client.join("results"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

// Verifies PROVE-6, PROVE-7.
#[test]
fn two_arm64_boards_over_ssh_measure_themselves_and_keep_nothing() {
    let Some(binary) = static_brisk_for_arm64() else { return };
    if is_unavailable(&Scenario::load(SCENARIO).unwrap()) {
        return;
    }
    let keys = tempfile::tempdir().unwrap();
    let key = keys.path().join("user");
    make_key(&key);
    let boards = ["board-1", "board-2"].map(|name| Board::start(name, binary, &key));
    let client = client_of(&boards.each_ref().map(|board| board.host.clone()));

    let output = measuring(client.path(), binary, HERE).args(["--json", "--seed", "5"]).output_within(LONG_PATIENCE);
    assert_code(&output, 0);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    for (index, board) in boards.iter().enumerate() {
        let device = &answer["devices"][index];
        assert_eq!((&device["status"], &device["error"]), (&0.into(), &Value::Null), "{device:#}");
        let kernel = device["proof"]["device"]["kernel"].as_str().unwrap();
        assert!(kernel.contains("-arm64 "), "{kernel}");
        let found = result(&client.path().join("results").join(format!("ssh-{}", board.host.name)));
        for arm in ["stock", "brisk", "maximum"] {
            assert_eq!(launches(&found, arm).len(), 3, "{arm}: {:?}", found.rejections);
        }
    }
    let found = merged(&client.path().join("results"), &client.path().join("joined"));
    assert_eq!(launches(&found, "brisk").len(), 6);
    assert!(found.notes.iter().any(|note| note.starts_with("2 devices measured it: ")), "{:?}", found.notes);

    a_killed_workstation_leaves_nothing(&client, binary);
    for board in boards {
        let name = board.host.name.clone();
        assert_eq!(board.stop(client.path()), (Vec::new(), 0), "{name}");
    }
}

/// The boards notice that the connection is gone, while both measure.
fn a_killed_workstation_leaves_nothing(client: &tempfile::TempDir, binary: &Path) {
    std::fs::remove_dir_all(client.path().join("results")).unwrap();
    let long = HERE.replace("quick = 3\nfull = 3", "quick = 100\nfull = 100");
    let mut child = measuring(client.path(), binary, &long).spawn().unwrap();
    let at_full_speed = "grep 1200000 /sys/devices/system/cpu/cpufreq/policy0/scaling_min_freq";
    for name in ["board-1", "board-2"] {
        while !ssh(client.path(), name, at_full_speed).status.success() {
            assert!(child.try_wait().unwrap().is_none(), "{:?}", child.wait_with_output());
        }
    }
    signal(child.id(), Signal::KILL);
    assert!(!output_of(child, LONG_PATIENCE).status.success());
    let is_over = |name: &str| !ssh(client.path(), name, "ls -d /tmp/brisk.*").status.success();
    wait_until("the end on both boards", || ["board-1", "board-2"].into_iter().all(is_over));
}
