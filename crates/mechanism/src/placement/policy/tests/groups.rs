//! Control groups: their members, and groups that are deprioritised as a whole.

use super::*;
use crate::Effect;
use crate::simulated::Kernel;

// Verifies PLACE-4.
#[test]
fn by_groups_the_foreground_gains_no_less() {
    for (name, front, background) in
        [("two threads / hogs", vec![HOG; 2], vec![HOG; 2]), ("one thread / hogs", vec![HOG], vec![HOG; 3])]
    {
        let cell = |config| cell(&equal(2), config, &front, &background);
        let by_masks = done(&mut cell(config())).0;
        let mut device = cell(with_groups());
        let by_groups = done(&mut device).0;
        assert!(
            by_groups >= by_masks * 0.98,
            "{name}: {by_groups} in place of {by_masks} ms: {}",
            device.policy.reason
        );
        let bulk = background.len() as u32;
        assert_eq!(device.treated(), (200..200 + bulk).collect::<Vec<_>>(), "{name}: {}", device.policy.reason);
        assert!(!device.members.is_empty() && !device.groups.is_empty());
        device.put_in_foreground(&[]);
        assert!(device.treated().is_empty() && device.members.is_empty() && device.groups.is_empty());
    }
}

// Verifies PLACE-4.
#[test]
fn a_thread_born_in_a_group_is_sent_back_to_its_parents() {
    let mut device = cell(&equal(2), with_groups(), &[HOG], &[HOG, HOG]);
    device.run(2000);
    let mask = device.threads[&200].mask.clone();
    device.start(300, 200, 1, MUSIC).mask = mask;
    let folder = device.members[&(Hierarchy::Cpuset, 200)].clone();
    device.members.insert((Hierarchy::Cpuset, 300), folder);
    device.run(500);
    assert_eq!(device.treated(), [200, 201]);
    assert!(!device.members.contains_key(&(Hierarchy::Cpuset, 300)), "{:?}", device.members);
}

// Verifies PLACE-4.
#[test]
fn a_bound_thread_stays_in_its_group() {
    let mut device = Device::new(&equal(2), with_groups());
    for tid in [200, 201] {
        device.start(tid, tid, 1, HOG);
    }
    let bound = device.threads.get_mut(&201).unwrap();
    bound.mask = vec![0];
    bound.facts.allowed = vec![0];
    device.run(4000);
    for tid in FRONT..FRONT + 2 {
        device.start(tid, FRONT, 1, HOG);
    }
    device.put_in_foreground(&[FRONT]);
    device.run(3000);
    assert!(
        device.treated().contains(&200) && !device.members.keys().any(|&(_, tid)| tid == 201),
        "{:?}",
        device.members
    );
    assert_eq!(device.threads[&201].mask, [0]);
}

// Verifies PLACE-4.
#[test]
fn where_no_group_can_be_made_masks_and_nice_values_do() {
    let mut device = cell(&equal(2), with_groups(), &[HOG; 2], &[HOG; 2]);
    device.kernel = Kernel::refusing(|_, action| match action {
        Action::Lease { target: Target::Group(_), .. } => Some(Effect::Refused("EROFS".to_owned())),
        _ => None,
    });
    device.run(1000);
    assert!(device.members.is_empty() && device.groups.is_empty());
    assert_eq!(device.treated(), [200, 201], "{}", device.policy.reason);
    device.run(5000);
    assert!(device.groups.is_empty(), "groups are not tried again: {:?}", device.groups);
    assert_eq!(device.treated(), [200, 201], "{}", device.policy.reason);
}

/// A foreground in its own group, beside background threads in another group, both in a delegated sub-tree.
fn beside(config: PlacementConfig, front: &[Habit], background: &[Habit]) -> Device {
    let groups = GroupChoice::Tree("/t".into());
    let mut device = cell(&equal(2), PlacementConfig { groups, ..config }, front, background);
    let group = |folder: &str, weight, pids: Vec<u32>| TreeGroup { folder: folder.into(), weight, pids };
    let bulk = (200..200 + background.len() as u32).collect();
    device.tree =
        vec![group("/t", None, vec![]), group("/t/front", Some(100), vec![FRONT]), group("/t/back", Some(100), bulk)];
    device.policy.task_groups.invalidate();
    device
}

// Verifies PLACE-4.
#[test]
fn a_group_of_bulk_work_weighs_less_than_the_foregrounds() {
    let weight = PlacementConfig { rule: Rule::Weight, ..config() };
    let weighed = |device: &Device, value: &str| device.weights == BTreeMap::from([("/t/back".into(), value.into())]);
    let mut device = beside(weight.clone(), &[HOG, HOG], &[HOG, HOG]);
    device.run(500);
    assert!(weighed(&device, "11") && device.treated().is_empty(), "{:?} {:?}", device.weights, device.treated());
    // Its current weight is the leased one, not its own.
    device.tree[2].weight = Some(11);
    device.run(20_000);
    assert!(weighed(&device, "11"), "{:?}", device.weights);
    let views = device.policy.snapshot().threads;
    assert!(views.iter().any(|view| view.leased.as_deref() == Some("group weight 11")), "{views:?}");
    // A thread that is not bulk enters the group: once it is classified, the group is left alone.
    device.start(300, 300, 1, MUSIC);
    device.tree[2].pids.push(300);
    device.tree[2].weight = Some(100);
    device.run(8000);
    assert!(device.weights.is_empty(), "{:?}", device.weights);
    assert_eq!(device.treated(), [200, 201], "by nice values, as without groups");
    device.end(300);
    device.run(8000);
    assert!(weighed(&device, "11"), "{:?}", device.weights);
    device.put_in_foreground(&[]);
    device.kernel = Kernel::refusing(|_, action| match action {
        Action::Lease { target: Target::GroupWeight(_), .. } => Some(Effect::Refused("EROFS".to_owned())),
        _ => None,
    });
    device.put_in_foreground(&[FRONT]);
    device.run(3000);
    assert!(device.weights.is_empty(), "{:?}", device.weights);
    assert_eq!(device.treated(), [200, 201]);
    device.put_in_foreground(&[]);
    assert!(device.weights.is_empty() && device.treated().is_empty());
    let mut device = beside(weight, &[HOG, HOG], &[HOG, HOG]);
    device.tree[1].pids.clear();
    device.run(500);
    assert!(device.weights.is_empty(), "the foreground is outside the sub-tree");
    assert_eq!(device.treated(), [200, 201]);
}

// Verifies PLACE-8.
#[test]
fn groups_are_read_only_next_to_bulk_threads() {
    for (background, is_lowered) in [([HOG, HOG], true), ([MUSIC, MUSIC], false)] {
        let weight = PlacementConfig { rule: Rule::Weight, ..config() };
        let mut device = beside(weight, &[HOG, HOG], &background);
        device.run(2500);
        let is_known = device.policy.task_groups.of(device.policy.roster.get(200).unwrap()).is_some();
        assert_eq!((is_known, !device.weights.is_empty()), (is_lowered, is_lowered), "{:?}", device.policy.reason);
        device.put_in_foreground(&[]);
        assert!(device.weights.is_empty());
    }
}

// Verifies PLACE-8.
#[test]
fn a_foreground_moved_into_a_unit_is_found_there() {
    let mut device = Device::new(&equal(1), PlacementConfig { opening_ms: 2000, ..config() });
    let group = |folder: &str, weight, pids: &[u32]| TreeGroup { folder: folder.into(), weight, pids: pids.into() };
    let tree = |root: &[u32], unit: &[u32]| {
        let (top, slice) = (group("/t", None, root), group("/t/a.slice", Some(100), &[]));
        vec![
            top,
            slice,
            group("/t/a.slice/a.scope", Some(100), unit),
            group("/t/a.slice/b.scope", Some(100), &[200, 201]),
        ]
    };
    device.tree = tree(&[FRONT], &[]);
    for tid in [200, 201] {
        device.start(tid, tid, 1, HOG);
    }
    device.run(4000);
    device.start(FRONT, FRONT, 1, HOG);
    device.put_in_foreground(&[FRONT]);
    device.next_sample();
    let weighed =
        |device: &Device| device.weights.keys().map(|folder| folder.display().to_string()).collect::<Vec<_>>();
    assert_eq!(weighed(&device), ["/t/a.slice"], "{}", device.policy.reason);
    device.tree = tree(&[], &[FRONT]);
    device.run(60);
    assert_eq!(weighed(&device), ["/t/a.slice/b.scope"], "{}", device.policy.reason);
}

// Verifies PLACE-4.
#[test]
fn a_group_of_bulk_work_becomes_idle() {
    let mut device = beside(config(), &[HOG, HOG], &[HOG, HOG]);
    device.run(150);
    let held =
        Held::new(Step::Idle, BootTime::from_milliseconds(device.now_ms), None, PeriodicThreads::default(), None);
    device.policy.held = Some(held);
    device.next_sample();
    assert_eq!(device.weights, BTreeMap::from([("/t/back".into(), "idle".into())]), "{}", device.policy.reason);
    device.put_in_foreground(&[]);
    assert!(device.weights.is_empty());
}
