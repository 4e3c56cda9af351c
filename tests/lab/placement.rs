//! Law: every write can be undone, for the masks of threads that make room, with cgroups of either version.

use std::collections::BTreeMap;
use std::time::Duration;

use brisk::lab::scenario::CgroupVersion;

use super::{job, results, run, static_brisk};

/// Isolation applied and undone in a guest.
fn make_room(cgroup: CgroupVersion) {
    let Some(binary) = static_brisk() else { return };
    let mut job = job(binary, "debian-6.1-parallel", &["sh", "/placement.sh"]);
    job.scenario.guest.cgroup = cgroup;
    job.scenario.modules.clear();
    job.busybox = true;
    // Each step waits for what it has caused, which takes its time on a busy host.
    job.timeout = Duration::from_secs(900);
    let (outcome, lines) = run(&job.with_file("/placement.sh", include_str!("placement.sh")));
    let said: BTreeMap<&str, &str> = results(&lines).into_iter().filter_map(|line| line.split_once(": ")).collect();
    assert_eq!(outcome.unwrap().status, 0, "{said:#?}\n{lines:#?}");
    for step in ["freed", "killed.daemon", "killed.guardian", "killed.both", "weight"] {
        assert_eq!(said.get(step), Some(&"yes"), "{said:#?}");
    }
    assert!(!said.contains_key("killed.both.left"), "restore had nothing to do: {said:#?}");
    assert_eq!((said["chosen"], said["exit"]), ("1", "0"), "whoever chose a mask has the last word: {said:#?}");
    let group = if cgroup == CgroupVersion::V1 { "cpuset:/others" } else { "::/others" };
    for state in ["before", "isolated"] {
        assert!(said[state].contains(group), "its group is as it was: {said:#?}");
    }
    // Whether the thesis takes a hog for one of a core or of half a core depends on what the host has left it to show.
    assert!(said["before"].starts_with("0-1 | 0 0 |") && said["isolated"].starts_with("0 | "), "{said:#?}");
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
