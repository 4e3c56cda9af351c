//! When a step is tried again.

use super::*;

/// A foreground that waits half of its time, after its step was rejected with the wait share `waits`.
fn rejected(waits: f64) -> Device {
    let mut device = cell(&equal(2), config(), &[HOG], &[HOG, HOG]);
    device.run(400);
    assert_eq!(kind(&device), Some(StepKind::Isolate), "{}", device.policy.reason);
    let mut decisions = Vec::new();
    device.policy.rejected = Some((StepKind::Isolate, waits));
    device.policy.revert_step(BootTime::from_milliseconds(device.now_ms), "it did not help", &mut decisions);
    // The next step is in the back-off as well.
    device.policy.back_off.add(BootTime::from_milliseconds(device.now_ms), StepKind::Weight);
    device.carry_out(decisions);
    device
}

// Verifies PLACE-2.
#[test]
fn what_was_refused_by_chance_is_tried_once_more() {
    for (waits, again) in [(0.02, true), (0.6, false)] {
        let mut device = rejected(waits);
        device.run(400);
        assert_eq!(kind(&device), None, "{}", device.policy.reason);
        device.run(400);
        assert_eq!(kind(&device).is_some(), again, "{waits}: {}", device.policy.reason);
        assert_eq!(device.policy.rejected.is_none(), again);
    }
}

// Verifies PLACE-2.
#[test]
fn it_is_not_tried_a_third_time_before_it_is_due() {
    let mut device = rejected(0.02);
    device.run(800);
    assert_eq!(kind(&device), Some(StepKind::Isolate));
    let mut decisions = Vec::new();
    let now = BootTime::from_milliseconds(device.now_ms);
    device.policy.revert_step(now, "it did not help", &mut decisions);
    device.carry_out(decisions);
    device.run(1100);
    assert_ne!(kind(&device), Some(StepKind::Isolate), "{}", device.policy.reason);
}
