//! `--on adb:SERIAL`: a device behind Debian's real adb measures itself, and nothing stays there.

use serde_json::Value;

use super::adb_device::AdbDevice;
use super::here::{tunables, wait_until, write_device};
use super::on::{brisk, doctor_here, errors, measuring};
use super::ssh_server::{has_program, left};
use super::{assert_code, launches, result};
use crate::patience::{LONG_PATIENCE, OutputWithin, output_of};

fn phone() -> Option<AdbDevice> {
    let phone = AdbDevice::start()?;
    write_device(&phone.tmp().join("device"));
    Some(phone)
}

fn assert_untouched(phone: &AdbDevice) {
    wait_until("the device's brisk", || !has_program(&phone.tmp()));
    wait_until("the removal", || left(&phone.tmp()) == ["device"]);
    assert_eq!(tunables(&phone.tmp().join("device")), ["200000", "20000"]);
}

fn is_measuring(phone: &AdbDevice) -> bool {
    tunables(&phone.tmp().join("device"))[1] == "10000"
}

/// The scripts of `--on` need what this shows: a status, and two streams of bytes that no terminal changes.
#[test]
fn adbs_shell_passes_bytes_and_status_as_it_does_to_a_phone() {
    let Some(phone) = phone() else { return };
    let serial = phone.serial();
    let output = phone.adb(&["-s", &serial, "shell", "-T", "printf 'a\\r\\n\\001'; echo told >&2; exit 69"]);
    assert_eq!(
        (output.status.code(), &output.stdout[..], &output.stderr[..]),
        (Some(69), &b"a\r\n\x01"[..], &b"told\n"[..])
    );
}

// Verifies PROVE-6.
#[test]
fn a_device_over_adb_measures_itself_and_keeps_nothing() {
    let Some(phone) = phone() else { return };
    let client = tempfile::tempdir().unwrap();
    let on = format!("adb:{}", phone.serial());
    let mut command = measuring(client.path(), 2, &on);
    phone.lend_server(command.args(["--on", "adb:absent", "--json", "--seed", "5"]));
    let output = command.output_within(LONG_PATIENCE);
    assert_code(&output, 2);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let device = &answer["devices"][0];
    assert_eq!(
        (&device["device"], &device["status"], &device["error"]),
        (&on.into(), &0.into(), &Value::Null),
        "{device:#}"
    );
    let folder = client.path().join(format!("results/adb-127.0.0.1-{}", phone.serial().rsplit_once(':').unwrap().1));
    let found = result(&folder);
    assert_eq!((launches(&found, "stock").len(), launches(&found, "fast").len(), found.seed), (2, 2, 5));
    assert!(folder.join("report.html").is_file());
    let absent = answer["devices"][1]["error"].as_str().unwrap();
    assert!(
        absent.contains("adb:absent: cannot make a temporary folder: ") && absent.contains("not found"),
        "{absent}"
    );
    assert_untouched(&phone);
}

// Verifies PROVE-6.
#[test]
fn doctor_describes_a_device_over_adb() {
    let Some(phone) = phone() else { return };
    let client = tempfile::tempdir().unwrap();
    let mut command = brisk(client.path(), &["doctor", "--on", &format!("adb:{}", phone.serial()), "--json"]);
    phone.lend_server(&mut command);
    let output = command.output_within(LONG_PATIENCE);
    assert_code(&output, 0);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["devices"][0]["report"], doctor_here(&phone.tmp().join("device")));
    assert_untouched(&phone);
}

/// A pulled cable is a SIGHUP to the device's shell, which has still to remove the folder.
// Verifies PROVE-6.
#[test]
fn a_lost_connection_over_adb_leaves_nothing_on_the_device() {
    let Some(phone) = phone() else { return };
    let client = tempfile::tempdir().unwrap();
    let start = || {
        let mut command = measuring(client.path(), 200, &format!("adb:{}", phone.serial()));
        phone.lend_server(&mut command);
        let child = command.spawn().unwrap();
        wait_until("the second arm", || is_measuring(&phone));
        child
    };
    let mut child = start();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_untouched(&phone);

    let child = start();
    phone.drop_connections();
    let output = output_of(child, LONG_PATIENCE);
    assert_code(&output, 2);
    assert!(errors(&output).contains("the connection was lost"), "{output:?}");
    assert_untouched(&phone);
}
