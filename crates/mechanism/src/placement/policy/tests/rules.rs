//! The rules that decide without a trial: the weight rule and the thesis's rule.

use super::*;

#[test]
fn the_weight_rule_always_lowers_weights() {
    let mut device = cell(&equal(2), PlacementConfig { rule: Rule::Weight, ..config() }, &[MUSIC], &[HOG]);
    device.run(500);
    assert_eq!(device.treated(), [200]);
    assert_eq!(device.threads[&200].priority.nice, 10);
}

// Verifies PLACE-7.
#[test]
fn the_thesis_gives_a_core_to_each_that_took_half_of_one() {
    let config = PlacementConfig { rule: Rule::Thesis, ..config() };
    let bursts = Habit { work_ms: 600, sleep_ms: 9400, period_ms: 0 };
    let mut device = cell(&equal(4), config, &[HOG, HOG], &[bursts, DOWNLOAD, MUSIC]);
    device.run(12_000);
    let masks = |tid: u32| format_list(&device.threads[&tid].mask);
    assert_eq!([masks(100), masks(101), masks(200)], ["3", "2", "1"], "the burst of 5 % has a core too");
    assert_eq!([masks(201), masks(202)], ["0", "0"]);
    assert_eq!((device.threads[&201].priority.nice, device.threads[&202].priority.nice), (-5, 0));
    device.put_in_foreground(&[]);
    assert_eq!(device.treated(), [0; 0]);
}

// Verifies PLACE-7.
#[test]
fn in_thesis_mode_a_light_thread_loses_its_inherited_mask() {
    let config = PlacementConfig { rule: Rule::Thesis, ..config() };
    let mut device = cell(&equal(2), config, &[HOG], &[HOG, HOG]);
    device.run(2000);
    let mask = device.threads[&200].mask.clone();
    assert_eq!(format_list(&mask), "0");
    let seldom = Habit { work_ms: 1, sleep_ms: 5000, period_ms: 0 };
    device.start(300, 300, 200, seldom).mask = mask;
    device.threads.get_mut(&300).unwrap().wakes_at = u64::MAX;
    device.run(500);
    device.put_in_foreground(&[]);
    assert_eq!(format_list(&device.threads[&300].mask), "0-1");
}

// Verifies PLACE-7.
#[test]
fn by_the_thesis_no_core_belongs_to_a_task_that_may_not_move() {
    let config = PlacementConfig { rule: Rule::Thesis, ..config() };
    let mut device = Device::new(&equal(2), config);
    device.start(200, 200, 1, HOG).mask = vec![0];
    let mut device = played(device, &[MUSIC], &[]);
    device.start(201, 201, 1, HOG);
    device.run(4000);
    let masks = |tid: u32| format_list(&device.threads[&tid].mask);
    assert_eq!([masks(200), masks(201)], ["0", "1"], "the bound thread stays bound, the other gets the other core");
}
