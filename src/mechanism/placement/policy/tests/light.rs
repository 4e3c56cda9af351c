//! Light tasks where cores are kept free.

use super::*;

fn masks(device: &Device, tids: impl IntoIterator<Item = u32>) -> Vec<Vec<u32>> {
    tids.into_iter().map(|tid| device.threads[&tid].mask.clone()).collect()
}

#[test]
fn they_leave_the_free_cores_by_their_masks_alone() {
    let mut device = cell(&equal(2), with_groups(), &[FRAMES], &[MUSIC, HOG, HOG]);
    device.run(10_000);
    assert_eq!(rung(&device), Some(Rung::Isolate), "{}", device.policy.reason);
    let music = device.threads[&200].clone();
    assert_eq!((music.mask, music.priority.nice, music.group_weight), (vec![0], 0, None));
    assert!(!device.members.keys().any(|&(_, tid)| tid == 200), "{:?}", device.members);
    device.put_in_front(&[]);
    assert_eq!(masks(&device, [200]), [[0, 1]]);
}

#[test]
fn nobody_leaves_who_is_bound_or_excluded_or_was_given_priority() {
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
    device.put_in_front(&[FRONT]);
    device.run(10_000);
    let all = vec![0, 1, 2, 3];
    assert_eq!(masks(&device, 200..204), [vec![0, 1, 2], all.clone(), vec![2, 3], all], "{}", device.policy.reason);
}

#[test]
fn when_one_misses_its_rhythm_all_of_them_go_where_they_like_and_the_step_stays() {
    let mut device = cell(&equal(2), config(), &[FRAMES], &[MUSIC, DOWNLOAD, HOG, HOG]);
    let mut had_left = false;
    for _ in 0..200 {
        device.run(100);
        had_left |= masks(&device, [200]).contains(&vec![0]);
    }
    assert!(had_left && device.policy.light_stays, "{}", device.policy.reason);
    assert_eq!((rung(&device), masks(&device, [200])), (Some(Rung::Isolate), vec![vec![0, 1]]));
    assert_eq!(masks(&device, [203]), [[0]]);
    // Another foreground may be luckier.
    device.start(300, 300, 1, FRAMES);
    device.put_in_front(&[300]);
    assert!(!device.policy.light_stays);
}

#[test]
fn they_stay_where_the_foreground_fills_all_that_is_free_for_it() {
    let mut device = cell(&equal(2), config(), &[FRAMES, Habit { work_ms: 3, ..FRAMES }], &[MUSIC, HOG, HOG]);
    device.run(10_000);
    assert_eq!(masks(&device, [200]), [[0, 1]], "{}", device.policy.reason);
}
