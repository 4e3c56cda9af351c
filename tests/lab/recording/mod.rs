//! A boot recorder as systemd and Android's init start it, from the shipped files.

use std::time::Duration;

use brisk::chart::model::Boot;
use brisk::chart::read::{self, Limits};
use brisk::lab::GuestFile;
use brisk::lab::property_area::PropertyArea;

use super::boot::decoded;
use super::steps::Report;
use super::{job, static_brisk};

/// Started before everything else, as [Install] of the shipped units requests.
const EARLY: &str = "[Unit]\nWants=brisk-boot-record.service brisk-boot-hold.service\n";
/// The last service that the boot waits for.
const SLOW: &str = "[Unit]\nDescription=What a boot waits for\nDefaultDependencies=no\nAfter=brisk-boot-hold.service\n\
                    [Service]\nType=oneshot\nExecStart=/bin/sh /recording.sh slow\n";

/// The recording that a guest has sent.
fn recording(report: &Report, name: &str) -> Boot {
    let archive = decoded(&report.all(name).concat());
    read::read_bytes(&archive, &Limits::default()).unwrap()
}

// Verifies BOOT-1.
#[test]
fn started_by_systemd_it_records_until_systemd_has_finished() {
    let Some(binary) = static_brisk() else { return };
    let mut job = job(binary, "systemd-6.1", &["sh", "/recording.sh", "unit"]);
    let systemd = job.scenario.guest.systemd.as_mut().unwrap();
    for (place, text) in [
        ("brisk-boot-record.service", include_str!("../../../packaging/systemd/brisk-boot-record.service")),
        ("brisk-boot-hold.service", include_str!("../../../packaging/systemd/brisk-boot-hold.service")),
        ("sysinit.target.d/brisk.conf", EARLY),
        ("slow.service", SLOW),
        ("default.target.d/slow.conf", "[Unit]\nWants=slow.service\nAfter=slow.service\n"),
    ] {
        systemd.files.insert(format!("/etc/systemd/system/{place}"), text.to_owned());
    }
    let report = Report::of(job, "/recording.sh", include_str!("recording.sh"), Duration::from_secs(600));
    assert_eq!(report.one("slow.governor"), "performance", "held during the boot");
    let governor = report.one("unit.governor");
    assert!(!governor.is_empty() && governor != "performance", "{governor:?}");
    let boot = recording(&report, "unit.archive");
    assert_eq!(boot.header_value("brisk.ended"), Some("systemd"));
    let [began_ms, ended_ms] = ["slow.began_ms", "slow.ended_ms"].map(|name| report.one(name).parse::<u32>().unwrap());
    assert!(boot.span.start_ms < began_ms, "{:?} {began_ms}", boot.span);
    assert!(ended_ms <= boot.span.end_ms && boot.span.end_ms < ended_ms + 3000, "{:?} {ended_ms}", boot.span);
    let names: Vec<&str> = boot.processes.iter().map(|process| process.label()).collect();
    assert!(names.contains(&"systemd") && names.contains(&"sleep"), "{names:?}");
}

/// The command of a service in Android's init language.
fn command_of(service: &str) -> &'static str {
    let mut lines = include_str!("../../../android/integration/brisk.rc").lines();
    let found = lines.find_map(|line| line.strip_prefix("service ")?.strip_prefix(service)?.strip_prefix(' '));
    found.unwrap_or_else(|| panic!("brisk.rc has no {service}"))
}

/// Android's init does not run here: a file of properties in its format is changed in place instead.
// Verifies BOOT-1.
#[test]
fn started_by_androids_init_it_records_until_the_property() {
    let Some(binary) = static_brisk() else { return };
    let mut job = job(binary, "debian-6.1", &["sh", "/recording.sh", "property"]);
    job.scenario.guest.self_check = false;
    let mut properties = PropertyArea::new();
    for (name, value) in [("ro.boot.brisk", "record"), ("sys.boot_completed.x", "1"), ("dev.bootcomplete", "")] {
        properties.add(name, value);
    }
    let before = properties.bytes();
    properties.add("sys.boot_completed", "1");
    for (path, contents) in [("/before", before), ("/after", properties.bytes())] {
        job.files.push(GuestFile { path: path.into(), contents, mode: 0o444 });
    }
    for (path, service) in [("/record", "brisk-boot-record"), ("/hold", "brisk-boot-hold")] {
        let contents = format!("#!/bin/sh\nexec {}\n", command_of(service)).into_bytes();
        job.files.push(GuestFile { path: path.into(), contents, mode: 0o755 });
    }
    let report = Report::of(job, "/recording.sh", include_str!("recording.sh"), Duration::from_secs(600));
    assert_eq!(report.one("property.during"), "performance running", "other properties change nothing");
    assert_eq!(report.one("property.exit"), "0 0");
    assert_ne!(report.one("property.governor"), "performance");
    let boot = recording(&report, "property.archive");
    assert_eq!(boot.header_value("brisk.ended"), Some("property:sys.boot_completed=1"));
    let set_ms: u32 = report.one("property.set_ms").parse().unwrap();
    assert!(set_ms <= boot.span.end_ms + 40 && boot.span.end_ms < set_ms + 2000, "{:?} {set_ms}", boot.span);
}
