//! A daemon that ran as a user of its own: root restores what it left, and a stranger's journal is not believed.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Command;

const RATE: &str = "sys/devices/system/cpu/cpufreq/ondemand/sampling_rate";
const JOURNAL: &str = r#"{"record":"open","format":1,"boot_id":null,"pid":7}
{"record":"intent","lease":{"target":{"tunable":"/sys/devices/system/cpu/cpufreq/ondemand/sampling_rate"},"original":"100000","value":"50000","since":1,"until":2,"reason":"launch"}}
{"record":"observed","target":{"tunable":"/sys/devices/system/cpu/cpufreq/ondemand/sampling_rate"},"value":"50000"}
"#;
const SERVICE: u32 = 23_456;

/// A tree with a lease in force; the folder and the log in it belong to the given users.
fn device(folder_owner: u32, log_owner: u32) -> tempfile::TempDir {
    let device = tempfile::tempdir().unwrap();
    let rate = device.path().join(RATE);
    fs::create_dir_all(rate.parent().unwrap()).unwrap();
    fs::write(&rate, "50000\n").unwrap();
    let folder = device.path().join("run/brisk");
    fs::create_dir_all(&folder).unwrap();
    let log = folder.join("journal");
    fs::write(&log, JOURNAL).unwrap();
    fs::set_permissions(&log, PermissionsExt::from_mode(0o600)).unwrap();
    chown(&log, Some(log_owner), None).unwrap();
    chown(&folder, Some(folder_owner), None).unwrap();
    device
}

fn restore(device: &tempfile::TempDir) -> (Option<i32>, String, String) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_brisk")).arg("--root").arg(device.path()).arg("restore").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let rate = fs::read_to_string(device.path().join(RATE)).unwrap();
    (output.status.code(), said, rate.trim().to_owned())
}

fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("skipped: only root can make files of other users");
    }
    root
}

#[test]
fn root_restores_what_the_services_user_has_leased() {
    if is_root() {
        let (code, said, rate) = restore(&device(SERVICE, SERVICE));
        assert_eq!((code, rate.as_str()), (Some(0), "100000"), "{said}");
    }
}

#[test]
fn a_strangers_log_is_not_believed() {
    if is_root() {
        for (folder_owner, log_owner) in [(0, SERVICE), (SERVICE, SERVICE + 1)] {
            let (code, said, rate) = restore(&device(folder_owner, log_owner));
            assert_eq!((code, rate.as_str()), (Some(2), "50000"), "{said}");
            assert!(said.contains("not believed") || said.contains("ermission denied"), "{said}");
        }
    }
}
