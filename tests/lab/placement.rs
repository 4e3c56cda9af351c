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

/// Threads taken into groups while CPUs go and come back and daemons are killed, so many times.
fn take_and_give_back(cgroup: CgroupVersion, cycles: u32) {
    let Some(binary) = static_brisk() else { return };
    let cycles = cycles.to_string();
    let mut job = job(binary, "debian-6.1-parallel", &["sh", "/placement_groups.sh", &cycles]);
    job.scenario.guest.cgroup = cgroup;
    job.scenario.modules.clear();
    let script = include_str!("placement_groups.sh");
    let report = Report::of(job, "/placement_groups.sh", script, Duration::from_secs(7200));
    assert!(report.all("left").is_empty(), "{report:#?}");
    assert_eq!((report.one("cycles"), report.one("freed"), report.one("exit")), (&*cycles, "yes", "0"), "{report:#?}");
    let [isolated, weighed] = ["isolated", "weighed"].map(|state| report.one(state));
    let into = match cgroup {
        CgroupVersion::V1 => ["cpuset:/brisk-threads", "cpu:/brisk-threads"],
        CgroupVersion::V2 => ["::/brisk-threads"; 2],
        CgroupVersion::None => ["0 | 0 0 |", "0-1 | 10 0 |"],
    };
    assert!(
        isolated.starts_with("0 | 0 0 |") && isolated.contains(into[0]) && weighed.contains(into[1]),
        "{report:#?}"
    );
    if cgroup != CgroupVersion::None {
        assert!(report.one("chosen").contains(":/chosen"), "who chose a group has the last word: {report:#?}");
    }
}

#[test]
fn groups_are_as_before_whoever_dies_and_whichever_cpu_goes_with_cgroup_v1() {
    take_and_give_back(CgroupVersion::V1, 5);
}

#[test]
fn groups_are_as_before_whoever_dies_and_whichever_cpu_goes_with_cgroup_v2() {
    take_and_give_back(CgroupVersion::V2, 5);
}

#[test]
#[ignore = "a thousand times takes half an hour; ./dev test --deep"]
fn groups_and_masks_are_as_before_a_thousand_times() {
    for (cgroup, cycles) in [(CgroupVersion::V1, 400), (CgroupVersion::V2, 400), (CgroupVersion::None, 200)] {
        take_and_give_back(cgroup, cycles);
    }
}
