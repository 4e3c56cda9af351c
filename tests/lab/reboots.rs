//! A series of reboots on a device that really reboots: systemd, and a disk that outlives it.

use std::time::Duration;

use brisk::lab::{GuestFile, Job};
use serde_json::Value;

use super::property_area::PropertyArea;
use super::steps::Report;
use super::{job, static_brisk};

/// Few boots, and a short limit: each takes seconds.
const EXPERIMENT: &str = r#"
name = "mini-reboots"
title = "Boots of this device"
description = "As it is, and held."
mechanism = "boot"
mode = "native"
reboots = { limit_s = 60, settle_s = 5 }
replicates = { quick = 2, full = 2, warm_up = 0 }
[[arm]]
name = "hold"
title = "with brisk boot hold"
boot_hold = true
[[arm]]
name = "stock"
title = "as it is"
baseline = true
[[claim]]
id = "boot.mini-reboots"
text = "What holding gains."
measure = "gain"
metric = "boot"
arm = "hold"
"#;

/// What is beside brisk's: whoever cuts the power in the midst of a shutdown, before brisk has put on record that it is one, and
/// whoever keeps a boot from completing.
const BESIDE: &str = "[Unit]\nWants=cut.service slow.service\nAfter=slow.service\n";
const CUT: &str = "[Unit]\nDescription=Cut the power\nDefaultDependencies=no\nAfter=brisk-reboots.service\n\
                   Conflicts=shutdown.target\nBefore=shutdown.target\n\
                   [Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\nExecStop=/bin/sh /reboots.sh cut\n";
const SLOW: &str = "[Unit]\nDescription=What a boot waits for\nDefaultDependencies=no\n\
                    [Service]\nType=oneshot\nTimeoutStartSec=infinity\nExecStart=/bin/sh /reboots.sh slow\n";

/// What the guest said in all of its boots.
fn report(step: &str) -> Option<Report> {
    let mut job: Job = job(static_brisk()?, "systemd-6.1", &["sh", "/reboots.sh", step]);
    let systemd = job.scenario.guest.systemd.as_mut().unwrap();
    for (place, text) in [("default.target.d/beside.conf", BESIDE), ("cut.service", CUT), ("slow.service", SLOW)] {
        systemd.files.insert(format!("/etc/systemd/system/{place}"), text.to_owned());
    }
    let job = job.with_file("/mini.toml", EXPERIMENT);
    Some(Report::of(job, "/reboots.sh", include_str!("reboots.sh"), Duration::from_secs(900)))
}

/// The replicates that are on record: each arm with its boot's length, or why it was refused.
fn replicates(report: &Report, name: &str) -> Vec<(String, Result<f64, String>)> {
    let lines = report.all(name).into_iter().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let measured = lines.filter(|line| line["arm"].is_string()).map(|line| {
        let boot_ms = line["metrics"]["boot_ms"].as_f64();
        let refused = line["rejected"].as_str().map(str::to_owned);
        (line["arm"].as_str().unwrap().to_owned(), boot_ms.ok_or_else(|| refused.unwrap_or_default()))
    });
    measured.collect()
}

/// Three boots: one begins, and ends by a power cut; one follows it, and is tried again; one is a replicate, after which
/// somebody ends the series.
#[test]
fn a_series_goes_on_over_real_reboots_and_a_power_cut_and_leaves_nothing() {
    let Some(report) = report("interrupted") else { return };
    assert_eq!(report.one("asked.exit"), "2", "nothing happens unasked");
    assert_eq!(report.one("asked.left"), "");
    let question = report.all("asked.said").join("\n");
    for part in ["reboots this device 4 times", "brisk-reboots.service", "brisk.noreboots", "--here --yes"] {
        assert!(question.contains(part), "{part}: {question}");
    }
    assert_eq!(report.one("begun.exit"), "0");
    assert_eq!(report.one("again.exit"), "2", "one series at a time");
    assert_eq!(report.all("boot"), ["1", "2", "3"]);
    let refused: Value = serde_json::from_str(report.one("refused")).unwrap();
    assert_eq!(refused["armed"].as_object().map_or(&refused["again"], |_| &refused["armed"])["tries"], 1, "{refused}");
    assert_eq!(report.one("doctor").matches("series of reboots").count(), 1);
    assert_eq!((report.one("stopped.exit"), report.one("stopped.left")), ("0", ""));
    assert_eq!(report.one("stopped.again"), "1", "there is nothing to stop");
    let found = replicates(&report, "replicate");
    let [(arm, Ok(boot_ms))] = &found[..] else { panic!("{found:?}") };
    assert!(arm == "hold" && (1000.0..30_000.0).contains(boot_ms), "{found:?}");
}

/// Six boots to the verdict, of which one does not complete; then a series of which no boot does.
#[test]
#[ignore = "eight boots take two minutes: ./dev test --deep"]
fn a_series_comes_to_its_verdict_and_one_whose_boots_never_complete_ends_by_itself() {
    let Some(report) = report("whole") else { return };
    assert_eq!(report.all("boot"), ["1", "2", "3", "4", "5", "6", "7", "8"]);
    assert_eq!((report.one("whole.left"), report.one("failed.left")), ("", ""));
    let found = replicates(&report, "whole.replicate");
    let boots = |arm: &str| found.iter().filter(|(name, boot_ms)| name == arm && boot_ms.is_ok()).count();
    assert_eq!((found.len(), boots("stock"), boots("hold")), (4, 2, 2), "{found:?}");
    let proof: Value = serde_json::from_str(&report.all("whole.proof").concat()).unwrap();
    let claim = &proof["experiments"][0]["claims"][0];
    assert_eq!((claim["id"].as_str(), claim["measured"].is_number()), (Some("boot.mini-reboots"), true), "{claim}");
    let found = replicates(&report, "failed.replicate");
    let [(_, Err(reason))] = &found[..] else { panic!("{found:?}") };
    assert_eq!(reason, "it had not completed 60 s after the kernel's start");
}

/// Two boots: one begins, one is a replicate. Neither Android's init nor Magisk runs here: a script runs what they would, sets the
/// property, and reboots when it is asked to.
#[test]
#[ignore = "two boots take half a minute: ./dev test --deep"]
fn a_series_goes_on_by_the_scripts_that_magisk_runs() {
    let Some(binary) = static_brisk() else { return };
    let mut job: Job = job(binary, "systemd-6.1", &["sh", "/reboots.sh", "android"]);
    job.scenario.guest.systemd = None;
    job.scenario.guest.kept = vec!["/data".into()];
    let mut properties = PropertyArea::new();
    properties.add("ro.boot.hardware", "board");
    let before = properties.bytes();
    properties.add("sys.boot_completed", "1");
    for (path, contents) in [("/before", before), ("/after", properties.bytes())] {
        job.files.push(GuestFile { path: path.into(), contents, mode: 0o444 });
    }
    let job = job.with_file("/mini.toml", EXPERIMENT);
    let report = Report::of(job, "/reboots.sh", include_str!("reboots.sh"), Duration::from_secs(600));
    assert_eq!(report.all("boot"), ["1", "2"]);
    assert_eq!((report.one("stopped.exit"), report.one("stopped.left")), ("0", ""));
    let found = replicates(&report, "replicate");
    let [(arm, Ok(boot_ms))] = &found[..] else { panic!("{found:?}") };
    let set_ms: f64 = report.one("set_ms").parse().unwrap();
    assert!(arm == "hold" && (set_ms - 10.0..set_ms + 1500.0).contains(boot_ms), "{found:?} {set_ms}");
}
