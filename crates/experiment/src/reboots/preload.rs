//! How the zygote preloads in an arm's boot: an Android property that survives a reboot. Its original value is on record as
//! long as an arm's value is set.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, bail};

use crate::conduct::Findings;
use crate::metric::Metric;
use crate::spec::{Experiment, Preloading};
use brisk_mechanism::boot::zygote::{self, MODE};
use brisk_sys::system::android_properties;
use brisk_sys::{Root, durable_file};

/// Two lines: the property's value before, and the arm's.
const RECORD: &str = "preload.before";

/// Whether zygotes preload in different ways in the arms of `experiment`.
pub fn is_compared(experiment: &Experiment) -> bool {
    experiment.arms.iter().any(|arm| arm.preload != Preloading::Off)
}

/// Why this device's zygotes cannot preload in this way; `None` when they can.
pub fn unsupported_reason(root: &Root, preload: Preloading) -> Option<&'static str> {
    let says_nothing = || zygote::preloaded(root).is_empty();
    match preload {
        Preloading::Off => None,
        _ if !android_properties::exist(root) => Some("this device has no zygote"),
        _ if says_nothing() => {
            Some("this device's zygote does not report how it preloads (android/integration is not in it)")
        }
        Preloading::Plan if !zygote::has_plan(root) => Some("this device has no plan to preload by (brisk boot plan)"),
        _ => None,
    }
}

/// Makes the zygotes of the next boots preload by `mode`; the original value is recorded in `folder` first.
///
/// # Errors
/// When that cannot be recorded, or the property is not set.
pub fn set(root: &Root, folder: &Path, mode: &str) -> anyhow::Result<()> {
    let before = match recorded(folder)? {
        Some((before, _)) => before,
        None => android_properties::value(root, MODE).unwrap_or_default(),
    };
    let record = durable_file::write(&folder.join(RECORD), &format!("{before}\n{mode}\n"), 0o644);
    record.with_context(|| format!("cannot record {MODE}"))?;
    android_properties::set(root, MODE, mode).with_context(|| format!("cannot set {MODE}"))
}

/// Restores the property, unless it was changed since; true where its value was an arm's. A property that was not set is empty
/// afterwards, which has the same effect.
///
/// # Errors
/// When it cannot be restored; it stays on record then.
pub fn restore(root: &Root, folder: &Path) -> anyhow::Result<bool> {
    let Some((before, ours)) = recorded(folder)? else { return Ok(false) };
    let is_ours = android_properties::value(root, MODE).unwrap_or_default() == ours;
    if is_ours {
        android_properties::set(root, MODE, &before).with_context(|| format!("cannot restore {MODE}"))?;
    }
    durable_file::remove(&folder.join(RECORD)).with_context(|| format!("cannot remove {RECORD}"))?;
    Ok(is_ours)
}

fn recorded(folder: &Path) -> anyhow::Result<Option<(String, String)>> {
    match fs::read_to_string(folder.join(RECORD)) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {RECORD}")),
        Ok(text) => {
            let (before, ours) = text.split_once('\n').unwrap_or((&text, ""));
            Ok(Some((before.to_owned(), ours.trim_end().to_owned())))
        }
    }
}

/// How long preloading took in the boot under way, in milliseconds.
///
/// # Errors
/// When a zygote reports another mode than `mode`, or none reports any.
pub fn took_ms(root: &Root, mode: &str) -> anyhow::Result<f64> {
    let reports = zygote::preloaded(root);
    let Some(first) = reports.first() else { bail!("no zygote reports how it preloaded, and this arm is {mode}") };
    match reports.iter().find(|zygote| zygote.mode != mode) {
        Some(other) => bail!("the zygote preloaded {other}, and this arm is {mode}"),
        None => Ok(first.took_ms.into()),
    }
}

/// The preloading times that each boot of an arm reported; they were checked when the boot was judged.
pub fn note(experiment: &Experiment, findings: &Findings) -> Option<String> {
    let of_arm = |name: &str| {
        let measured = findings.measured().filter(|measured| measured.arm == name);
        let times = measured.filter_map(|measured| measured.metrics.get(Metric::Preload.key()));
        times.map(|ms| format!("{ms:.0}")).collect::<Vec<_>>().join(", ")
    };
    let arms = experiment.arms.iter().map(|arm| (arm, of_arm(&arm.name))).filter(|(_, times)| !times.is_empty());
    let lines: Vec<String> =
        arms.map(|(arm, times)| format!("{}: {} in {times} ms", arm.name, arm.preload.mode())).collect();
    let intro = "Preloading as the zygote itself reported it, boot by boot, including boots that are not counted.";
    (!lines.is_empty()).then(|| format!("{intro} {}.", lines.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use brisk_sys::test_trees::{area, settable};

    // Verifies BOOT-4.
    #[test]
    fn the_property_is_restored_once_unless_changed_since() {
        for before in ["", "plan"] {
            let folder = tempfile::tempdir().unwrap();
            let root = settable(folder.path(), MODE, before, &["off", "ahead", "plan"]);
            let state = &root.path("/data/adb/brisk/reboots");
            let now = || android_properties::value(&root, MODE).unwrap();
            assert!(!restore(&root, state).unwrap(), "it was not set");
            set(&root, state, "ahead").unwrap();
            set(&root, state, "off").unwrap();
            assert_eq!((now(), recorded(state).unwrap()), ("off".into(), Some((before.into(), "off".into()))));
            assert!(restore(&root, state).unwrap());
            assert!(!restore(&root, state).unwrap());
            assert_eq!(now(), before);
            set(&root, state, "off").unwrap();
            android_properties::set(&root, MODE, "ahead").unwrap();
            assert!(!restore(&root, state).unwrap());
            assert_eq!((now(), recorded(state).unwrap()), ("ahead".into(), None));
        }
    }

    // Verifies BOOT-4.
    #[test]
    fn a_failed_restore_stays_on_record() {
        let folder = tempfile::tempdir().unwrap();
        let root = settable(folder.path(), MODE, "plan", &["off"]);
        let state = &root.path("/data/adb/brisk/reboots");
        set(&root, state, "off").unwrap();
        let setter = root.path("/system/bin/setprop");
        fs::rename(&setter, setter.with_extension("away")).unwrap();
        assert!(restore(&root, state).is_err());
        fs::rename(setter.with_extension("away"), &setter).unwrap();
        assert!(restore(&root, state).unwrap());
        assert_eq!(android_properties::value(&root, MODE).as_deref(), Some("plan"));
        fs::remove_dir_all(state).unwrap();
        fs::write(state, "").unwrap();
        assert!(set(&root, state, "off").is_err(), "without a record nothing is changed");
        assert_eq!(android_properties::value(&root, MODE).as_deref(), Some("plan"));
    }

    // Verifies BOOT-4.
    #[test]
    fn a_boot_counts_if_every_zygote_reports_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let (first, second) = ("brisk.preloaded.64", "brisk.preloaded.32");
        fs::create_dir_all(root.path("/dev/__properties__")).unwrap();
        for (properties, mode, expected) in [
            (&[][..], "off", Err("no zygote reports how it preloaded, and this arm is off")),
            (&[(first, "off 812")], "off", Ok(812.0)),
            (&[(first, "plan 512"), (second, "plan 9")], "plan", Ok(512.0)),
            (&[(first, "off 812")], "ahead", Err("the zygote preloaded off in 812 ms, and this arm is ahead")),
            (
                &[(first, "plan 512"), (second, "off 9 the last preload did not end")],
                "plan",
                Err("the zygote preloaded off in 9 ms (the last preload did not end), and this arm is plan"),
            ),
        ] {
            fs::write(root.path("/dev/__properties__/properties"), area(properties)).unwrap();
            assert_eq!(took_ms(&root, mode).map_err(|error| error.to_string()), expected.map_err(str::to_owned));
        }
    }
}
