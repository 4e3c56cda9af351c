//! A series of reboots on a device that really reboots: systemd, and a disk that persists.

use std::time::Duration;

use brisk::lab::property_area::PropertyArea;
use brisk::lab::{GuestFile, Job};
use serde_json::Value;

use super::steps::Report;
use super::{job, static_brisk};

/// Few boots, and a short limit: each boot takes seconds.
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
promise = "BOOT-3"
text = "What holding gains."
measure = "gain"
metric = "boot"
arm = "hold"
"#;

/// Services in addition to brisk's: one that cuts the power during a shutdown, before brisk has recorded the shutdown, and one
/// that prevents a boot from completing. The files that the first one reads stay mounted until it has stopped.
const BESIDE: &str = "[Unit]\nWants=cut.service slow.service\nAfter=slow.service\n";
const CUT: &str = "[Unit]\nDescription=Cut the power\nDefaultDependencies=no\nAfter=brisk-reboots.service\n\
                   RequiresMountsFor=/var/lib/brisk\nConflicts=shutdown.target\nBefore=shutdown.target\n\
                   [Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\nExecStop=/bin/sh /reboots.sh cut\n";
const SLOW: &str = "[Unit]\nDescription=What a boot waits for\nDefaultDependencies=no\n\
                    [Service]\nType=oneshot\nTimeoutStartSec=infinity\nExecStart=/bin/sh /reboots.sh slow\n";

/// The guest's output in all of its boots.
fn report(step: &str) -> Option<Report> {
    let mut job: Job = job(static_brisk()?, "systemd-6.1", &["sh", "/reboots.sh", step]);
    let systemd = job.scenario.guest.systemd.as_mut().unwrap();
    for (place, text) in [("default.target.d/beside.conf", BESIDE), ("cut.service", CUT), ("slow.service", SLOW)] {
        systemd.files.insert(format!("/etc/systemd/system/{place}"), text.to_owned());
    }
    let job = job.with_file("/mini.toml", EXPERIMENT);
    Some(Report::of(job, "/reboots.sh", include_str!("reboots.sh"), Duration::from_secs(900)))
}

/// The recorded replicates: each arm with its boot's length, or the reason for its rejection.
fn replicates(report: &Report, name: &str) -> Vec<(String, Result<f64, String>)> {
    let lines = report.all(name).into_iter().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let measured = lines.filter(|line| line["arm"].is_string()).map(|line| {
        let boot_ms = line["metrics"]["boot_ms"].as_f64();
        let refused = line["rejected"].as_str().map(str::to_owned);
        (line["arm"].as_str().unwrap().to_owned(), boot_ms.ok_or_else(|| refused.unwrap_or_default()))
    });
    measured.collect()
}

/// Three boots: one begins, and ends by a power cut; one follows it, and is tried again; one is a replicate, after which the
/// user ends the series.
// Verifies BOOT-4.
#[test]
fn a_series_survives_real_reboots_and_a_power_cut() {
    let Some(report) = report("interrupted") else { return };
    assert_eq!(report.one("asked.exit"), "2", "nothing happens without a confirmation");
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
    assert_eq!(report.one("stopped.again"), "0", "nothing to do is a success");
    let found = replicates(&report, "replicate");
    let [(arm, Ok(boot_ms))] = &found[..] else { panic!("{found:?}") };
    assert!(arm == "hold" && (1000.0..30_000.0).contains(boot_ms), "{found:?}");
}

/// Six boots to the verdict, of which one does not complete; then a series in which no boot completes.
// Verifies BOOT-4.
#[test]
#[ignore = "eight boots take two minutes: ./dev test --deep"]
fn a_series_ends_with_its_verdict_or_when_boots_never_complete() {
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

/// An arm that changes both, and one that this device does not support.
const PRELOADS: &str = r#"
[[arm]]
name = "both"
title = "held, and preloaded ahead"
preload = "ahead"
boot_hold = true
[[arm]]
name = "stock"
title = "as it is"
baseline = true
[[arm]]
name = "plan"
title = "by a plan"
preload = "plan"
[[claim]]
id = "boot.mini-preload"
promise = "BOOT-3"
text = "What both win of preloading."
measure = "gain"
metric = "preload"
arm = "both"
"#;

/// Six boots: one begins, in one the zygote reports that it did something else, four are replicates. Neither Android's init nor
/// its zygote nor Magisk runs here: a script sets properties in their place, and reboots on request.
// Verifies BOOT-4.
#[test]
#[ignore = "six boots take a minute and a half: ./dev test --deep"]
fn on_android_a_series_compares_the_zygotes_reports() {
    let Some(binary) = static_brisk() else { return };
    let mut job: Job = job(binary, "systemd-6.1", &["sh", "/reboots.sh", "android"]);
    job.scenario.guest.systemd = None;
    job.scenario.guest.kept = vec!["/data".into()];
    let mut properties = PropertyArea::new();
    properties.add("ro.boot.hardware", "board");
    let places = ["persist.brisk.preload", "brisk.preloaded.64", "sys.boot_completed"]
        .map(|name| format!("{name} {}\n", properties.add(name, "")));
    for (path, contents) in [("/properties", properties.bytes()), ("/places", places.concat().into_bytes())] {
        job.files.push(GuestFile { path: path.into(), contents, mode: 0o444 });
    }
    let contents = include_bytes!("setprop.sh").to_vec();
    job.files.push(GuestFile { path: "/setprop".into(), contents, mode: 0o755 });
    let (head, _) = EXPERIMENT.split_once("[[arm]]").unwrap();
    let job = job.with_file("/mini.toml", format!("{head}{PRELOADS}"));
    let report = Report::of(job, "/reboots.sh", include_str!("reboots.sh"), Duration::from_secs(900));
    let question = report.all("asked.said").join("\n");
    for part in ["not compared: plan: this device has no plan", "the property persist.brisk.preload", "4 times"] {
        assert!(question.contains(part), "{part}: {question}");
    }
    assert_eq!(report.all("boot"), ["1", "2", "3", "4", "5", "6"]);
    let told = report.all("told");
    let count = |mode: &str| told.iter().filter(|&&told| told == mode).count();
    assert_eq!((told[0], count("ahead"), count("off")), ("plan", 3, 2), "{told:?}");
    assert!(report.all("given_back").iter().all(|&now| now == "plan"), "restored early in each boot: {report:?}");
    assert_eq!((report.one("stopped.exit"), report.one("stopped.left")), ("0", ""), "it has ended automatically");
    let found = replicates(&report, "replicate");
    let boots = |arm: &str| found.iter().filter(|(name, boot_ms)| name == arm && boot_ms.is_ok()).count();
    assert_eq!((found.len(), boots("stock"), boots("both")), (4, 2, 2), "{found:?}");
    let set_ms: Vec<f64> = report.all("set_ms").iter().map(|ms| ms.parse().unwrap()).collect();
    for ((_, boot_ms), set_ms) in found.iter().zip(set_ms) {
        let boot_ms = boot_ms.as_ref().unwrap();
        assert!((set_ms - 10.0..set_ms + 3000.0).contains(boot_ms), "{found:?} {set_ms}");
    }
    let proof: Value = serde_json::from_str(&report.all("proof").concat()).unwrap();
    let notes: Vec<&str> =
        proof["experiments"][0]["notes"].as_array().unwrap().iter().flat_map(Value::as_str).collect();
    let refused = "A boot of both did not count and was run again: the zygote preloaded off in 900 ms (the last preload did \
                   not end), and this arm is ahead.";
    for part in [refused, "both: ahead in 512, 512 ms; stock: off in 812, 812 ms."] {
        assert!(notes.iter().any(|note| note.ends_with(part)), "{part}: {notes:#?}");
    }
    assert_eq!(proof["experiments"][0]["claims"][0]["measured"].as_f64().map(f64::round), Some(37.0), "512 of 812 ms");
}
