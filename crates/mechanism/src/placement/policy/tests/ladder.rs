//! When a step is tried again.

use super::*;

// Verifies PLACE-2.
#[test]
fn a_rejected_step_is_tried_again_after_its_back_off() {
    let mut device = cell(&equal(2), config(), &[HOG], &[HOG, HOG]);
    device.run(400);
    assert_eq!(kind(&device), Some(StepKind::Isolate), "{}", device.policy.reason);
    let mut decisions = Vec::new();
    let rejected_at = BootTime::from_milliseconds(device.now_ms);
    device.policy.revert_step(rejected_at, "it did not help", &mut decisions);
    // The next step is in the back-off as well.
    device.policy.back_off.add(rejected_at, StepKind::Weight);
    device.carry_out(decisions);
    device.run(1800);
    assert_eq!(kind(&device), None, "{}", device.policy.reason);
    device.run(400);
    assert_eq!(kind(&device), Some(StepKind::Isolate), "{}", device.policy.reason);
}
