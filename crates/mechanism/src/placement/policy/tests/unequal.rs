//! One little and one big CPU, as the lab's `debian-arm64-6.1-biglittle` has them, in both orders.

use super::*;

const LITTLE_FIRST: [(u32, u32); 2] = [(0, 407), (1, 1024)];
const BIG_FIRST: [(u32, u32); 2] = [(0, 1024), (1, 407)];

// Verifies PLACE-4.
#[test]
fn bulk_threads_move_to_the_little_cpu_where_that_helps() {
    for (name, front, background, expected) in [
        ("one thread / hogs", &[HOG][..], &[HOG; 2][..], Some(StepKind::Isolate)),
        // It needs both CPUs, and shares only the little one.
        ("two threads / hogs", &[HOG; 2], &[HOG; 2], Some(StepKind::Weight)),
        // No thread waits: which of the two has the big CPU is the kernel's choice.
        ("one thread / one hog", &[HOG], &[HOG], None),
    ] {
        for (cores, little) in [(LITTLE_FIRST, 0), (BIG_FIRST, 1)] {
            let mut device = cell(&cores, config(), front, background);
            device.run(3000);
            let found = kind(&device).map(|kind| if kind == StepKind::Idle { StepKind::Weight } else { kind });
            assert_eq!(found, expected, "{name} {cores:?}: {}", device.policy.reason);
            let masks = |device: &Device, tids: std::ops::Range<u32>| -> BTreeSet<Vec<u32>> {
                device.threads.range(tids).map(|(_, sim)| sim.mask.clone()).collect()
            };
            let of_bulk = if expected.is_some() { vec![little] } else { vec![0, 1] };
            assert_eq!(masks(&device, 200..300), BTreeSet::from([of_bulk]), "{name} {cores:?}");
            assert_eq!(masks(&device, FRONT..200), BTreeSet::from([vec![0, 1]]), "{name}: it is confined");
            device.put_in_foreground(&[]);
            assert_eq!(masks(&device, 0..300), BTreeSet::from([vec![0, 1]]), "{name} {cores:?}: not restored");
        }
    }
}

// Verifies PLACE-4.
#[test]
fn the_foreground_gets_the_big_cpu_and_nothing_is_lost() {
    for (name, front, background, at_least) in [
        ("one thread / hogs", &[HOG][..], &[HOG; 2][..], 1.6),
        ("two threads / hogs", &[HOG; 2], &[HOG; 2], 1.4),
        ("one thread / one hog", &[HOG], &[HOG], 0.98),
    ] {
        for cores in [LITTLE_FIRST, BIG_FIRST] {
            let [stock, brisk] = [Enabled::Off, Enabled::On]
                .map(|enabled| done(&mut cell(&cores, PlacementConfig { enabled, ..config() }, front, background)).0);
            assert!(brisk >= stock * at_least, "{name} {cores:?}: {brisk:.0} in place of {stock:.0} ms of work");
        }
    }
}

/// The masks and the nice values of threads 200 to 207.
fn of_bulk(device: &Device) -> BTreeSet<(String, i32)> {
    device.threads.range(200..208).map(|(_, sim)| (format_list(&sim.mask), sim.priority.nice)).collect()
}

fn by_weight() -> PlacementConfig {
    PlacementConfig { rule: Rule::Weight, ..config() }
}

// Verifies PLACE-4.
#[test]
fn deprioritised_threads_are_confined_and_get_their_masks_back() {
    for (cores, mask) in [(unequal(8), "0-3"), (equal(8), "0-7")] {
        let mut device = cell(&cores, by_weight(), &[HOG; 4], &[HOG; 8]);
        device.run(2000);
        assert_eq!(of_bulk(&device), BTreeSet::from([(mask.to_owned(), 10)]), "{}", device.policy.reason);
        let is_confined = mask == "0-3";
        let snapshot = device.policy.snapshot();
        assert_eq!(snapshot.reason.contains("confined to the smallest cores (CPU 0-3)"), is_confined);
        let leased = snapshot.threads.iter().find(|view| view.tid == 200).unwrap().leased.clone();
        assert_eq!(leased.as_deref(), Some(if is_confined { "other 10, CPU 0-3" } else { "other 10" }));
        device.put_in_foreground(&[]);
        assert_eq!(of_bulk(&device), BTreeSet::from([("0-7".to_owned(), 0)]));
    }
}

// Verifies PLACE-4.
#[test]
fn the_smallest_cores_are_those_that_are_online() {
    let mut device = cell(&unequal(8), by_weight(), &[HOG; 4], &[HOG; 8]);
    device.run(1000);
    for (online, expected) in [(vec![4, 5, 6, 7], "4-5"), (vec![0, 1, 2, 3], "0-7"), ((0..8).collect(), "0-3")] {
        device.online = online;
        device.run(2000);
        assert_eq!(of_bulk(&device), BTreeSet::from([(expected.to_owned(), 10)]), "{}", device.policy.reason);
    }
}

// Verifies PLACE-4.
#[test]
fn threads_in_a_group_that_weighs_less_are_confined_too() {
    let groups = GroupChoice::Tree("/t".into());
    let mut device = cell(&unequal(8), PlacementConfig { groups, ..by_weight() }, &[HOG; 4], &[HOG; 8]);
    let group = |folder: &str, weight, pids: Vec<u32>| TreeGroup { folder: folder.into(), weight, pids };
    device.tree = vec![
        group("/t", None, vec![]),
        group("/t/front", Some(100), vec![FRONT]),
        group("/t/back", Some(100), (200..208).collect()),
    ];
    device.policy.task_groups.invalidate();
    device.run(2000);
    assert_eq!(device.weights, BTreeMap::from([("/t/back".into(), "11".into())]));
    assert_eq!(of_bulk(&device), BTreeSet::from([("0-3".to_owned(), 0)]));
    let view = device.policy.snapshot().threads.into_iter().find(|view| view.tid == 200).unwrap();
    assert_eq!(view.leased.as_deref(), Some("group weight 11, CPU 0-3"));
    device.put_in_foreground(&[]);
    assert!(device.treated().is_empty() && device.weights.is_empty());
}

/// As on a phone, whose background has a cpuset of little CPUs.
// Verifies PLACE-3, PLACE-4.
#[test]
fn bound_threads_share_the_little_cpu_by_weight() {
    for (front, is_lowered) in [(&[HOG; 2][..], true), (&[HOG], false), (&[FRAMES], false)] {
        let mut device = Device::new(&LITTLE_FIRST, config());
        for tid in [200, 201] {
            let bound = device.start(tid, tid, 1, HOG);
            (bound.mask, bound.facts.allowed) = (vec![0], vec![0]);
        }
        device.start(202, 202, 1, MUSIC);
        device.run(3000);
        for (tid, &habit) in (FRONT..).zip(front) {
            device.start(tid, FRONT, 1, habit);
        }
        device.put_in_foreground(&[FRONT]);
        device.run(600);
        assert_eq!(kind(&device).is_some(), is_lowered, "{front:?}: {}", device.policy.reason);
        for (_, sim) in device.threads.range(200..202) {
            assert_eq!((&sim.mask, sim.priority != sim.facts.priority), (&vec![0], is_lowered), "{front:?}");
        }
        assert_eq!(
            device.policy.reason.contains("the foreground needs only bigger ones"),
            !is_lowered,
            "{}",
            device.policy.reason
        );
    }
}

/// Samples cost CPU time, and show nothing new while the foreground waits for no bulk thread.
// Verifies PLACE-2.
#[test]
fn samples_are_rare_while_there_is_nothing_to_gain() {
    let mut device = cell(&equal(2), config(), &[FRAMES], &[MUSIC, HOG]);
    device.run(500);
    let period_ms = |device: &Device| device.policy.interest().sampling_period.unwrap().as_millis() as u64;
    let PlacementConfig { sampling_ms, idle_sampling_ms, .. } = config();
    assert!(period_ms(&device) <= sampling_ms, "a new foreground: {}", device.policy.reason);
    device.run(2500);
    assert_eq!(period_ms(&device), idle_sampling_ms, "{}", device.policy.reason);
    for tid in [300, 301] {
        device.start(tid, tid, 1, HOG);
    }
    device.run(4000);
    assert!(period_ms(&device) <= sampling_ms && kind(&device).is_some(), "{}", device.policy.reason);
}
