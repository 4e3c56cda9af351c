//! A governor together with its tunables.

use super::*;

/// A policy whose governor has a tunable. A real kernel would create the tunable's file again, with its default.
fn governed() -> (Device, Target) {
    let mut device = Device::new(&[
        ("devices/system/cpu/cpufreq/policy0/scaling_governor", "ondemand"),
        ("devices/system/cpu/cpufreq/policy0/ondemand/sampling_rate", "20000"),
    ]);
    device.holder = Holder::Boot;
    (device, Target::Governor("/sys/devices/system/cpu/cpufreq/policy0".into()))
}

const GOVERNOR: &str = "devices/system/cpu/cpufreq/policy0/scaling_governor";
const RATE: &str = "devices/system/cpu/cpufreq/policy0/ondemand/sampling_rate";

#[test]
fn a_governor_is_restored_with_its_tunables() {
    let (device, governor) = governed();
    let mut journal = device.open();
    journal.lease(SECOND, &governor, "performance", LATER, "boot").unwrap();
    device.set(RATE, "100000");
    assert_eq!(journal.release(LATER, &governor).unwrap().outcome, RestoreOutcome::Restored);
    assert_eq!((device.get(GOVERNOR).as_str(), device.get(RATE).as_str()), ("ondemand", "20000"));
}

// Verifies BOOT-2.
#[test]
fn a_kill_between_governor_and_tunable_writes_is_undone() {
    let (device, governor) = governed();
    let mut journal = device.open();
    journal.lease(SECOND, &governor, "performance", LATER, "boot").unwrap();
    // The first step of the restore, with its effect in the kernel; then the writer dies, before the second step.
    let mut lease = journal.leases[0].clone();
    assert!(journal.access.begin_stepwise_restore(&mut lease));
    journal.log.append(&JournalRecord::Intent { lease }).unwrap();
    device.set(GOVERNOR, "ondemand");
    device.set(RATE, "100000");
    journal.die();
    let replay = device.replay();
    assert!(replay.is_complete(), "{replay:?}");
    assert_eq!((device.get(GOVERNOR).as_str(), device.get(RATE).as_str()), ("ondemand", "20000"));
}

// Verifies BOOT-2.
#[test]
fn a_governor_chosen_by_another_process_is_kept() {
    let (device, governor) = governed();
    let mut journal = device.open();
    journal.lease(SECOND, &governor, "performance", LATER, "boot").unwrap();
    device.set(GOVERNOR, "schedutil");
    let outcome = journal.release(LATER, &governor).unwrap().outcome;
    assert_eq!(outcome, RestoreOutcome::ChangedByOther { found: "schedutil".into() });
    journal.lease(LATER, &governor, "performance", LATER, "boot").unwrap();
    device.set(GOVERNOR, "ondemand");
    device.set(RATE, "100000");
    let found = "ondemand\tsampling_rate=100000".to_owned();
    assert_eq!(journal.release(LATER, &governor).unwrap().outcome, RestoreOutcome::ChangedByOther { found });
    assert_eq!(device.get(RATE), "100000", "the other process has set its tunables too");
}

#[test]
fn an_adopted_governor_is_set_to_its_intended_value() {
    let (device, governor) = governed();
    let adopt = |journal: &mut Journal| journal.adopt(SECOND, &governor, "performance", "ondemand", LATER, "boot");
    assert!(adopt(&mut device.open()).is_err(), "it holds something else");
    device.set(GOVERNOR, "performance");
    let mut journal = device.open();
    adopt(&mut journal).unwrap();
    assert!(adopt(&mut journal).is_err(), "it is leased");
    assert_eq!(device.get(GOVERNOR), "performance");
    journal.die();
    assert!(device.replay().is_complete());
    assert_eq!(device.get(GOVERNOR), "ondemand");
}
