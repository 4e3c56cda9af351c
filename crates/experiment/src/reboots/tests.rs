//! A series on a recorded tree, which never reboots.

use std::fs;

use super::*;
use crate::store::Header;
use brisk_mechanism::boot::zygote::MODE;
use brisk_report::proof::DeviceDescription;

const TEXT: &str = r#"name = "x"
title = "x"
description = "x"
mechanism = "boot"
mode = "native"
reboots = { limit_s = 100, settle_s = 0 }
replicates = { quick = 2, full = 2, warm_up = 1 }
arm = [{ name = "stock", title = "", baseline = true }, { name = "hold", title = "", boot_hold = true }]
"#;

const POLICY: &str = "sys/devices/system/cpu/cpufreq/policy0";

/// A device with systemd whose boot is called "two".
fn device() -> (tempfile::TempDir, Root) {
    let folder = tempfile::tempdir().unwrap();
    for (file, text) in [
        ("proc/sys/kernel/random/boot_id", "two"),
        ("proc/cmdline", "quiet"),
        ("run/systemd/system/mark", ""),
        (&format!("{POLICY}/affected_cpus"), "0"),
        (&format!("{POLICY}/scaling_governor"), "schedutil"),
        (&format!("{POLICY}/scaling_available_governors"), "schedutil performance"),
    ] {
        let path = folder.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let root = Root::at(folder.path());
    (folder, root)
}

fn store(root: &Root) -> (Store, Findings) {
    let header = Header { brisk: "1".into(), experiment: TEXT.into(), quick: true, seed: 1, ..Header::default() };
    let mut findings = Findings::default();
    findings.add(Line::Device {
        device: DeviceDescription {
            place: "here".into(),
            kernel: String::new(),
            processor: String::new(),
            cpu_count: 1,
            memory_kib: 0,
            energy_source: None,
        },
    });
    (Store::create(&root.path("/results"), &header).unwrap(), findings)
}

fn with_series_runner<T>(root: &Root, test: impl FnOnce(&SeriesRunner<'_>) -> T) -> T {
    let experiment = Experiment::parse("x", TEXT).unwrap();
    test(&SeriesRunner {
        root,
        means: ResumeMethod::of(root).unwrap(),
        program: "/usr/bin/brisk".into(),
        run: Run { experiment: &experiment, quick: true, seed: 1, shard: None },
        interrupted: &AtomicBool::new(false),
    })
}

#[test]
fn each_arms_first_boot_is_discarded_and_each_replicate_runs() {
    let (_folder, root) = device();
    with_series_runner(&root, |series_runner| {
        let (mut store, mut findings) = store(&root);
        let all = series_runner.left(&findings);
        let counts = [true, false].map(|warm_up| all.iter().filter(|it| it.warm_up == warm_up).count());
        assert_eq!(counts, [2, 4]);
        assert!(all[..2].iter().all(|replicate| replicate.warm_up));
        for (index, replicate) in all.iter().enumerate() {
            assert_eq!(series_runner.left(&findings)[0], *replicate, "{index}");
            findings.add(Line::Measured(series_runner.measured(replicate)));
        }
        assert_eq!(series_runner.continue_series(&mut store, &mut findings).unwrap(), SeriesEnding::Complete);
    });
}

// Verifies BOOT-4.
#[test]
fn a_second_unrequested_boot_ends_the_series() {
    let (_folder, root) = device();
    with_series_runner(&root, |series_runner| {
        let folder = series_runner.means.folder(&root);
        for (tries, expected) in [(0, "a recorded tree cannot reboot"), (1, "it did not follow from the request")] {
            let (mut store, mut findings) = store(&root);
            let armed = ArmedReplicate { replicate: 1, tries, armed_by: "one".into(), in_order: false };
            Series { armed: Some(armed), ..Series::default() }.write(&folder).unwrap();
            series_runner.means.set_hold(&root, &series_runner.program, true).unwrap();
            let left = series_runner.left(&findings).len();
            match series_runner.continue_series(&mut store, &mut findings) {
                Ok(SeriesEnding::Failed(reason)) if tries == 1 => assert!(reason.starts_with(expected), "{reason}"),
                Err(error) if tries == 0 => assert_eq!(error.to_string(), expected, "it is run once more"),
                other => panic!("{other:?}"),
            }
            let on_record = Series::read(&folder).unwrap().unwrap().armed.unwrap();
            let this_boot = ArmedReplicate { replicate: 1, tries: 1, armed_by: "two".into(), in_order: false };
            assert_eq!(left - series_runner.left(&findings).len(), tries as usize);
            assert_eq!(on_record == this_boot, tries == 0, "{on_record:?}");
            assert_eq!(
                series_runner.means.installed_paths().iter().any(|place| root.exists(place)),
                tries == 0 && hold_of(series_runner, 1)
            );
        }
    });
}

fn hold_of(series_runner: &SeriesRunner<'_>, replicate: u32) -> bool {
    series_runner.run.experiment.arms[series_runner.replicate(replicate).unwrap().arm].boot_hold
}

// Verifies BOOT-4.
#[test]
fn a_boot_that_does_not_match_its_arm_is_refused() {
    let (_folder, root) = device();
    with_series_runner(&root, |series_runner| {
        let report = resume_method::hold_report(&root);
        let says = |text: &str| fs::write(&report, text).unwrap();
        series_runner.check_hold(false).unwrap();
        says("{\"handed_back\":[\"policy0\"],\"faults\":[],\"began_ms\":1}\nNothing is left changed.\n");
        series_runner.check_hold(true).unwrap();
        assert!(series_runner.check_hold(false).unwrap_err().to_string().contains("this arm is stock"));
        for text in ["{\"handed_back\":[],\"faults\":[]}", "{\"handed_back\":[\"policy0\"],\"faults\":[\"no\"]}"] {
            says(text);
            assert!(series_runner.check_hold(true).unwrap_err().to_string().starts_with("brisk boot hold held"));
        }
    });
}

// Verifies BOOT-4.
#[test]
fn a_device_without_differing_arms_is_refused() {
    let (folder, root) = device();
    let experiment = Experiment::parse("x", TEXT).unwrap();
    let check = |root: &Root| comparable_arms(&experiment, root);
    assert_eq!(check(&root).unwrap().arms, ["stock", "hold"]);
    let wants = folder.path().join("etc/systemd/system/sysinit.target.wants");
    fs::create_dir_all(&wants).unwrap();
    std::os::unix::fs::symlink("/usr/lib/x", wants.join("brisk-boot-hold.service")).unwrap();
    assert!(check(&root).unwrap_err().to_string().contains("systemctl disable brisk-boot-hold"));
    fs::remove_dir_all(wants).unwrap();
    fs::write(root.path("/proc/cmdline"), "init=/usr/bin/brisk -- boot hold").unwrap();
    assert!(check(&root).is_err());
    fs::write(root.path("/proc/cmdline"), "quiet").unwrap();
    fs::write(root.path(format!("/{POLICY}/scaling_governor")), "performance").unwrap();
    assert!(check(&root).unwrap_err().to_string().contains("no cpufreq policy"));
}

/// Arms that preload in different ways, one of them held.
fn preloading() -> Experiment {
    let arms = "  { name = \"ahead\", title = \"\", preload = \"ahead\" },\n\
                  { name = \"both\", title = \"\", preload = \"plan\", boot_hold = true },\n]";
    let text = TEXT.trim_end().strip_suffix(']').unwrap().to_owned() + ",\n" + arms;
    Experiment::parse("x", &text).unwrap()
}

// Verifies BOOT-4.
#[test]
fn offers_arms_if_the_zygote_reports_and_governors_can_be_held() {
    let (folder, root) = device();
    let experiment = preloading();
    let offered = || comparable_arms(&experiment, &root).unwrap().arms;
    assert_eq!(offered(), ["stock", "hold"], "there is no zygote");
    fs::create_dir_all(folder.path().join("dev/__properties__")).unwrap();
    assert_eq!(offered(), ["stock", "hold"], "the zygote says nothing");
    let said = brisk_sys::test_trees::area(&[("brisk.preloaded.64", "off 812")]);
    fs::write(folder.path().join("dev/__properties__/properties"), said).unwrap();
    assert_eq!(offered(), ["stock", "hold", "ahead"], "there is no plan");
    let unsupported_arms = comparable_arms(&experiment, &root).unwrap().unsupported_arms;
    assert!(
        unsupported_arms.len() == 1 && unsupported_arms[0].starts_with("both: this device has no plan"),
        "{unsupported_arms:?}"
    );
    fs::create_dir_all(folder.path().join("system/etc")).unwrap();
    fs::write(folder.path().join("system/etc/preload.plan"), "").unwrap();
    assert_eq!(offered(), ["stock", "hold", "ahead", "both"]);
    fs::write(root.path(format!("/{POLICY}/scaling_governor")), "performance").unwrap();
    assert_eq!(offered(), ["stock", "ahead"], "nothing can be held");
}

/// An Android device whose owner has set the zygotes' property to "plan".
fn android() -> (tempfile::TempDir, Root) {
    let (folder, _) = device();
    fs::remove_dir_all(folder.path().join("run")).unwrap();
    fs::create_dir_all(folder.path().join("data/adb/service.d")).unwrap();
    let root = brisk_sys::test_trees::settable(folder.path(), MODE, "plan", &["off", "ahead"]);
    (folder, root)
}

// Verifies BOOT-4.
#[test]
fn the_zygotes_property_is_restored_after_any_arms_boot() {
    let experiment = preloading();
    let now = |root: &Root| android_properties::value(root, MODE).unwrap();
    for tries in [0, 1] {
        let (_folder, root) = android();
        let series_runner = SeriesRunner {
            root: &root,
            means: ResumeMethod::of(&root).unwrap(),
            program: "/data/adb/brisk/brisk".into(),
            run: Run { experiment: &experiment, quick: true, seed: 1, shard: None },
            interrupted: &AtomicBool::new(false),
        };
        let folder = series_runner.means.folder(&root);
        series_runner.means.set_preload(&root, "ahead").unwrap();
        assert_eq!(now(&root), "ahead", "what the last boot has armed");
        let (mut store, mut findings) = store(&root);
        let ahead =
            series_runner.schedule().into_iter().find(|replicate| experiment.arms[replicate.arm].name == "ahead");
        let armed = ArmedReplicate { replicate: ahead.unwrap().id, tries, armed_by: "one".into(), in_order: false };
        Series { armed: Some(armed), ..Series::default() }.write(&folder).unwrap();
        let went_on = series_runner.continue_series(&mut store, &mut findings);
        match tries {
            // It is armed again, and would reboot.
            0 => assert_eq!(
                (went_on.unwrap_err().to_string(), now(&root)),
                ("a recorded tree cannot reboot".into(), "ahead".into())
            ),
            _ => assert_eq!((went_on.is_ok(), now(&root)), (true, "plan".into())),
        }
        assert_eq!(resume_method::remove(&root).unwrap().contains(&MODE), tries == 0);
        assert_eq!(now(&root), "plan");
    }
}
