//! How long this boot took, where the system has noted it: for telemetry.

use std::io::ErrorKind;
use std::process::{Command, Stdio};

use super::CompletionSign;
use crate::Observation;
use brisk_sys::system::android_properties;
use brisk_sys::{BootTime, Root, process};
use brisk_undo::journal::Holder;

/// The program that asks systemd.
const SYSTEMCTL: &str = "/usr/bin/systemctl";
/// Where systemd runs (sd_booted(3)).
const SYSTEMD: &str = "/run/systemd/system";
/// Android's init sets this to the nanoseconds since the start of the kernel at which it began (since Android 8).
const INIT_BEGAN: &str = "ro.boottime.init";
/// A daemon that starts later was not started by the end of the boot.
const LONGEST_BOOT_MS: u64 = 600_000;

/// The boot, if it has completed and its length is known.
pub fn completed_boot(root: &Root) -> Option<Observation> {
    let (length_ms, kernel_ms) = if root.exists(SYSTEMD) { of_systemd(root)? } else { of_android(root)? };
    Some(Observation::Boot { length_ms, kernel_ms, performance_held: was_held(root) })
}

/// True if `brisk boot hold` has had its journal in this boot; only root may read the folder, which it alone makes.
fn was_held(root: &Root) -> Option<bool> {
    match Holder::Boot.folder(root).join("journal").symlink_metadata() {
        Ok(_) => Some(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Some(false),
        Err(_) if !root.is_android() => Some(true),
        Err(_) => None,
    }
}

/// From the manager's time stamps.
fn of_systemd(root: &Root) -> Option<(u64, Option<u64>)> {
    let output = Command::new(root.path(SYSTEMCTL))
        .args(["show", "--property=FinishTimestampMonotonic,UserspaceTimestampMonotonic,InitRDTimestampMonotonic"])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    parse_time_stamps(&String::from_utf8_lossy(&output.stdout))
}

/// When the boot had completed and when the first process began, in milliseconds since the start of the kernel; `None` before
/// the end of the boot.
fn parse_time_stamps(text: &str) -> Option<(u64, Option<u64>)> {
    let stamp_ms = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix("TimestampMonotonic="))?;
        value
            .trim()
            .parse::<u64>()
            .ok()
            .filter(|microseconds| *microseconds > 0)
            .map(|microseconds| microseconds / 1_000)
    };
    Some((stamp_ms("Finish")?, stamp_ms("InitRD").or_else(|| stamp_ms("Userspace"))))
}

/// Init starts the daemon when the boot has completed.
fn of_android(root: &Root) -> Option<(u64, Option<u64>)> {
    let CompletionSign::Property { name, value } = CompletionSign::android() else { return None };
    if android_properties::value(root, &name).as_ref() != Some(&value) {
        return None;
    }
    let ticks = process::start_time_ticks(root, std::process::id()).ok()?;
    let began_ms = ticks.saturating_mul(1_000) / rustix::param::clock_ticks_per_second().max(1);
    let init_ns = android_properties::value(root, INIT_BEGAN).and_then(|text| text.parse::<u64>().ok());
    let is_plausible = began_ms <= LONGEST_BOOT_MS && BootTime::now() >= BootTime::from_milliseconds(began_ms);
    is_plausible.then_some((began_ms, init_ns.map(|nanoseconds| nanoseconds / 1_000_000)))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::time::Duration;

    use super::*;
    use brisk_sys::test_trees::root_of;

    #[test]
    fn a_boot_is_over_when_systemd_has_finished() {
        for (text, expected) in [
            ("UserspaceTimestampMonotonic=2113456\nFinishTimestampMonotonic=20500999\n", Some((20_500, Some(2_113)))),
            (
                "InitRDTimestampMonotonic=900000\nUserspaceTimestampMonotonic=2113456\nFinishTimestampMonotonic=20500999\n",
                Some((20_500, Some(900))),
            ),
            ("InitRDTimestampMonotonic=0\nFinishTimestampMonotonic=20500999\n", Some((20_500, None))),
            ("UserspaceTimestampMonotonic=2113456\nFinishTimestampMonotonic=0\n", None),
            ("", None),
        ] {
            assert_eq!(parse_time_stamps(text), expected, "{text}");
        }
    }

    // Verifies FLEET-1.
    #[test]
    fn systemd_is_asked_and_a_hold_is_found() {
        let (_folder, root) = root_of(&[("run/systemd/system/", ""), ("usr/bin/", "")]);
        assert_eq!(completed_boot(&root), None, "there is no systemctl");
        let script = "#!/bin/sh\n[ \"$1\" = show ] && echo FinishTimestampMonotonic=12000000\n";
        fs::write(root.path(SYSTEMCTL), script).unwrap();
        fs::set_permissions(root.path(SYSTEMCTL), fs::Permissions::from_mode(0o755)).unwrap();
        // A child that another test has just forked may still have the script open for writing (ETXTBSY).
        let mut attempts = 0;
        while completed_boot(&root).is_none() && attempts < 1_000 {
            std::thread::sleep(Duration::from_millis(10));
            attempts += 1;
        }
        let boot = |held| Some(Observation::Boot { length_ms: 12_000, kernel_ms: None, performance_held: Some(held) });
        assert_eq!(completed_boot(&root), boot(false));
        let folder = Holder::Boot.folder(&root);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("journal"), "").unwrap();
        assert_eq!(completed_boot(&root), boot(true));
    }
}
