//! What is done at once for an opening application on one CPU.

use super::*;

const OTHER: u32 = 110;

/// Bulk thread 200, music 201, and two idle applications, on `cpus` CPUs.
fn resting(cpus: u32, config: PlacementConfig) -> Device {
    let mut device = Device::new(&equal(cpus), config);
    device.start(200, 200, 1, HOG);
    device.start(201, 201, 1, MUSIC);
    device.start(FRONT, FRONT, 1, MESSAGE);
    device.start(OTHER, OTHER, 1, MESSAGE);
    device.run(3000);
    assert_eq!(touched(&device), BTreeSet::new());
    device
}

fn period_ms(device: &Device) -> u128 {
    device.policy.interest().sampling_period.unwrap().as_millis()
}

// Verifies PLACE-2.
#[test]
fn on_one_cpu_bulk_work_weighs_less_at_once_while_one_opens() {
    for (cpus, opening_ms, at_once) in [(1, 1000, true), (1, 0, false), (2, 1000, false)] {
        let mut device = resting(cpus, PlacementConfig { opening_ms, ..config() });
        device.put_in_foreground(&[FRONT]);
        let nice = device.threads[&200].priority.nice;
        assert_eq!((nice, touched(&device).len()), if at_once { (10, 1) } else { (0, 0) }, "{cpus} {opening_ms}");
    }
}

// Verifies PLACE-2.
#[test]
fn while_one_opens_threads_are_sampled_half_as_often() {
    let mut device = resting(1, PlacementConfig { opening_ms: 300, ..config() });
    device.put_in_foreground(&[FRONT]);
    for _ in 0..2 {
        assert_eq!(period_ms(&device), 200, "no control group has a weight");
        device.run(60);
    }
    device.run(280);
    assert_eq!(period_ms(&device), 50, "a trial begins");
}

// Verifies PLACE-2.
#[test]
fn a_foreground_without_competitors_is_sampled_as_an_idle_device() {
    let cases = [(1, Rule::Brisk, 100, 1000), (1, Rule::Weight, 100, 100), (2, Rule::Brisk, 100, 1000)];
    for (cpus, rule, first_ms, alone_ms) in cases {
        let mut device = Device::new(&equal(cpus), PlacementConfig { opening_ms: 300, rule, ..config() });
        device.start(FRONT, FRONT, 1, HOG);
        device.start(201, 201, 1, MUSIC);
        device.run(3000);
        device.put_in_foreground(&[FRONT]);
        assert_eq!(period_ms(&device), first_ms, "what the foreground of before has left is not known yet");
        let is_alone = alone_ms == 1000;
        assert_eq!(device.policy.interest().samples_new_foreground, !is_alone, "{cpus} CPUs, rule {rule:?}");
        device.run(1000);
        assert_eq!(period_ms(&device), alone_ms, "{cpus} CPUs, rule {rule:?}");
        device.start(200, 200, 1, HOG);
        device.run(1100);
        // The second CPU runs the hog, so that there is nothing to gain.
        assert_eq!(period_ms(&device) <= 100, cpus == 1, "{cpus} CPUs, rule {rule:?}: a new thread works");
        device.run(2000);
        assert!(device.policy.interest().samples_new_foreground);
        assert_eq!(touched(&device).is_empty(), cpus == 2, "rule {rule:?}: {}", device.policy.reason);
    }
}

// Verifies PLACE-2.
#[test]
fn with_several_cpus_only_bulk_threads_count_as_competitors() {
    for (cpus, habit, alone_ms) in [(1, DOWNLOAD, 100), (2, DOWNLOAD, 1000), (2, HOG, 100)] {
        let mut device = Device::new(&equal(cpus), PlacementConfig { opening_ms: 0, ..config() });
        device.start(FRONT, FRONT, 1, MESSAGE);
        device.start(200, 200, 1, habit);
        device.run(3000);
        device.put_in_foreground(&[FRONT]);
        device.run(400);
        assert_eq!(period_ms(&device), alone_ms, "{cpus} CPUs, {habit:?}");
    }
}

// Verifies PLACE-3.
#[test]
fn what_draws_or_was_given_priority_is_part_of_an_opening() {
    for (command, nice, expected) in [("curl", 0, 10), ("sway", 0, 0), ("curl", -1, -1), ("curl", 3, 13)] {
        let mut device = Device::new(&equal(1), config());
        let download = device.start(200, 200, 1, DOWNLOAD);
        command.clone_into(&mut download.thread.command);
        (download.facts.priority.nice, download.priority.nice) = (nice, nice);
        device.start(FRONT, FRONT, 1, MESSAGE);
        device.run(3000);
        device.put_in_foreground(&[FRONT]);
        assert_eq!(device.threads[&200].priority.nice, expected, "{command} of {nice}: {}", device.policy.reason);
        device.run(2200);
        assert_eq!(device.threads[&200].priority.nice, nice);
    }
}

// Verifies PLACE-2.
#[test]
fn what_is_launched_is_not_waited_for() {
    let mut device = resting(1, config());
    device.put_in_foreground(&[FRONT + 50]);
    assert_eq!(device.threads[&200].priority.nice, 10, "{}", device.policy.reason);
    device.start(FRONT + 50, FRONT + 50, 1, HOG);
    device.run(1000);
    assert_eq!(device.threads[&200].priority.nice, 10, "{}", device.policy.reason);
}

// Verifies PLACE-2, PLACE-5.
#[test]
fn what_an_opening_has_changed_is_restored_when_it_is_over() {
    let mut device = resting(1, PlacementConfig { opening_ms: 300, minimum_gain_percent: 99.0, ..config() });
    device.put_in_foreground(&[FRONT]);
    device.run(250);
    assert_eq!(device.threads[&200].priority.nice, 10);
    device.run(150);
    assert_eq!(device.threads[&200].priority.nice, 0, "{}", device.policy.reason);
    assert_eq!(touched(&device), BTreeSet::from([200]), "music and idle threads were left alone");
}

// Verifies PLACE-2.
#[test]
fn from_one_opening_to_the_next_nothing_is_restored() {
    let mut device = resting(1, config());
    device.put_in_foreground(&[FRONT]);
    device.run(500);
    let of_bulk = |device: &Device| {
        let target = |decision: &Decision| match &decision.action {
            Action::Lease { target, .. } | Action::Release { target } => target.thread(),
            _ => None,
        };
        device.decisions.iter().filter(|(_, decision)| target(decision) == Some(200)).count()
    };
    assert_eq!(of_bulk(&device), 1);
    device.put_in_foreground(&[OTHER]);
    assert_eq!((of_bulk(&device), device.threads[&200].priority.nice), (1, 10));
    device.put_in_foreground(&[200]);
    assert_eq!(device.threads[&200].priority.nice, 0, "it is the opening application");
    device.put_in_foreground(&[]);
    device.run(1000);
    assert_eq!(device.threads[&200].priority.nice, 0);
}

// Verifies PLACE-2.
#[test]
fn after_an_opening_a_trial_decides() {
    let mut device = resting(1, config());
    device.start(FRONT + 1, FRONT, 1, HOG);
    device.put_in_foreground(&[FRONT]);
    let is_on_trial = |device: &Device| device.policy.held.as_ref().is_some_and(|held| held.trial.is_some());
    device.run(1900);
    assert!(device.policy.held.is_some() && !is_on_trial(&device), "{}", device.policy.reason);
    let mut steps = 0..12;
    let is_tried = steps.any(|_| {
        device.run(50);
        is_on_trial(&device)
    });
    assert!(is_tried, "{}", device.policy.reason);
}
