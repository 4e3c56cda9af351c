//! What telemetry is told about trials.

use super::*;
use crate::placement::gain::Totals;
use crate::{Observation, TrialOutcome};

fn taken(device: &mut Device) -> Vec<Observation> {
    let mut observations = Vec::new();
    device.policy.take_observations(&mut observations);
    observations
}

// Verifies FLEET-1.
#[test]
fn a_trial_is_observed_once_when_it_is_decided() {
    let mut device = cell(&equal(2), config(), &[HOG], &[HOG, HOG]);
    device.policy.observe(true);
    device.run(500);
    assert_eq!(
        (kind(&device), taken(&mut device)),
        (Some(StepKind::Isolate), vec![]),
        "it is confirmed by another trial"
    );
    device.run(2_500);
    let observations = taken(&mut device);
    let [Observation::Trial { step: "isolate", outcome: TrialOutcome::Kept, effect_percent: Some(effect) }] =
        observations.as_slice()
    else {
        panic!("{observations:?}: {}", device.policy.reason);
    };
    assert!((25.0..=100.0).contains(effect), "a step is kept that removes a quarter of the waiting: {effect}");
}

// Verifies FLEET-1.
#[test]
fn a_step_that_does_not_help_is_observed_as_dropped() {
    // Compared with a foreground that did not wait, or hardly.
    for wait_ns in [0, 100_000] {
        let mut device = cell(&equal(2), config(), &[HOG; 2], &[HOG; 2]);
        device.policy.observe(true);
        device.run(200);
        let now = BootTime::from_milliseconds(device.now_ms);
        let held = device.policy.held.as_mut().unwrap();
        let before = Totals { wall_ns: 100_000_000, run_ns: 100_000_000, wait_ns, bulk_run_ns: 100_000_000 };
        held.trial = Some(Trial::new(now, Duration::from_millis(300), before));
        device.run(400);
        let observations = taken(&mut device);
        let [Observation::Trial { step: "weight", outcome: TrialOutcome::Dropped, effect_percent }] =
            observations.as_slice()
        else {
            panic!("{observations:?}: {}", device.policy.reason);
        };
        assert_eq!(effect_percent.is_some_and(|effect| effect < 0.0), wait_ns > 0, "{observations:?}");
    }
}
