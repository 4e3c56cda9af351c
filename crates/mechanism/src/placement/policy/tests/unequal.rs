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
        ("two threads / hogs", &[HOG; 2], &[HOG; 2], Some(StepKind::Isolate)),
        // No thread waits: which of the two has the big CPU is the kernel's choice.
        ("one thread / one hog", &[HOG], &[HOG], None),
    ] {
        for (cores, little) in [(LITTLE_FIRST, 0), (BIG_FIRST, 1)] {
            let mut device = cell(&cores, config(), front, background);
            device.run(3000);
            let found = kind(&device).map(|kind| if kind == StepKind::Idle { StepKind::Weight } else { kind });
            assert_eq!(found, expected, "{name} {cores:?}: {}", device.policy.reason);
            // What can only gain is not tried.
            let is_untried = device.policy.reason.contains("as the foreground needs all CPUs");
            assert_eq!(is_untried, name == "two threads / hogs", "{name} {cores:?}: {}", device.policy.reason);
            let is_isolated = expected == Some(StepKind::Isolate);
            let masks = |device: &Device, tids: std::ops::Range<u32>| -> BTreeSet<Vec<u32>> {
                device.threads.range(tids).map(|(_, sim)| sim.mask.clone()).collect()
            };
            let of_bulk = if is_isolated { vec![little] } else { vec![0, 1] };
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
