//! Law: every write can be undone, for the masks of threads that make room, with cgroups of either version.

use std::time::Duration;

use brisk::lab::scenario::CgroupVersion;

use super::steps::Report;
use super::{job, static_brisk};

/// Isolation applied and undone in a guest.
fn make_room(cgroup: CgroupVersion) {
    let Some(binary) = static_brisk() else { return };
    let mut job = job(binary, "debian-6.1-parallel", &["sh", "/placement.sh"]);
    job.scenario.guest.cgroup = cgroup;
    job.scenario.modules.clear();
    let report = Report::of(job, "/placement.sh", include_str!("placement.sh"), Duration::from_secs(900));
    for step in ["freed", "killed.daemon", "killed.guardian", "killed.both", "weight"] {
        assert_eq!(report.one(step), "yes", "{report:#?}");
    }
    assert!(report.all("killed.both.left").is_empty(), "restore had nothing to do: {report:#?}");
    assert_eq!(
        (report.one("chosen"), report.one("exit")),
        ("1", "0"),
        "whoever chose a mask has the last word: {report:#?}"
    );
    let group = if cgroup == CgroupVersion::V1 { "cpuset:/others" } else { "::/others" };
    for state in ["before", "isolated"] {
        assert!(report.one(state).contains(group), "its group is as it was: {report:#?}");
    }
    // Whether the thesis takes a hog for one of a core or of half a core depends on what the host has left it to show.
    let [before, isolated] = ["before", "isolated"].map(|state| report.one(state));
    assert!(before.starts_with("0-1 | 0 0 |") && isolated.starts_with("0 | "), "{report:#?}");
}

#[test]
#[ignore = "which of the hogs are heavy depends on what the host leaves them; ./dev test --deep"]
fn bulk_work_makes_room_and_gets_everything_back_with_cgroup_v2() {
    make_room(CgroupVersion::V2);
}

#[test]
#[ignore = "which of the hogs are heavy depends on what the host leaves them; ./dev test --deep"]
fn bulk_work_makes_room_and_gets_everything_back_with_cgroup_v1() {
    make_room(CgroupVersion::V1);
}

/// Bulk work that makes room by `rule`, while CPUs go and come back and daemons are killed so many times.
fn take_and_give_back(cgroup: CgroupVersion, cycles: u32, rule: &str) {
    let Some(binary) = static_brisk() else { return };
    let cycles = cycles.to_string();
    let mut job = job(binary, "debian-6.1-parallel", &["sh", "/placement_groups.sh", &cycles, rule]);
    job.scenario.guest.cgroup = cgroup;
    job.scenario.modules.clear();
    job.scenario.kernel.command_line += " cpu0_hotplug";
    let script = include_str!("placement_groups.sh");
    let report = Report::of(job, "/placement_groups.sh", script, Duration::from_secs(7200));
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
        assert!(report.one("chosen").contains(":/chosen"), "who chose a group has the last word: {report:#?}");
    }
}

#[test]
fn groups_are_as_before_whoever_dies_and_whichever_cpu_goes_with_cgroup_v1() {
    take_and_give_back(CgroupVersion::V1, 5, "weight");
}

#[test]
fn groups_are_as_before_whoever_dies_and_whichever_cpu_goes_with_cgroup_v2() {
    take_and_give_back(CgroupVersion::V2, 5, "weight");
}

#[test]
#[ignore = "a thousand times takes hours, and whether a CPU is left free depends on how busy the host is; ./dev test --deep"]
fn groups_and_masks_are_as_before_a_thousand_times() {
    let kills = std::env::var("BRISK_SOAK_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(1000);
    for (cgroup, share) in [(CgroupVersion::V1, 2), (CgroupVersion::V2, 2), (CgroupVersion::None, 1)] {
        for rule in ["brisk", "weight"] {
            take_and_give_back(cgroup, kills * share / 10, rule);
        }
    }
}
