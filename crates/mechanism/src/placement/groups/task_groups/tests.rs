use super::*;
use std::path::Path;

use brisk_sys::BootTime;
use brisk_sys::cgroup::weight::WeightedGroup;
use brisk_sys::process::schedstat::Usage;
use brisk_sys::sched::autogroup::Autogroup;
use brisk_sys::sched::priority::{Priority, SchedulingPolicy};
use brisk_sys::sched::threads::{Sample, Thread, ThreadUsage};

fn session(id: u64) -> SchedulingGroup {
    SchedulingGroup::Autogroup(Autogroup { id, nice: 0, is_own: false })
}

fn cgroup(folder: &str) -> SchedulingGroup {
    SchedulingGroup::Cgroup(folder.into())
}

fn target(session: u64) -> Target {
    Target::Autogroup(session)
}

fn weight(folder: &str) -> Target {
    Target::GroupWeight(folder.into())
}

fn facts(tid: u32, scheduling_group: SchedulingGroup) -> ThreadFacts {
    ThreadFacts {
        tid,
        start_time_ticks: 0,
        allowed: vec![0],
        priority: Priority { policy: SchedulingPolicy::Other, nice: 0 },
        groups: Default::default(),
        scheduling_group,
        weighed: Vec::new(),
        children_ticks: 0,
    }
}

/// Process 1 is the foreground; process 2 is a background child of process 9.
fn roster() -> Roster {
    let mut roster = Roster::default();
    roster.put_in_foreground([1].into());
    let thread = |tid, parent| Thread { tid, pid: tid, parent, command: format!("t{tid}") };
    let born = vec![thread(1, 0), thread(2, 9), thread(9, 0)];
    roster.take(BootTime::default(), 0, &Sample { born, ..Sample::default() }, |_| false);
    roster
}

/// The facts of a thread in the control group `folder` of the sub-tree /t, in which each group weighs 100.
fn weighed(tid: u32, folder: &str) -> ThreadFacts {
    let folders: Vec<&Path> = Path::new(folder).ancestors().filter(|folder| folder.starts_with("/t")).collect();
    let group = |folder: &Path| WeightedGroup {
        folder: folder.to_owned(),
        weight: (folder != Path::new("/t") && folder != Path::new("/t/fixed")).then_some(100),
    };
    let weighed = folders.into_iter().rev().map(group).collect();
    ThreadFacts { weighed, ..facts(tid, cgroup(folder)) }
}

/// Spares groups for a roster with thread 2 as its bulk, and returns the threads that it requests facts of.
fn spared(groups: &mut TaskGroups, roster: &Roster, excluded: &[Glob]) -> Vec<u32> {
    let mut unknown = Vec::new();
    let bulk: Vec<&Member> = roster.get(2).into_iter().collect();
    groups.update((BootTime::default(), roster, excluded), &bulk, &BTreeSet::new(), (&mut unknown, 9));
    assert!(unknown.iter().all(|tid| groups.is_requested_for_group(*tid)));
    unknown
}

// Verifies PLACE-8.
#[test]
fn what_counts_follows_from_the_groups_of_both() {
    let root = || SchedulingGroup::Root;
    for (front, other, expected) in [
        (root(), root(), CompetesBy::Nice),
        (session(4), root(), CompetesBy::Nice),
        (session(4), session(4), CompetesBy::Nice),
        (session(4), session(5), CompetesBy::Group(target(5))),
        (root(), session(5), CompetesBy::Group(target(5))),
        (cgroup("/cg/a"), session(5), CompetesBy::Group(target(5))),
        (cgroup("/cg/a"), cgroup("/cg/a"), CompetesBy::Nice),
        (cgroup("/cg/a"), cgroup("/cg/b"), CompetesBy::Group(weight("/cg/b"))),
        (cgroup("/cg/a/x"), cgroup("/cg/a"), CompetesBy::Nice),
        (cgroup("/cg/a"), cgroup("/cg/a/x"), CompetesBy::Group(weight("/cg/a/x"))),
        (cgroup("/cg/ab"), cgroup("/cg/a"), CompetesBy::Group(weight("/cg/a"))),
        (session(4), cgroup("/cg/b"), CompetesBy::Group(weight("/cg/b"))),
        (cgroup("/cg/a"), root(), CompetesBy::Nice),
    ] {
        let (roster, mut sessions) = (roster(), TaskGroups::default());
        let told = [facts(1, front.clone()), facts(2, other.clone())];
        sessions.take(&told, &roster, &LeaseSet::default());
        spared(&mut sessions, &roster, &[]);
        assert_eq!(sessions.competes_by(roster.get(2).unwrap()), Some(expected), "{front:?} {other:?}");
    }
}

#[test]
fn the_groups_of_the_foreground_are_requested_first() {
    let (roster, mut sessions) = (roster(), TaskGroups::default());
    sessions.take(&[facts(2, session(5))], &roster, &LeaseSet::default());
    assert_eq!(spared(&mut sessions, &roster, &[]), [1]);
    assert!(sessions.is_incomplete(), "the foreground may be in the same session");
    sessions.take(&[facts(1, session(4))], &roster, &LeaseSet::default());
    assert_eq!((spared(&mut sessions, &roster, &[]), sessions.is_incomplete()), (vec![], false));
    sessions.invalidate();
    assert_eq!((spared(&mut sessions, &roster, &[]), sessions.is_incomplete()), (vec![1, 2], false), "still known");
    sessions.forget(&[2, 9]);
    spared(&mut sessions, &roster, &[]);
    assert!(sessions.competes_by(roster.get(2).unwrap()).is_none() && sessions.own.len() == 1);
}

#[test]
fn a_new_process_is_assumed_in_its_parents_session() {
    let (roster, mut sessions) = (roster(), TaskGroups::default());
    sessions.take(&[facts(1, session(4)), facts(9, session(5))], &roster, &LeaseSet::default());
    spared(&mut sessions, &roster, &[]);
    assert_eq!(sessions.of(roster.get(2).unwrap()), Some(target(5)));
    spared(&mut sessions, &roster, &["t9".parse().unwrap()]);
    assert_eq!(sessions.of(roster.get(2).unwrap()), None, "an excluded thread keeps the weight of its session");
}

// Verifies PLACE-8.
#[test]
fn a_leased_value_is_not_taken_for_the_groups_own() {
    let until = BootTime::from_milliseconds(90_000);
    let lowered = SchedulingGroup::Autogroup(Autogroup { id: 5, nice: 10, is_own: false });
    let light = |weight| {
        let mut facts = weighed(2, "/t/b");
        facts.weighed[1].weight = weight;
        facts
    };
    for (front, own, leased, ours, others) in [
        (
            facts(1, session(4)),
            facts(2, session(5)),
            target(5),
            facts(2, lowered.clone()),
            (facts(2, lowered), Some(10)),
        ),
        (weighed(1, "/t/a"), light(Some(100)), weight("/t/b"), light(Some(10)), (light(Some(70)), Some(70))),
        (weighed(1, "/t/a"), light(Some(100)), weight("/t/b"), light(None), (light(None), None)),
    ] {
        let (roster, mut groups) = (roster(), TaskGroups::default());
        let mut own_of = |facts: &ThreadFacts, leased: &LeaseSet| {
            groups.take(&[front.clone(), facts.clone()], &roster, leased);
            spared(&mut groups, &roster, &[]);
            groups.lowerable_groups(BootTime::default()).into_values().next().map(|weights| weights.own)
        };
        let mut holdings = LeaseSet::default();
        let first = own_of(&own, &holdings);
        holdings.lease(BootTime::default(), (&leased, "10"), until, "why", &mut Vec::new());
        assert_eq!(own_of(&ours, &holdings), first, "{leased}");
        assert_eq!(own_of(&others.0, &LeaseSet::default()), others.1, "{leased}: another program's");
    }
}

// Verifies PLACE-4.
#[test]
fn the_highest_group_without_the_foreground_is_lowered() {
    for (case, front, background, expected) in [
        ("side by side", "/t/a", "/t/b", Some("/t/b")),
        ("deep below", "/t/a/x", "/t/b/y", Some("/t/b")),
        ("where they part", "/t/a/x", "/t/a/y", Some("/t/a/y")),
        ("the same", "/t/a", "/t/a", None),
        ("the foreground is below", "/t/a", "/t", None),
        ("the foreground is above", "/t", "/t/a", Some("/t/a")),
        ("the foreground is outside", "/else", "/t/a", None),
        ("must not be changed", "/t/a", "/t/fixed", None),
        ("a name begins like another's", "/t/a", "/t/ab", Some("/t/ab")),
    ] {
        let (roster, mut groups) = (roster(), TaskGroups::default());
        groups.take(&[weighed(1, front), weighed(2, background)], &roster, &LeaseSet::default());
        spared(&mut groups, &roster, &[]);
        let found = groups.of(roster.get(2).unwrap());
        assert_eq!(found, expected.map(weight), "{case}");
    }
}

// Verifies PLACE-4.
#[test]
fn a_group_is_weighed_against_the_foregrounds_sibling() {
    for (front, back, expected) in [
        ("/t/a", "/t/b", Some(Weights { own: 100, foreground: 400 })),
        ("/t/a/x", "/t/b/y", Some(Weights { own: 100, foreground: 400 })),
        // Nothing is known of the foreground beside it.
        ("/t", "/t/b", Some(Weights { own: 100, foreground: 100 })),
    ] {
        let (roster, mut groups) = (roster(), TaskGroups::default());
        let mut foreground = weighed(1, front);
        foreground.weighed.iter_mut().skip(1).for_each(|group| group.weight = Some(400));
        groups.take(&[foreground, weighed(2, back)], &roster, &LeaseSet::default());
        spared(&mut groups, &roster, &[]);
        assert_eq!(
            groups.lowerable(groups.group_path(&roster.get(2).unwrap().thread).unwrap()).map(|it| it.1),
            expected
        );
    }
}

// Verifies PLACE-8.
#[test]
fn a_moving_foreground_is_read_with_each_sample() {
    let (roster, mut groups) = (roster(), TaskGroups::default());
    groups.take(&[weighed(1, "/t"), weighed(2, "/t/s/b")], &roster, &LeaseSet::default());
    spared(&mut groups, &roster, &[]);
    assert_eq!(groups.of(roster.get(2).unwrap()), Some(weight("/t/s")));
    let mut unknown = Vec::new();
    groups.update((BootTime::default(), &roster, &[]), &[], &[1].into(), (&mut unknown, 9));
    assert_eq!(unknown, [1]);
    groups.take(&[weighed(1, "/t/s/a")], &roster, &LeaseSet::default());
    spared(&mut groups, &roster, &[]);
    assert_eq!(groups.of(roster.get(2).unwrap()), Some(weight("/t/s/b")));
}

// Verifies PLACE-4.
#[test]
fn a_group_is_spared_for_any_thread_that_is_not_bulk() {
    let thread = |tid: u32| Thread { tid, pid: tid, parent: 9, command: format!("t{tid}") };
    // What each does in 100 ms: milliseconds, and how often.
    for (case, run_ms, slices, expected) in [
        ("a hog", 100, 1, true),
        ("music", 5, 5, false),
        ("it sleeps", 0, 0, true),
        ("it works now and then", 1, 0, true),
        ("a download", 37, 3, false),
    ] {
        let mut roster = Roster::default();
        roster.put_in_foreground([1].into());
        roster.take(
            BootTime::default(),
            0,
            &Sample { born: vec![thread(1), thread(2), thread(3)], ..Sample::default() },
            |_| false,
        );
        for tick in 1..=20 {
            let used = |tid, run_ms: u64, slices| ThreadUsage {
                tid,
                usage: Usage { wall_ns: 100_000_000, run_ns: run_ms * 1_000_000, wait_ns: 0, slices },
            };
            let used = vec![used(2, 100, 1), used(3, run_ms, slices)];
            let now = BootTime::from_milliseconds(tick * 100);
            roster.take(now, 100_000_000, &Sample { used, ..Sample::default() }, |_| false);
        }
        let mut groups = TaskGroups::default();
        let facts = [weighed(1, "/t/a"), weighed(2, "/t/b"), weighed(3, "/t/b")];
        groups.take(&facts, &roster, &LeaseSet::default());
        spared(&mut groups, &roster, &[]);
        assert_eq!(groups.of(roster.get(2).unwrap()).is_some(), expected, "{case}");
        spared(&mut groups, &roster, &["t2".parse().unwrap()]);
        assert!(
            groups.of(roster.get(2).unwrap()).is_none(),
            "{case}: an excluded thread keeps the weight of its group"
        );
        for tick in 21..=35 {
            let used = vec![ThreadUsage {
                tid: 2,
                usage: Usage { wall_ns: 100_000_000, run_ns: 100_000_000, wait_ns: 0, slices: 1 },
            }];
            let now = BootTime::from_milliseconds(tick * 100);
            roster.take(now, 100_000_000, &Sample { used, ..Sample::default() }, |_| false);
        }
        let (now, bulk) = (BootTime::from_milliseconds(3500), roster.get(2).into_iter().collect::<Vec<_>>());
        groups.update((now, &roster, &[]), &bulk, &BTreeSet::new(), (&mut Vec::new(), 9));
        assert!(groups.of(roster.get(2).unwrap()).is_some(), "{case}: it has slept since");
    }
}
