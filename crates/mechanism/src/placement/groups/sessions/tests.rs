use super::*;
use brisk_sys::BootTime;
use brisk_sys::sched::autogroup::Autogroup;
use brisk_sys::sched::priority::{Priority, SchedulingPolicy};
use brisk_sys::sched::threads::{Sample, Thread};

fn session(id: u64) -> SchedulingGroup {
    SchedulingGroup::Autogroup(Autogroup { id, nice: 0, is_own: false })
}

fn cgroup(folder: &str) -> SchedulingGroup {
    SchedulingGroup::Cgroup(folder.into())
}

fn facts(tid: u32, scheduling_group: SchedulingGroup) -> ThreadFacts {
    ThreadFacts {
        tid,
        start_time_ticks: 0,
        allowed: vec![0],
        priority: Priority { policy: SchedulingPolicy::Other, nice: 0 },
        clamps: Default::default(),
        groups: Default::default(),
        scheduling_group,
        children_ticks: 0,
    }
}

/// Process 1 is the foreground; process 2 is a background child of process 9.
fn roster() -> Roster {
    let mut roster = Roster::default();
    roster.put_in_foreground([1].into());
    let thread = |tid, parent| Thread { tid, pid: tid, parent, command: format!("t{tid}") };
    let born = vec![thread(1, 0), thread(2, 9), thread(9, 0)];
    roster.take(BootTime::default(), 0, &Sample { born, ..Sample::default() });
    roster
}

/// Spares sessions, and returns the threads that it requests facts of.
fn spared(sessions: &mut Sessions, roster: &Roster, excluded: &[Glob]) -> Vec<u32> {
    let mut unknown = Vec::new();
    sessions.spare(roster, excluded, &mut unknown, 9);
    assert!(unknown.iter().all(|tid| sessions.asked_alone(*tid)));
    unknown
}

// Verifies PLACE-8.
#[test]
fn what_counts_follows_from_the_groups_of_both() {
    let root = || SchedulingGroup::Root;
    for (front, other, expected) in [
        (root(), root(), Reach::Nice),
        (session(4), root(), Reach::Nice),
        (session(4), session(4), Reach::Nice),
        (session(4), session(5), Reach::Autogroup(5)),
        (root(), session(5), Reach::Autogroup(5)),
        (cgroup("/cg/a"), session(5), Reach::Autogroup(5)),
        (cgroup("/cg/a"), cgroup("/cg/a"), Reach::Nice),
        (cgroup("/cg/a"), cgroup("/cg/b"), Reach::Cgroup("/cg/b".into())),
        (cgroup("/cg/a/x"), cgroup("/cg/a"), Reach::Nice),
        (cgroup("/cg/a"), cgroup("/cg/a/x"), Reach::Cgroup("/cg/a/x".into())),
        (cgroup("/cg/ab"), cgroup("/cg/a"), Reach::Cgroup("/cg/a".into())),
        (session(4), cgroup("/cg/b"), Reach::Cgroup("/cg/b".into())),
        (cgroup("/cg/a"), root(), Reach::Nice),
    ] {
        let (roster, mut sessions) = (roster(), Sessions::default());
        let told = [facts(1, front.clone()), facts(2, other.clone())];
        sessions.take(&told, &roster, &Holdings::default());
        spared(&mut sessions, &roster, &[]);
        assert_eq!(sessions.reach(roster.get(2).unwrap()), Some(expected), "{front:?} {other:?}");
    }
}

#[test]
fn the_groups_of_the_foreground_are_requested_first() {
    let (roster, mut sessions) = (roster(), Sessions::default());
    sessions.take(&[facts(2, session(5))], &roster, &Holdings::default());
    assert_eq!(spared(&mut sessions, &roster, &[]), [1]);
    assert!(sessions.is_incomplete(), "the foreground may be in the same session");
    sessions.take(&[facts(1, session(4))], &roster, &Holdings::default());
    assert_eq!((spared(&mut sessions, &roster, &[]), sessions.is_incomplete()), (vec![], false));
    sessions.doubt();
    assert_eq!((spared(&mut sessions, &roster, &[]), sessions.is_incomplete()), (vec![1], false), "still known");
    sessions.forget(&[2, 9]);
    spared(&mut sessions, &roster, &[]);
    assert!(sessions.reach(roster.get(2).unwrap()).is_none() && sessions.nice.len() == 1);
}

#[test]
fn a_new_process_is_assumed_in_its_parents_session() {
    let (roster, mut sessions) = (roster(), Sessions::default());
    sessions.take(&[facts(1, session(4)), facts(9, session(5))], &roster, &Holdings::default());
    spared(&mut sessions, &roster, &[]);
    assert_eq!(sessions.of(roster.get(2).unwrap()), Some((5, 0)));
    spared(&mut sessions, &roster, &["t9".parse().unwrap()]);
    assert_eq!(sessions.of(roster.get(2).unwrap()), None, "an excluded thread keeps the weight of its session");
}

// Verifies PLACE-8.
#[test]
fn what_a_session_has_while_it_is_leased_is_not_its_own() {
    let (roster, mut sessions) = (roster(), Sessions::default());
    let mut leased = Holdings::default();
    let lowered = SchedulingGroup::Autogroup(Autogroup { id: 5, nice: 10, is_own: false });
    let mut own = |group: &SchedulingGroup, leased: &Holdings| {
        sessions.take(&[facts(2, group.clone())], &roster, leased);
        sessions.of(roster.get(2).unwrap()).map(|(_, nice)| nice)
    };
    assert_eq!(own(&session(5), &leased), Some(0));
    let until = BootTime::from_milliseconds(90_000);
    leased.lease(BootTime::default(), (&Target::Autogroup(5), "10"), until, "why", &mut Vec::new());
    assert_eq!(own(&lowered, &leased), Some(0));
    assert_eq!(own(&lowered, &Holdings::default()), Some(10), "another program's");
}
