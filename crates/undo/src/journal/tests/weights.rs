//! Weights of control groups.

use super::*;
use brisk_sys::cgroup::hierarchy::Hierarchy;

const WEIGHT: &str = "fs/cgroup/kiosk/back/cpu.weight";
const IDLE: &str = "fs/cgroup/kiosk/back/cpu.idle";

fn group() -> (Device, Target) {
    let device = Device::new(&[(WEIGHT, "50"), (IDLE, "0")]);
    (device, Target::GroupWeight("/sys/fs/cgroup/kiosk/back".into()))
}

/// The kernel resets a group's weight when `cpu.idle` is set or cleared.
fn forget_weight(device: &Device) {
    device.set(WEIGHT, "100");
}

// Verifies PLACE-4.
#[test]
fn a_group_weight_is_restored_from_each_step() {
    let (device, weight) = group();
    let mut journal = device.open();
    let held = || [device.get(WEIGHT), device.get(IDLE)];
    journal.lease(SECOND, &weight, "5", LATER, "bulk").unwrap();
    assert_eq!(held(), ["5", "0"]);
    journal.lease(SECOND, &weight, "idle", LATER, "bulk").unwrap();
    forget_weight(&device);
    assert_eq!(device.get(IDLE), "1");
    assert_eq!(journal.release(LATER, &weight).unwrap().outcome, RestoreOutcome::Restored);
    assert_eq!(held(), ["50", "0"]);
    journal.lease(SECOND, &weight, "5", LATER, "bulk").unwrap();
    journal.die();
    assert!(device.replay().is_complete());
    assert_eq!(held(), ["50", "0"]);
}

// Verifies PLACE-4.
#[test]
fn a_kill_between_idle_and_weight_writes_is_undone() {
    let (device, weight) = group();
    let mut journal = device.open();
    journal.lease(SECOND, &weight, "idle", LATER, "bulk").unwrap();
    // The first step of the restore, with its effect in the kernel; then the writer dies, before the second step.
    let mut lease = journal.leases[0].clone();
    assert!(journal.access.begin_stepwise_restore(&mut lease));
    journal.log.append(&JournalRecord::Intent { lease }).unwrap();
    device.set(IDLE, "0");
    forget_weight(&device);
    journal.die();
    let replay = device.replay();
    assert!(replay.is_complete(), "{replay:?}");
    assert_eq!([device.get(WEIGHT), device.get(IDLE)], ["50", "0"]);
}

// Verifies PLACE-4.
#[test]
fn a_weight_written_by_another_process_is_kept() {
    for (value, [weight_then, idle_then], found) in
        [("5", ["70", "0"], "70"), ("5", ["100", "1"], "idle"), ("idle", ["100", "0"], "100")]
    {
        let (device, weight) = group();
        let mut journal = device.open();
        journal.lease(SECOND, &weight, value, LATER, "bulk").unwrap();
        device.set(WEIGHT, weight_then);
        device.set(IDLE, idle_then);
        let outcome = journal.release(LATER, &weight).unwrap().outcome;
        assert_eq!(outcome, RestoreOutcome::ChangedByOther { found: found.into() }, "{value}");
        assert_eq!([device.get(WEIGHT), device.get(IDLE)], [weight_then, idle_then], "{value}");
    }
}

// Verifies PLACE-4.
#[test]
fn the_lease_of_a_removed_group_ends() {
    let (device, weight) = group();
    let mut journal = device.open();
    journal.lease(SECOND, &weight, "5", LATER, "bulk").unwrap();
    fs::remove_dir_all(device.path("fs/cgroup/kiosk/back")).unwrap();
    assert_eq!(journal.release(LATER, &weight).unwrap().outcome, RestoreOutcome::Vanished);
    assert!(journal.leases().is_empty());
}

/// The kernel accepts a write that moves an exiting thread (`PF_EXITING`), but leaves it in its group.
#[test]
fn a_thread_that_ends_while_it_is_moved_back_has_vanished() {
    let stat = |flags: u32| format!("257 (sh) R 1 257 257 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 1 0 9876 0 0");
    for (flags, is_over) in [(0x40_0100, false), (0x40_0104, true)] {
        let device = Device::new(&[("fs/cgroup/cgroup.procs", ""), ("fs/cgroup/brisk-threads/cgroup.procs", "")]);
        let process = device.root.path("/proc/257");
        fs::create_dir_all(&process).unwrap();
        fs::write(process.join("stat"), stat(0x40_0100)).unwrap();
        fs::write(process.join("cgroup"), "0::/\n").unwrap();
        let member = Target::GroupMember { hierarchy: Hierarchy::Unified, tid: 257, start_time_ticks: 9876 };
        let mut journal = device.open();
        journal.lease(SECOND, &member, "/brisk-threads", LATER, "bulk").unwrap();
        fs::write(process.join("cgroup"), "0::/brisk-threads\n").unwrap();
        journal.leases[0].observed = Some("/brisk-threads".into());
        fs::write(process.join("stat"), stat(flags)).unwrap();
        let outcome = journal.release(LATER, &member).unwrap().outcome;
        assert_eq!(outcome == RestoreOutcome::Vanished, is_over, "{outcome:?}");
    }
}
