//! Light threads where cores are reserved.

use super::*;
use crate::placement::trial::MissedPeriod;

fn masks(device: &Device, tids: impl IntoIterator<Item = u32>) -> Vec<Vec<u32>> {
    tids.into_iter().map(|tid| device.threads[&tid].mask.clone()).collect()
}

// Verifies PLACE-3.
#[test]
fn they_leave_the_free_cores_by_their_masks_alone() {
    let mut device = cell(&equal(2), with_groups(), &[FRAMES], &[MUSIC, HOG, HOG]);
    device.run(10_000);
    assert_eq!(kind(&device), Some(StepKind::Isolate), "{}", device.policy.reason);
    let music = device.threads[&200].clone();
    assert_eq!((music.mask, music.priority.nice, music.group_weight), (vec![0], 0, None));
    assert!(!device.members.keys().any(|&(_, tid)| tid == 200), "{:?}", device.members);
    device.put_in_foreground(&[]);
    assert_eq!(masks(&device, [200]), [[0, 1]]);
}

// Verifies PLACE-3.
#[test]
fn bound_excluded_and_prioritised_threads_stay() {
    let mut device =
        Device::new(&equal(4), PlacementConfig { excluded_commands: vec!["t203".parse().unwrap()], ..config() });
    device.start(200, 200, 1, MUSIC);
    let urgent = device.start(201, 201, 1, MUSIC);
    urgent.priority.nice = -5;
    urgent.facts.priority = urgent.priority;
    let bound = device.start(202, 202, 1, MUSIC);
    bound.mask = vec![2, 3];
    bound.facts.allowed = vec![2, 3];
    device.start(203, 203, 1, MUSIC);
    for tid in 204..209 {
        device.start(tid, tid, 1, HOG);
    }
    device.run(4000);
    device.start(FRONT, FRONT, 1, FRAMES);
    device.put_in_foreground(&[FRONT]);
    device.run(10_000);
    let all = vec![0, 1, 2, 3];
    assert_eq!(masks(&device, 200..204), [vec![0, 1, 2], all.clone(), vec![2, 3], all], "{}", device.policy.reason);
}

// Verifies PLACE-3.
#[test]
fn a_thread_that_misses_its_period_returns_and_the_step_stays() {
    let mut device = cell(&equal(2), config(), &[FRAMES], &[MUSIC, MUSIC, DOWNLOAD, HOG, HOG]);
    device.run(5000);
    assert_eq!(masks(&device, 200..205), vec![vec![0]; 5], "{}", device.policy.reason);
    let missed = [MissedPeriod { tid: 200, text: String::new() }];
    assert!(device.policy.unconfine_light(&missed));
    device.next_sample();
    assert_eq!(masks(&device, 200..203), [vec![0, 1], vec![0], vec![0]]);
    assert_eq!(kind(&device), Some(StepKind::Isolate));
    assert!(!device.policy.unconfine_light(&missed), "it has already returned, so the step is to be reverted");
    device.end(200);
    device.next_sample();
    assert!(device.policy.unconfined_light.is_empty(), "its thread id may be reused");
}

// Verifies PLACE-3.
#[test]
fn late_music_returns_and_leaves_again_for_another_foreground() {
    let mut device = cell(&equal(2), config(), &[FRAMES], &[MUSIC, DOWNLOAD, HOG, HOG]);
    device.run(20_000);
    assert_eq!((kind(&device), masks(&device, [200, 203])), (Some(StepKind::Isolate), vec![vec![0, 1], vec![0]]));
    assert_eq!(device.policy.unconfined_light, BTreeSet::from([200]));
    device.start(300, 300, 1, FRAMES);
    device.put_in_foreground(&[300]);
    assert!(device.policy.unconfined_light.is_empty());
}

// Verifies PLACE-3.
#[test]
fn they_stay_where_the_foreground_fills_all_that_is_free_for_it() {
    let mut device = cell(&equal(2), config(), &[FRAMES, Habit { work_ms: 3, ..FRAMES }], &[MUSIC, HOG, HOG]);
    device.run(10_000);
    assert_eq!(masks(&device, [200]), [[0, 1]], "{}", device.policy.reason);
}
