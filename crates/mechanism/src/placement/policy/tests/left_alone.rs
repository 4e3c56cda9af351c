//! Threads and foregrounds that are left alone.

use super::*;

/// The foreground sleeps while a bulk thread works for it.
// Verifies PLACE-2.
#[test]
fn a_foreground_that_needs_bulk_work_is_left_alone() {
    let mut device = cell(&equal(2), config(), &[HOG], &[HOG, HOG]);
    let mut treated_ms = 0;
    for _ in 0..60_000 / 50 {
        device.run(50);
        if !device.treated().is_empty() {
            treated_ms += 50;
            let now_ms = device.now_ms;
            device.threads.get_mut(&FRONT).unwrap().sleep_until(now_ms + 40);
        }
    }
    assert!(treated_ms < 12_000, "{treated_ms} of 60 s: {}", device.policy.reason);
}

// Verifies PLACE-3.
#[test]
fn bound_and_special_threads_are_left_alone() {
    let mut device = Device::new(&equal(2), config());
    device.start(200, 200, 1, HOG);
    let special = device.start(201, 201, 1, HOG);
    special.priority.policy = SchedulingPolicy::Special;
    special.facts.priority = special.priority;
    let bound = device.start(202, 202, 1, HOG);
    bound.mask = vec![0];
    bound.facts.allowed = vec![0];
    device.run(4000);
    device.start(FRONT, FRONT, 1, HOG);
    device.put_in_foreground(&[FRONT]);
    device.run(10_000);
    let confined = device.decisions.iter().filter_map(|(_, decision)| match &decision.action {
        Action::Lease { target: Target::CpuAffinity { tid, .. }, .. } if *tid != FRONT => Some(*tid),
        _ => None,
    });
    assert_eq!(confined.collect::<BTreeSet<_>>(), BTreeSet::from([200]), "{}", device.policy.reason);
    assert!(!touched(&device).contains(&201), "a bound thread may be deprioritised, a special one may not");
}

#[test]
fn an_excluded_name_is_left_alone() {
    let mut config = config();
    config.excluded_commands = vec!["t20?".parse().unwrap()];
    let mut device = cell(&equal(2), config, &[HOG], &[HOG, HOG]);
    device.run(5000);
    assert_eq!(device.treated(), [0; 0]);
}

/// When a CPU comes back online, threads still have the mask that they had while it was offline.
#[test]
fn facts_of_a_bound_thread_are_read_again() {
    let mut device = Device::new(&equal(2), config());
    for tid in [200, 201] {
        device.start(tid, tid, 1, HOG).mask = if tid == 201 { vec![0] } else { vec![0, 1] };
    }
    device.run(4000);
    device.start(FRONT, FRONT, 1, HOG);
    device.put_in_foreground(&[FRONT]);
    let known = |device: &Device| device.policy.roster.get(201).and_then(|it| it.facts.clone()).map(|it| it.allowed);
    device.run(2000);
    assert_eq!(known(&device), Some(vec![0]));
    assert!(device.treated().contains(&200), "{}", device.policy.reason);
    device.threads.get_mut(&201).unwrap().mask = vec![0, 1];
    (0..70).for_each(|_| {
        if known(&device) != Some(vec![0, 1]) {
            device.next_sample();
        }
    });
    assert_eq!(known(&device), Some(vec![0, 1]), "while another thread stays restricted");
}
