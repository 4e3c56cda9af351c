//! Bulk threads whose upper clamp fits the smallest core, where the kernel supports uclamp.

use super::*;

/// A foreground beside a background on a device with uclamp.
fn beside(cores: &[(u32, u32)], config: PlacementConfig, front: &[Habit], background: &[Habit]) -> Device {
    played(Device::new(cores, config).with_clamps(), front, background)
}

fn by_weight() -> PlacementConfig {
    PlacementConfig { rule: Rule::Weight, ..config() }
}

fn bulk() -> std::ops::Range<u32> {
    200..208
}

// Verifies PLACE-4.
#[test]
fn lower_weight_bulk_threads_claim_no_big_core() {
    for (cores, config, expected) in [
        (unequal(8), by_weight(), Some(400)),
        (unequal(8), PlacementConfig { groups: GroupChoice::Auto, ..by_weight() }, Some(400)),
        (equal(8), by_weight(), None),
    ] {
        let mut device = beside(&cores, config, &[HOG; 4], &[HOG; 8]);
        device.run(2000);
        let clamped: Vec<u32> = if expected.is_some() { bulk().collect() } else { Vec::new() };
        assert_eq!((device.clamped(), device.treated()), (clamped, bulk().collect()), "{}", device.policy.reason);
        assert!(bulk().all(|tid| device.threads[&tid].clamp == expected.unwrap_or(1024)));
        let snapshot = device.policy.snapshot();
        assert_eq!((snapshot.upper_clamp, snapshot.reason.contains("uclamp.max 400")), (expected, expected.is_some()));
        let leased = snapshot.threads.iter().find(|view| view.tid == 200).unwrap().leased.clone().unwrap();
        assert_eq!(leased.ends_with(", uclamp.max 400"), expected.is_some(), "{leased}");
        device.put_in_foreground(&[]);
        assert_eq!((device.clamped(), device.treated()), (vec![], vec![]));
    }
}

// Verifies PLACE-4.
#[test]
fn the_foreground_gets_more_of_the_big_cores() {
    let got = |device: &mut Device| done(device).0;
    let with = got(&mut beside(&unequal(8), by_weight(), &[HOG; 4], &[HOG; 8]));
    let without = got(&mut cell(&unequal(8), by_weight(), &[HOG; 4], &[HOG; 8]));
    assert!(with > without * 1.05, "{with} ms of a big core, {without} without clamps");
}

// Verifies PLACE-4.
#[test]
fn reserved_cpus_need_masks_and_no_clamps() {
    let mut device = beside(&unequal(8), config(), &[HOG; 2], &[HOG; 8]);
    device.run(1500);
    assert_eq!(kind(&device), Some(StepKind::Isolate), "{}", device.policy.reason);
    assert_eq!((device.clamped(), device.treated()), (vec![], bulk().collect()));
    let weight =
        Held::new(Step::Idle, BootTime::from_milliseconds(device.now_ms), None, PeriodicThreads::default(), None);
    device.policy.held = Some(weight);
    device.next_sample();
    assert_eq!(device.clamped(), bulk().collect::<Vec<_>>(), "{}", device.policy.reason);
    device.put_in_foreground(&[]);
    assert_eq!((device.clamped(), device.treated()), (vec![], vec![]));
}

// Verifies PLACE-4.
#[test]
fn a_thread_keeps_its_own_clamp_or_if_barred_from_small_cores() {
    let mut device = Device::new(&unequal(8), by_weight()).with_clamps();
    for tid in bulk() {
        device.start(tid, tid, 1, HOG);
    }
    let sim = |device: &mut Device, tid: u32, change: fn(&mut thread::SimulatedThread)| {
        change(device.threads.get_mut(&tid).unwrap());
    };
    sim(&mut device, 200, |sim| (sim.clamp, sim.facts.clamps.maximum) = (300, 300));
    sim(&mut device, 201, |sim| sim.facts.clamps.minimum = 401);
    sim(&mut device, 202, |sim| (sim.mask, sim.facts.allowed) = (vec![6, 7], vec![6, 7]));
    sim(&mut device, 203, |sim| (sim.clamp, sim.facts.clamps.maximum) = (900, 900));
    device.run(3000);
    device.start(FRONT, FRONT, 1, HOG);
    device.put_in_foreground(&[FRONT]);
    device.run(2000);
    assert_eq!(device.clamped(), [203, 204, 205, 206, 207]);
    device.put_in_foreground(&[]);
    assert_eq!([200, 203, 204].map(|tid| device.threads[&tid].clamp), [300, 900, 1024]);
}

// Verifies PLACE-5.
#[test]
fn a_child_of_a_clamped_thread_gets_what_its_parent_had() {
    let mut device = beside(&unequal(8), by_weight(), &[HOG; 4], &[HOG; 8]);
    device.run(2000);
    device.fork(300, 200, MUSIC);
    assert_eq!(device.threads[&300].clamp, 400);
    device.run(500);
    let child = &device.threads[&300];
    assert_eq!((child.clamp, child.priority.nice), (1024, 0), "{}", device.policy.reason);
    assert_eq!(device.clamped(), bulk().collect::<Vec<_>>());
    // A process that becomes the foreground is restored at once, and none of its threads is clamped.
    device.put_in_foreground(&[200]);
    assert_eq!(device.threads[&200].clamp, 1024);
    device.run(1000);
    assert!(!device.clamped().contains(&200), "{:?}", device.clamped());
}

// Verifies PLACE-4.
#[test]
fn the_clamp_follows_the_cores_that_are_online() {
    let mut device = beside(&unequal(8), by_weight(), &[HOG; 4], &[HOG; 8]);
    device.run(1000);
    for (online, expected) in [(vec![4, 5, 6, 7], 760), (vec![0, 1, 2, 3], 1024), ((0..8).collect(), 400)] {
        device.online = online;
        device.run(2000);
        let clamps: BTreeSet<u32> = bulk().map(|tid| device.threads[&tid].clamp).collect();
        assert_eq!(clamps, BTreeSet::from([expected]), "{}", device.policy.reason);
    }
}

// Verifies PLACE-4.
#[test]
fn beside_a_group_that_weighs_less_each_thread_claims_less() {
    let groups = GroupChoice::Tree("/t".into());
    let mut device = beside(&unequal(8), PlacementConfig { groups, ..by_weight() }, &[HOG; 4], &[HOG; 8]);
    let group = |folder: &str, weight, pids: Vec<u32>| TreeGroup { folder: folder.into(), weight, pids };
    device.tree = vec![
        group("/t", None, vec![]),
        group("/t/front", Some(100), vec![FRONT]),
        group("/t/back", Some(100), bulk().collect()),
    ];
    device.policy.task_groups.invalidate();
    device.run(2000);
    assert_eq!(device.weights, BTreeMap::from([("/t/back".into(), "11".into())]));
    assert_eq!((device.clamped(), device.treated()), (bulk().collect(), vec![]));
    let view = device.policy.snapshot().threads.into_iter().find(|view| view.tid == 200).unwrap();
    assert_eq!(view.leased.as_deref(), Some("group weight 11, uclamp.max 400"));
    device.put_in_foreground(&[]);
    assert!(device.clamped().is_empty() && device.weights.is_empty());
}

// Verifies PLACE-2.
#[test]
fn a_fork_parent_keeps_its_clamp_while_it_is_queried() {
    let mut device = Device::new(&unequal(8), by_weight()).with_clamps();
    device.start(200, 200, 1, Habit { work_ms: 1, sleep_ms: 500, period_ms: 0 });
    build(&mut device, 6000);
    device.start(FRONT, FRONT, 1, HOG);
    device.put_in_foreground(&[FRONT]);
    build(&mut device, 6000);
    let about = |decision: &Decision| match &decision.action {
        Action::Lease { target, value, .. } if target.thread() == Some(200) => Some(value.clone()),
        Action::Release { target } if target.thread() == Some(200) => Some(format!("{target} is restored")),
        _ => None,
    };
    let decided: Vec<_> = device.decisions.iter().filter_map(|(_, decision)| about(decision)).collect();
    assert_eq!(decided, ["other 10", "400"], "{}", device.policy.reason);
}
