//! `--on`: devices behind a real ssh server on loopback measure themselves, and nothing stays there.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use super::here::{recorded, signal, tunables, wait_until, write_device};
use super::ssh_server::{SshServer, brisk_with_ssh_of, client, has_program, left, program};
use super::{assert_code, counted, launches, merged, result};
use crate::patience::{LONG_PATIENCE, OutputWithin, output_of};

/// brisk with the `ssh` in `client`; on a device, `../device` is a recorded device beside the temporary folder.
pub(super) fn brisk(client: &Path, arguments: &[&str]) -> Command {
    let mut command = brisk_with_ssh_of(client);
    command.args(["--root", "../device"]).args(arguments);
    command.args(["--binary", program().to_str().unwrap()]).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The same to measure with so many replicates, on one device.
pub(super) fn measuring(client: &Path, replicates: u32, on: &str) -> Command {
    let file = client.join("recorded.toml");
    std::fs::write(&file, recorded(replicates)).unwrap();
    let results = client.join("results");
    let words = ["prove", file.to_str().unwrap(), "--here", "--output", results.to_str().unwrap(), "--on", on];
    brisk(client, &words)
}

fn board() -> Option<SshServer> {
    let server = SshServer::start()?;
    write_device(&server.tmp().join("device"));
    Some(server)
}

pub(super) fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The device is as before, and nothing else is in its temporary folder.
fn assert_untouched(server: &SshServer) {
    wait_until("the device's brisk", || !has_program(&server.tmp()));
    assert_eq!(left(&server.tmp()), ["device"]);
    assert_eq!(tunables(&server.tmp().join("device")), ["200000", "20000"]);
}

/// One of three is out of reach: the others are measured, at the same time, and judged together.
// Verifies PROVE-6, PROVE-7.
#[test]
fn devices_over_ssh_measure_themselves_and_keep_nothing() {
    let (Some(one), Some(two)) = (board(), board()) else { return };
    let client = client(&[&one, &two]);
    let mut command = measuring(client.path(), 2, "ssh:board-1");
    command.args(["--on", "ssh:board-2", "--on", "ssh:locked", "--json", "--seed", "5"]);
    let output = command.output_within(LONG_PATIENCE);
    assert_code(&output, 2);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    for (index, name) in ["board-1", "board-2"].into_iter().enumerate() {
        let folder = client.path().join(format!("results/ssh-{name}"));
        let device = &answer["devices"][index];
        assert_eq!(device["device"], format!("ssh:{name}"));
        assert_eq!((&device["status"], &device["error"]), (&0.into(), &Value::Null), "{device:#}");
        assert_eq!(device["folder"], folder.to_str().unwrap());
        let found = result(&folder);
        assert_eq!((launches(&found, "stock").len(), launches(&found, "fast").len(), found.seed), (2, 2, 5));
        assert_eq!(serde_json::to_value(&found).unwrap(), device["proof"]["experiments"][0]);
        assert_eq!(counted(&folder.join("samples/recorded-quick"), 4), [0, 1, 2, 3]);
        assert!(folder.join("report.html").is_file());
    }
    let locked = answer["devices"][2]["error"].as_str().unwrap();
    assert!(locked.contains("ssh:locked: cannot make a temporary folder") && locked.contains("denied"), "{locked}");
    assert!(errors(&output).contains("ssh:board-2: "), "each device's progress has its name: {output:?}");
    [&one, &two].into_iter().for_each(assert_untouched);
    let entries = std::fs::read_dir(client.path().join("results")).unwrap();
    assert_eq!(entries.count(), 2, "no draft is left");

    let joined = client.path().join("joined");
    let found = merged(&client.path().join("results"), &joined);
    assert_eq!(launches(&found, "stock").len(), 4);
    assert!(
        found.notes.iter().any(|note| note.starts_with("2 devices measured it: ssh-board-1 (")),
        "{:?}",
        found.notes
    );

    let again = measuring(client.path(), 2, "ssh:board-1").output_within(LONG_PATIENCE);
    assert_code(&again, 2);
    assert!(errors(&again).contains("has results already: give another --output"), "{again:?}");
}

// Verifies PROVE-6.
#[test]
fn an_interrupted_device_reverts_and_keeps_nothing() {
    let Some(board) = board() else { return };
    let client = client(&[&board]);
    for end in [Signal::INT, Signal::TERM] {
        let child = measuring(client.path(), 200, "ssh:board-1").spawn().unwrap();
        wait_until("the second arm", || tunables(&board.tmp().join("device"))[1] == "10000");
        signal(child.id(), end);
        let output = output_of(child, LONG_PATIENCE);
        assert_code(&output, 2);
        assert!(errors(&output).contains("ssh:board-1: interrupted; brisk was told to end there"), "{output:?}");
        assert_untouched(&board);
    }
}

/// A workstation that dies at once cannot say anything, and the device still notices it.
// Verifies PROVE-6.
#[test]
fn a_lost_connection_ends_the_measurement_on_the_device() {
    let Some(board) = board() else { return };
    let client = client(&[&board]);
    let start = || {
        let child = measuring(client.path(), 200, "ssh:board-1").spawn().unwrap();
        wait_until("the second arm", || tunables(&board.tmp().join("device"))[1] == "10000");
        child
    };
    let child = start();
    board.drop_connections();
    let output = output_of(child, LONG_PATIENCE);
    assert_code(&output, 2);
    assert!(errors(&output).contains("ssh:board-1: the connection was lost"), "{output:?}");
    assert_untouched(&board);

    let mut child = start();
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("the removal", || left(&board.tmp()) == ["device"]);
    assert_untouched(&board);
}

/// What doctor reports of the device's tree without a connection.
pub fn doctor_here(root: &Path) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_brisk"));
    let output = command.arg("--root").arg(root).args(["doctor", "--json"]).output_within(LONG_PATIENCE);
    serde_json::from_slice(&output.stdout).unwrap()
}

// Verifies PROVE-6.
#[test]
fn doctor_describes_a_device_over_ssh() {
    let Some(board) = board() else { return };
    let client = client(&[&board]);
    let output = brisk(client.path(), &["doctor", "--on", "ssh:board-1", "--json"]).output_within(LONG_PATIENCE);
    assert_code(&output, 0);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["devices"][0]["report"], doctor_here(&board.tmp().join("device")));
    let output = brisk(client.path(), &["doctor", "--on", "ssh:board-1"]).output_within(LONG_PATIENCE);
    assert_code(&output, 0);
    assert!(output.stdout.starts_with(b"ssh:board-1\n\n"), "{output:?}");
    assert_untouched(&board);
}

/// What can be known before a device is asked, and a device without a program.
#[test]
fn what_cannot_be_measured_on_a_device_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, reason) in [
        (&["prove", "launch", "--on", "ssh:a"][..], "give --here as well"),
        (&["prove", "launch", "--here", "--on", "a"], "write ssh:[USER@]HOST[:PORT] or adb:SERIAL"),
        (&["prove", "launch", "--here", "--on", "ssh:a", "--shard", "1/2"], "--on leaves nothing there"),
        (&["prove", "boot", "--here", "--on", "ssh:a"], "reboots the device"),
        (&["prove", "nothing", "--here", "--on", "ssh:a"], "nothing"),
        (&["doctor", "--on", "ssh:a", "--on", "ssh:a"], "--on ssh:a is given twice"),
    ] {
        let output = brisk(folder.path(), arguments).env("HOME", folder.path()).output_within(LONG_PATIENCE);
        assert_code(&output, 2);
        assert!(errors(&output).contains(reason), "{arguments:?}: {output:?}");
    }
    let Some(board) = board() else { return };
    let client = client(&[&board]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_brisk"));
    command.env("PATH", client.path()).args(["doctor", "--on", "ssh:board-1", "--binary"]);
    let output = command.arg(folder.path().join("none")).output_within(LONG_PATIENCE);
    assert_code(&output, 2);
    assert!(errors(&output).contains("cannot read"), "{output:?}");
    // This test's program needs its machine's libraries, so that it is not copied unasked.
    let mut command = Command::new(env!("CARGO_BIN_EXE_brisk"));
    let output =
        command.env("PATH", client.path()).args(["doctor", "--on", "ssh:board-1"]).output_within(LONG_PATIENCE);
    assert_code(&output, 2);
    let said = errors(&output);
    assert!(said.contains("there is no program for it; build one by packaging/build-release"), "{said}");
    assert_untouched(&board);
}
