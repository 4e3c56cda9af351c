//! Sessions that compete as one: those of bulk work weigh less as a whole, and nice values do the rest within one.

use super::*;
use crate::Effect;
use crate::simulated::Kernel;
use brisk_sys::sched::autogroup::Autogroup;
use brisk_sys::sched::scheduling_group::SchedulingGroup;

fn weight() -> PlacementConfig {
    PlacementConfig { rule: Rule::Weight, ..config() }
}

fn session(id: u64) -> SchedulingGroup {
    SchedulingGroup::Autogroup(Autogroup { id, nice: 0, is_own: false })
}

/// A foreground beside the background on two CPUs, each thread in the session that `of` names.
fn apart(config: PlacementConfig, front: &[Habit], background: &[Habit], of: impl Fn(u32) -> u64) -> Device {
    let mut device = Device::new(&equal(2), config);
    for (tid, &habit) in (200..).zip(background) {
        device.start(tid, tid, 1, habit).facts.scheduling_group = session(of(tid));
    }
    device.run(3000);
    for (tid, &habit) in (FRONT..).zip(front) {
        device.start(tid, FRONT, 1, habit).facts.scheduling_group = session(of(tid));
    }
    device.put_in_foreground(&[FRONT]);
    device
}

fn explained(device: &Device, tid: u32) -> String {
    let views = device.policy.snapshot().threads;
    let view = views.iter().find(|view| view.tid == tid).unwrap();
    format!("{} ({})", view.reason, view.leased.as_deref().unwrap_or("nothing"))
}

// Verifies PLACE-8.
#[test]
fn another_session_of_bulk_work_weighs_less_as_a_whole() {
    let mut device = apart(weight(), &[HOG, HOG], &[HOG, HOG], |tid| u64::from(tid / 100));
    device.run(1000);
    assert_eq!(device.sessions, BTreeMap::from([(2, 10)]), "{}", device.policy.reason);
    let changed = device.threads.values().filter(|sim| sim.priority != sim.facts.priority).count();
    assert_eq!(changed, 0, "no thread has another nice value");
    let told = explained(&device, 200);
    assert!(told.contains("the nice value of autogroup 2") && told.contains("as nice 10 does"), "{told}");
    // What it has while it is leased is not its own.
    device.run(20_000);
    assert_eq!(device.sessions, BTreeMap::from([(2, 10)]));
    // Short-lived processes come and go in it: it stays as it is.
    let decided = device.decisions.len();
    for tid in 300..320 {
        device.start(tid, tid, 200, HOG).facts.scheduling_group = session(2);
        device.run(60);
        device.end(tid);
    }
    assert_eq!(device.decisions[decided..].iter().map(|(_, it)| format!("{it:?}")).collect::<Vec<_>>(), [""; 0]);
    assert_eq!(device.sessions.len(), 1);
    device.put_in_foreground(&[]);
    assert!(device.sessions.is_empty());
}

// Verifies PLACE-8.
#[test]
fn several_sessions_weigh_together_what_one_would() {
    let mut device = apart(weight(), &[HOG, HOG], &[HOG, HOG], u64::from);
    device.run(1000);
    assert_eq!(device.sessions, BTreeMap::from([(200, 13), (201, 13)]), "{}", device.policy.reason);
    device.end(201);
    device.run(1000);
    assert_eq!(device.sessions.get(&200), Some(&10));
}

#[test]
fn in_the_foregrounds_session_nice_values_count() {
    let mut device = apart(weight(), &[HOG, HOG], &[HOG, HOG], |tid| if tid == 201 { 2 } else { 1 });
    device.run(1000);
    assert_eq!(device.sessions, BTreeMap::from([(2, 10)]), "{}", device.policy.reason);
    let nice = |tid| device.threads[&tid].priority.nice;
    assert_eq!((nice(200), nice(201)), (10, 0));
}

// Verifies PLACE-8.
#[test]
fn a_session_is_spared_for_music_in_it() {
    // The music is thread 201.
    for (case, home, expected) in [("its own", 3, 1), ("that of the hog", 2, 0)] {
        let of = |tid| if tid == 201 { home } else { u64::from(tid / 100) };
        let mut device = apart(weight(), &[HOG, HOG], &[HOG, MUSIC], of);
        device.run(2000);
        assert_eq!(device.sessions.len(), expected, "{case}: {}", device.policy.reason);
        assert!(!device.sessions.contains_key(&home), "{case}");
    }
    // It comes later, and is there before the session has been low for long.
    let mut device = apart(weight(), &[HOG, HOG], &[HOG, HOG], |tid| u64::from(tid / 100));
    device.run(1000);
    assert_eq!(device.sessions.len(), 1);
    device.start(300, 300, 1, MUSIC).facts.scheduling_group = session(2);
    device.run(1000);
    assert!(device.sessions.is_empty(), "{}", device.policy.reason);
    let told = explained(&device, 200);
    assert!(told.contains("t300 is in it, and is not bulk"), "{told}");
}

#[test]
fn the_session_of_brisk_and_those_switched_off_are_left_alone() {
    for sessions in [true, false] {
        let config = PlacementConfig { sessions, ..weight() };
        let mut device = apart(config, &[HOG, HOG], &[], |tid| u64::from(tid / 100));
        let group = Autogroup { id: 2, nice: 0, is_own: sessions };
        device.start(200, 200, 1, HOG).facts.scheduling_group = SchedulingGroup::Autogroup(group);
        device.run(4000);
        assert!(device.sessions.is_empty() && device.treated() == [200], "{sessions}: {:?}", device.treated());
    }
}

// Verifies PLACE-8.
#[test]
fn where_a_session_cannot_be_changed_nice_values_do() {
    let mut device = Device::new(&equal(2), weight());
    device.kernel = Kernel::refusing(|_, action| match action {
        Action::Lease { target: Target::Autogroup(_), .. } => Some(Effect::Refused("EACCES".to_owned())),
        _ => None,
    });
    let mut device = played(device, &[HOG, HOG], &[HOG]);
    for sim in device.threads.values_mut() {
        sim.facts.scheduling_group = session(u64::from(sim.thread.tid / 100));
    }
    device.run(8000);
    assert!(device.sessions.is_empty());
    assert_eq!(device.treated(), [200], "{}", device.policy.reason);
}

// Verifies PLACE-8.
#[test]
fn a_foreground_in_several_sessions_keeps_all_of_them() {
    let mut device = apart(weight(), &[HOG, HOG], &[HOG, HOG], |tid| if tid == 200 { 2 } else { 1 });
    // A descendant that has begun a session of its own, in which something else is busy as well.
    device.start(300, 300, FRONT, HOG).facts.scheduling_group = session(2);
    device.run(2000);
    assert!(device.sessions.is_empty(), "{:?}", device.sessions);
    assert!(explained(&device, 200).contains("(other 10)"), "{}", explained(&device, 200));
}
