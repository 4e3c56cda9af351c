//! Every write can be undone, for the masks of deprioritised threads, with cgroups of either version.

use std::collections::BTreeMap;
use std::time::Duration;

use brisk::lab::Job;
use brisk::lab::scenario::CgroupVersion;

use super::steps::Report;
use super::{job_in_turn, static_brisk};

/// The output of a script about placement in `job`.
fn report(job: Job, path: &str, script: &str, patience: Duration) -> Report {
    let job = job.with_file("/placement_steps.sh", include_str!("steps.sh"));
    Report::of(job, path, script, patience)
}

/// Isolation, applied and undone in a guest.
fn isolate_and_restore(cgroup: CgroupVersion) {
    let Some(binary) = static_brisk() else { return };
    let mut job = job_in_turn(binary, "debian-6.1-parallel", &["sh", "/placement.sh"]);
    job.scenario.guest.cgroup = cgroup;
    job.scenario.modules.clear();
    let report = report(job, "/placement.sh", include_str!("placement.sh"), Duration::from_secs(900));
    for step in ["freed", "killed.daemon", "killed.guardian", "killed.both", "weight"] {
        assert_eq!(report.one(step), "yes", "{report:#?}");
    }
    assert!(report.all("killed.both.left").is_empty(), "restore had nothing to do: {report:#?}");
    assert_eq!((report.one("chosen"), report.one("exit")), ("1", "0"), "displaced by another writer: {report:#?}");
    let group = if cgroup == CgroupVersion::V1 { "cpuset:/others" } else { "::/others" };
    for state in ["before", "isolated"] {
        assert!(report.one(state).contains(group), "its group is restored: {report:#?}");
    }
    // Whether the `thesis` rule sees one core or half a core of demand in a hog depends on the host's load.
    let [before, isolated] = ["before", "isolated"].map(|state| report.one(state));
    assert!(before.starts_with("0-1 | 0 0 |") && isolated.starts_with("0 | "), "{report:#?}");
}

// Verifies PLACE-5.
#[test]
#[ignore = "which of the hogs are heavy depends on what the host leaves them; ./dev test --deep"]
fn bulk_work_makes_room_and_gets_everything_back_with_cgroup_v2() {
    isolate_and_restore(CgroupVersion::V2);
}

// Verifies PLACE-5.
#[test]
#[ignore = "which of the hogs are heavy depends on what the host leaves them; ./dev test --deep"]
fn bulk_work_makes_room_and_gets_everything_back_with_cgroup_v1() {
    isolate_and_restore(CgroupVersion::V1);
}

/// Bulk threads are deprioritised by `rule` while CPUs go offline and online and daemons are killed, `cycles` times.
fn apply_and_restore(cgroup: CgroupVersion, cycles: u32, rule: &str) {
    let Some(binary) = static_brisk() else { return };
    let cycles = cycles.to_string();
    let mut job = job_in_turn(binary, "debian-6.1-parallel", &["sh", "/placement_groups.sh", &cycles, rule]);
    job.scenario.guest.cgroup = cgroup;
    job.scenario.modules.clear();
    job.scenario.kernel.command_line += " cpu0_hotplug";
    let script = include_str!("groups.sh");
    let report = report(job, "/placement_groups.sh", script, Duration::from_secs(7200));
    assert!(report.all("left").is_empty(), "{report:#?}");
    assert_eq!((report.one("cycles"), report.one("freed"), report.one("exit")), (&*cycles, "yes", "0"), "{report:#?}");
    let by_groups = |state: &str, hierarchy: &str| match cgroup {
        CgroupVersion::V1 => report.one(state).contains(&format!("{hierarchy}:/brisk-threads")),
        CgroupVersion::V2 => report.one(state).contains("::/brisk-threads"),
        CgroupVersion::None => !report.one(state).contains("brisk-threads"),
    };
    let applied = by_groups("applied", if rule == "weight" { "cpu" } else { "cpuset" });
    assert!(applied && by_groups("weighed", "cpu"), "{report:#?}");
    if cgroup != CgroupVersion::None {
        assert!(report.one("chosen").contains(":/chosen"), "displaced by another writer: {report:#?}");
    }
}

// Verifies PLACE-5.
#[test]
fn groups_are_restored_after_any_death_or_unplug_with_cgroup_v1() {
    apply_and_restore(CgroupVersion::V1, 5, "weight");
}

// Verifies PLACE-5.
#[test]
fn groups_are_restored_after_any_death_or_unplug_with_cgroup_v2() {
    apply_and_restore(CgroupVersion::V2, 5, "weight");
}

// Verifies PLACE-5.
#[test]
#[ignore = "a thousand times takes hours, and whether a CPU is left free depends on how busy the host is; ./dev test --deep"]
fn groups_and_masks_are_as_before_a_thousand_times() {
    let kills = std::env::var("BRISK_SOAK_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(1000);
    for (cgroup, share) in [(CgroupVersion::V1, 2), (CgroupVersion::V2, 2), (CgroupVersion::None, 1)] {
        for rule in ["brisk", "weight"] {
            apply_and_restore(cgroup, kills * share / 10, rule);
        }
    }
}

/// The output of `steps` of placement_faults.sh on a kernel with `command_line` appended.
fn faults(steps: &[&str], command_line: &str) -> Option<Report> {
    let command = [&["sh", "/placement_faults.sh"], steps].concat();
    let mut job = job_in_turn(static_brisk()?, "debian-6.1-parallel", &command);
    job.scenario.modules.clear();
    job.scenario.machine.memory_mib = 1024;
    job.scenario.kernel.command_line += command_line;
    let script = include_str!("faults.sh");
    let report = report(job, "/placement_faults.sh", script, Duration::from_secs(900));
    for step in steps {
        let [exit, left] = ["exit", "left"].map(|what| report.one(&format!("{step}.{what}")).to_owned());
        assert_eq!((exit.as_str(), left.as_str()), ("0", "0"), "{report:#?}");
    }
    Some(report)
}

// Verifies PLACE-5.
#[test]
fn only_threads_of_the_delegated_sub_tree_are_moved() {
    let Some(report) = faults(&["delegated", "undelegated", "bound"], "") else { return };
    for (name, group) in [
        ("bound.group", "0::/"),
        ("delegated.domain", "0::/ours/domain"),
        ("delegated.threaded", "0::/ours/threaded/part"),
        ("delegated.outside", "0::/theirs"),
        ("undelegated.group", "0::/"),
    ] {
        assert_eq!(report.one(name), group, "{report:#?}");
    }
    assert_eq!(report.one("delegated.type"), "domain", "as before");
    assert_eq!(report.all("bound.mask"), ["1", "1"], "{report:#?}");
    assert!(report.one("undelegated.support").contains("by masks and nice values"), "{report:#?}");
}

// Verifies PLACE-4.
#[test]
fn a_background_group_gets_less_weight_and_is_restored() {
    let Some(report) = faults(&["neighbours"], "") else { return };
    for step in ["neighbours.weighs", "neighbours.freed", "neighbours.killed"] {
        assert_eq!(report.one(step), "yes", "{report:#?}");
    }
    assert_eq!(report.one("neighbours.chosen"), "70", "displaced by another writer: {report:#?}");
}

// Verifies PLACE-5.
#[test]
#[ignore = "a minute: ./dev test --deep"]
fn a_thread_that_exits_or_is_moved_meanwhile_is_left_alone() {
    let Some(report) = faults(&["churn"], "") else { return };
    assert_eq!((report.one("churn.taken"), report.one("churn.stays")), ("yes", "0::/"), "{report:#?}");
    assert_eq!(report.all("churn.moved"), ["0::/elsewhere"; 6], "{report:#?}");
}

// Verifies PLACE-5.
#[test]
#[ignore = "a minute: ./dev test --deep"]
fn a_sudden_crowd_does_not_stop_deprioritising() {
    let Some(report) = faults(&["crowd"], "") else { return };
    assert_eq!((report.one("crowd.taken"), report.one("crowd.freed")), ("yes", "yes"), "{report:#?}");
}

// Verifies PLACE-5.
#[test]
#[ignore = "a boot of its own: ./dev test --deep"]
fn without_the_controllers_masks_and_nice_values_do() {
    let Some(report) = faults(&["missing"], " cgroup_disable=cpu cgroup_disable=cpuset") else { return };
    let controllers: Vec<&str> = report.one("missing.controllers").split_whitespace().collect();
    assert!(!controllers.is_empty() && !controllers.iter().any(|name| name.starts_with("cpu")), "{report:#?}");
    assert_eq!(report.one("missing.group"), "0::/", "{report:#?}");
    assert!(report.one("missing.support").contains("by masks and nice values"), "{report:#?}");
}

// Verifies PLACE-5.
#[test]
#[ignore = "a trial that a busy host may end again and again: ./dev test --deep"]
fn with_a_single_cpu_none_is_kept_free() {
    let Some(report) = faults(&["single"], "") else { return };
    // The kernel shows the online CPUs of a mask that was written while one was offline.
    assert!(["0", "0-1"].contains(&report.one("single.mask")), "{report:#?}");
    assert_eq!(report.one("single.cpus"), "[]", "{report:#?}");
}

/// The output of `steps` of placement_storage.sh, with an emulated disk of the kernel that serves one request at a time.
fn storage(steps: &[&str]) -> Option<Report> {
    let command = [&["sh", "/placement_storage.sh"], steps].concat();
    let mut job = job_in_turn(static_brisk()?, "debian-6.1-parallel", &command);
    let disk = r#"{ irqmode = 2, completion_nsec = 10000000, hw_queue_depth = 1, submit_queues = 1 }"#;
    let modules = format!("module = [{{ name = 'bfq' }}, {{ name = 'null_blk', parameters = {disk} }}]");
    job.scenario.modules = toml::from_str::<BTreeMap<String, _>>(&modules).unwrap().remove("module").unwrap();
    Some(report(job, "/placement_storage.sh", include_str!("storage.sh"), Duration::from_secs(900)))
}

// Verifies PLACE-2.
#[test]
fn a_storage_hog_loses_io_priority_and_is_restored() {
    let Some(report) = storage(&["undo"]) else { return };
    for step in ["undo.applied", "undo.freed", "undo.killed", "undo.restored"] {
        assert_eq!(report.one(step), "yes", "{report:#?}");
    }
    assert_eq!((report.one("undo.exit"), report.one("undo.chosen")), ("0", "best-effort: prio 2"), "{report:#?}");
}

// Verifies PLACE-2.
#[test]
#[ignore = "half a minute, more where a busy host disturbs a trial; ./dev test --deep"]
fn the_disks_schedulers_obey() {
    let Some(report) = storage(&["obeyed", "schedulers"]) else { return };
    let share = |name: &str| report.one(name).parse::<u32>().unwrap();
    let [before, after] = ["obeyed.before", "obeyed.after"].map(share);
    // Half before, four fifths after.
    assert!((40..=60).contains(&before) && after >= 65, "{report:#?}");
    assert_eq!((report.one("obeyed.kept"), report.one("schedulers.deadline")), ("yes", "yes"), "{report:#?}");
    assert_eq!(report.one("schedulers.none"), "1", "{report:#?}");
}

// Verifies PLACE-2, PLACE-5, UNDO-4.
#[test]
fn a_group_that_fills_a_queue_loses_its_packets_priority_until_the_daemon_ends() {
    let Some(binary) = static_brisk() else { return };
    let mut job = job_in_turn(binary, "debian-6.1-parallel", &["sh", "/placement_network.sh"]);
    job.scenario.guest.loopback = true;
    let modules = "module = [{ name = 'sch_tbf' }, { name = 'tcp_diag' }]";
    job.scenario.modules = toml::from_str::<BTreeMap<String, _>>(modules).unwrap().remove("module").unwrap();
    let report = report(job, "/placement_network.sh", include_str!("network.sh"), Duration::from_secs(900));
    for step in ["applied", "freed", "killed.daemon", "killed.both"] {
        assert_eq!(report.one(step), "yes", "{report:#?}");
    }
    assert_eq!((report.one("gone.exit"), report.one("gone.left")), ("0", "0"), "{report:#?}");
    assert!(report.one("why").starts_with("a packet waits") && report.one("leased") != "0", "{report:#?}");
    assert!(report.one("queues.bands").ends_with("lo (pfifo_fast)"), "{report:#?}");
    assert!(report.one("queues.fair").contains("lo (fq_codel)"), "{report:#?}");
    assert!(report.complaints(|_| false).is_empty(), "{report:#?}");
}
