//! Sessions that compete as one: bulk sessions are deprioritised as a whole; nice values apply within the foreground's session.

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

/// A foreground beside a background on two CPUs, each thread in the session that `of` returns.
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
    assert_eq!(changed, 0, "no thread's nice value was changed");
    let told = explained(&device, 200);
    assert!(told.contains("the nice value of autogroup 2") && told.contains("session nice 10"), "{told}");
    // The leased nice value is not taken for the session's own.
    device.run(20_000);
    assert_eq!(device.sessions, BTreeMap::from([(2, 10)]));
    // Short-lived processes start and exit in the session: nothing changes.
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

// Verifies PLACE-2, PLACE-8.
#[test]
fn a_session_weighs_less_from_the_opening_on() {
    let mut device = Device::new(&equal(1), config());
    for (tid, habit) in [(200, HOG), (201, MUSIC), (FRONT, MESSAGE)] {
        device.start(tid, tid, 1, habit).facts.scheduling_group = session(u64::from(tid));
    }
    device.run(3000);
    device.start(FRONT + 1, FRONT, 1, HOG).facts.scheduling_group = session(u64::from(FRONT));
    device.put_in_foreground(&[FRONT]);
    device.run(450);
    assert_eq!(device.sessions, BTreeMap::from([(200, 10)]), "{}", device.policy.reason);
    // It stays lowered after the opening, until the first measurement without it.
    device.run(4000);
    assert_eq!(device.sessions, BTreeMap::from([(200, 10)]), "{}", device.policy.reason);
    let is_restored = |decision: &Decision| matches!(decision.action, Action::Release { target: Target::Autogroup(_) });
    assert!(!device.decisions.iter().any(|(_, decision)| is_restored(decision)));
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
fn nice_values_are_used_in_the_foregrounds_session() {
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
    // The music starts after the session was lowered.
    let mut device = apart(weight(), &[HOG, HOG], &[HOG, HOG], |tid| u64::from(tid / 100));
    device.run(1000);
    assert_eq!(device.sessions.len(), 1);
    device.start(300, 300, 1, MUSIC).facts.scheduling_group = session(2);
    device.run(1000);
    assert!(device.sessions.is_empty(), "{}", device.policy.reason);
    let told = explained(&device, 200);
    assert!(told.contains("it contains t300, which is not bulk"), "{told}");
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
    // A descendant of the foreground in another session, in which a background thread is busy.
    device.start(300, 300, FRONT, HOG).facts.scheduling_group = session(2);
    device.run(2000);
    assert!(device.sessions.is_empty(), "{:?}", device.sessions);
    assert!(explained(&device, 200).contains("(other 10)"), "{}", explained(&device, 200));
}

/// Foreground and background in separate sessions, with brisk's own rule.
fn standing(front: &[Habit], background: &[Habit]) -> Device {
    apart(config(), front, background, |tid| u64::from(tid / 100))
}

/// A light foreground has a low demand, but still waits when it wakes.
// Verifies PLACE-8.
#[test]
fn a_session_weighs_less_without_a_trial() {
    for (case, front) in [("light", MUSIC), ("frames", FRAMES), ("busy", HOG), ("rests", PAUSES)] {
        let mut device = standing(&[front], &[HOG, HOG]);
        device.run(400);
        assert_eq!(device.sessions.get(&2), Some(&10), "{case}: {}", device.policy.reason);
        let decided = device.decisions.len();
        let low_ms = (0..20_000).filter(|_| {
            device.run(1);
            device.sessions.contains_key(&2)
        });
        // A light or idle foreground runs the same with and without it; it is suspended once to measure that.
        let low_ms = low_ms.count();
        assert!(low_ms >= 19_200, "{case}: {low_ms} ms, {:#?}", &device.decisions[decided..]);
        device.put_in_foreground(&[]);
        assert!(device.sessions.is_empty() && device.policy.leased.is_empty(), "{case}");
    }
}

const PAUSES: Habit = Habit { work_ms: 3, sleep_ms: 3000, period_ms: 0 };

// Verifies PLACE-8.
#[test]
fn the_ladder_continues_from_deprioritised_sessions() {
    let mut device = standing(&[FRAMES], &[HOG, HOG, HOG]);
    device.run(3000);
    assert!(device.sessions.contains_key(&2), "{}", device.policy.reason);
    // Hogs in the foreground's own session, which a session's weight cannot restrict.
    device.start(210, 210, 1, HOG).facts.scheduling_group = session(1);
    device.start(211, 211, 1, HOG).facts.scheduling_group = session(1);
    device.run(5000);
    assert!(device.treated().contains(&210), "{}", device.policy.reason);
    assert!(device.sessions.contains_key(&2), "{}", device.policy.reason);
    device.end(210);
    device.end(211);
    device.run(61_000);
    assert!(device.sessions.contains_key(&2), "{}", device.policy.reason);
}

/// The foreground sleeps while another session works for it.
// Verifies PLACE-8.
#[test]
fn a_session_that_the_foreground_needs_keeps_its_weight() {
    let mut device = standing(&[HOG], &[HOG, HOG]);
    let mut low_ms = 0;
    for _ in 0..60_000 / 50 {
        device.run(50);
        if !device.sessions.is_empty() {
            low_ms += 50;
            let now_ms = device.now_ms;
            device.threads.get_mut(&FRONT).unwrap().sleep_until(now_ms + 40);
        }
    }
    assert!(low_ms > 500 && low_ms < 12_000, "{low_ms} of 60 s: {}", device.policy.reason);
}

/// A foreground that runs less after its start does not run less because of the lowered session.
// Verifies PLACE-8.
#[test]
fn a_foreground_that_comes_to_rest_is_no_reason_to_doubt() {
    let mut device = standing(&[HOG], &[HOG, HOG]);
    device.run(350);
    device.threads.get_mut(&FRONT).unwrap().habit = MUSIC;
    let without = (0..20_000).filter(|_| {
        device.run(1);
        device.sessions.is_empty()
    });
    let without_ms = without.count();
    assert!(without_ms <= 800, "suspended once: {without_ms} ms, {}", device.policy.reason);
}

/// Jobs of half a second each: neither bulk threads nor newcomers.
// Verifies PLACE-8.
#[test]
fn a_builds_session_stays_low_while_jobs_come_and_go() {
    let mut device = standing(&[FRAMES], &[HOG, PAUSES]);
    device.run(1000);
    device.threads.get_mut(&200).unwrap().sleep_until(u64::MAX);
    let mut low_ms = 0;
    for tid in 300..330 {
        let job = device.start(tid, tid, 201, Habit { work_ms: 30, sleep_ms: 20, period_ms: 0 });
        job.facts.scheduling_group = session(2);
        for _ in 0..500 {
            device.run(1);
            low_ms += u32::from(device.sessions.contains_key(&2));
        }
        device.end(tid);
    }
    assert!(low_ms >= 13_500, "{low_ms} of 15 000 ms: {}", device.policy.reason);
}
