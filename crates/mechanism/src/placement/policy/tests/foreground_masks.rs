//! Where the foreground runs when a step starts, and how it gets more cores.

use super::*;
use crate::placement::gain::Totals;

// Verifies PLACE-2.
#[test]
fn foreground_threads_move_to_idle_cores_and_may_leave() {
    let mut device = cell(&equal(4), config(), &[HOG, HOG], &[HOG; 8]);
    let bound = device.threads.get_mut(&101).unwrap();
    bound.mask = vec![0, 1, 2];
    bound.facts.allowed = vec![0, 1, 2];
    device.run(400);
    let of_front = device.decisions.iter().filter_map(|(_, decision)| match &decision.action {
        Action::Lease { target: Target::CpuAffinity { tid: FRONT, .. }, value, .. } => Some(value.clone()),
        Action::Release { target: Target::CpuAffinity { tid: FRONT, .. } } => Some("free".to_owned()),
        Action::Lease { target, .. } if target.thread() == Some(101) => {
            panic!("another program has bound it: {target}")
        }
        _ => None,
    });
    assert_eq!(of_front.collect::<Vec<_>>(), ["2-3", "free"], "{}", device.policy.reason);
    assert_eq!(device.threads[&FRONT].mask, [0, 1, 2, 3]);
}

// Verifies PLACE-2.
#[test]
fn foreground_threads_spread_once_if_bulk_has_less_weight() {
    let mut device = cell(&equal(2), config(), &[HOG, HOG], &[HOG]);
    device.run(400);
    let put = |tid: u32| {
        let of_thread = device.decisions.iter().filter_map(move |(_, decision)| match &decision.action {
            Action::Lease { target: Target::CpuAffinity { tid: of, .. }, value, .. } if *of == tid => {
                Some(value.clone())
            }
            Action::Release { target: Target::CpuAffinity { tid: of, .. } } if *of == tid => Some("free".to_owned()),
            _ => None,
        });
        of_thread.collect::<Vec<_>>()
    };
    let mut places = [put(FRONT), put(101)];
    places.sort();
    assert_eq!(places, [["0", "free"], ["1", "free"]], "{}", device.policy.reason);
    assert!(device.threads.values().all(|thread| thread.mask == [0, 1]));
    // A helper that sleeps most of the time also delays the thread that it helps.
    let helper = Habit { work_ms: 2, sleep_ms: 0, period_ms: 10 };
    for (front, parted) in [(&[HOG, helper][..], 2), (&[HOG], 0)] {
        let mut device = cell(&equal(2), PlacementConfig { rule: Rule::Weight, ..config() }, front, &[HOG]);
        device.run(1000);
        let leases = device.policy.spread_foreground(BootTime::from_milliseconds(1000));
        let cpu = |decision: &Decision| match &decision.action {
            Action::Lease { target: Target::CpuAffinity { .. }, value, .. } => value.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(leases.iter().map(cpu).collect::<BTreeSet<_>>().len(), parted, "{leases:?}");
        let mut released = Vec::new();
        device.policy.release_all("the device changed", &mut released);
        let masks =
            released.iter().filter(|one| matches!(one.action, Action::Release { target: Target::CpuAffinity { .. } }));
        assert_eq!(masks.count(), parted, "{released:?}");
    }
}

// Verifies PLACE-2.
#[test]
fn a_foreground_that_outgrows_its_cores_ends_the_trial_early() {
    let mut device = cell(&equal(2), config(), &[HOG], &[HOG, HOG]);
    device.run(150);
    let kind = |device: &Device| device.policy.held.as_ref().map(|held| held.step.kind());
    assert_eq!(kind(&device), Some(StepKind::Isolate), "{}", device.policy.reason);
    device.start(101, FRONT, 1, HOG);
    device.run(300);
    assert_eq!(kind(&device), Some(StepKind::Weight), "{}", device.policy.reason);
    device.run(1000);
    assert_eq!(kind(&device), Some(StepKind::Weight), "{}", device.policy.reason);
}

// Verifies PLACE-2.
#[test]
fn contention_on_the_reserved_cores_reserves_more() {
    let totals = |run_ms: u64, wait_ms: u64, bulk_ms: u64| {
        let ns = |ms: u64| ms * 1_000_000;
        Totals { wall_ns: ns(100), run_ns: ns(run_ms), wait_ns: ns(wait_ms), bulk_run_ns: ns(bulk_ms) }
    };
    for (case, after, expected) in [
        ("a helper waits for the thread that it helps", totals(100, 18, 90), StepKind::Weight),
        ("no thread waits", totals(120, 1, 70), StepKind::Isolate),
        ("the only thread waits", totals(80, 20, 90), StepKind::Isolate),
    ] {
        let mut device = cell(&equal(2), config(), &[HOG], &[HOG, HOG]);
        device.run(2000);
        let held = device.policy.held.as_ref().map(|held| held.step.kind());
        assert_eq!(held, Some(StepKind::Isolate), "{case}: {}", device.policy.reason);
        device.policy.confirm(BootTime::from_milliseconds(2000), after, &mut Vec::new());
        let held = device.policy.held.as_ref().unwrap();
        assert_eq!(held.step.kind(), expected, "{case}");
        assert_eq!(
            held.before.as_ref().map(Step::kind),
            (expected == StepKind::Weight).then_some(StepKind::Isolate),
            "{case}"
        );
    }
}

#[test]
fn a_process_that_comes_to_the_foreground_is_restored_at_once() {
    let mut device = cell(&equal(2), config(), &[HOG], &[HOG, HOG]);
    device.run(2000);
    assert_eq!(device.treated(), [200, 201]);
    device.put_in_foreground(&[200]);
    assert_eq!(device.treated(), [0; 0]);
    device.run(5000);
    assert!(!device.treated().contains(&200), "{:?}", device.treated());
}
