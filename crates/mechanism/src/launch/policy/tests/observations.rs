//! What telemetry is told about launches.

use super::*;

fn observed(actuators: &[Actuator]) -> LaunchPolicy {
    let mut policy = policy(|_| {}, actuators);
    policy.observe(true);
    policy
}

/// A table of events, as (moment, event); the outcome of each decision is that it was written.
fn run(policy: &mut LaunchPolicy, events: &[(u64, Event)]) -> Vec<Observation> {
    let mut observations = Vec::new();
    for (moment, event) in events {
        let mut decisions = Vec::new();
        policy.on_event(at(*moment), event, &mut decisions);
        let outcomes: Vec<Outcome> = decisions
            .iter()
            .map(|decision| {
                let (Action::Lease { target, .. }
                | Action::Release { target }
                | Action::Rewrite { target }
                | Action::Pulse { target, .. }
                | Action::Disinherit { target, .. }) = &decision.action;
                Outcome { target: target.clone(), effect: Effect::Written, held: None }
            })
            .collect();
        policy.on_outcomes(at(*moment), &outcomes, &mut Vec::new());
        policy.take_observations(&mut observations);
    }
    observations
}

fn finished(application: &str) -> Event {
    Event::LaunchFinished { application: application.to_owned() }
}

fn exit(pid: u32) -> Event {
    process(ProcessEventKind::Exit, pid, "")
}

// Verifies FLEET-1.
#[test]
fn a_launch_is_observed_when_it_is_over() {
    let load = |busy_permille| Event::Load { busy_permille };
    for (what, events, expected) in [
        ("reported", vec![(0, announced("mail")), (640, finished("mail"))], Some(Some(640))),
        (
            "the load fell, and it was over before",
            vec![(0, announced("mail")), (100, load(900)), (500, load(0)), (600, load(0))],
            Some(Some(400)),
        ),
        ("cut off", vec![(0, announced("mail")), (3_000, Event::Deadline)], Some(None)),
        ("a command", vec![(0, process(ProcessEventKind::Exec, 7, "mail")), (20, exit(7))], None),
        ("still open", vec![(0, announced("mail")), (100, load(900))], None),
    ] {
        for (actuators, boosts) in [(vec![kick_actuator()], true), (vec![], false)] {
            let lengths = run(&mut observed(&actuators), &events).into_iter().map(|observation| match observation {
                Observation::Launch { application, length_ms, loss_ms, boosted, governor } => {
                    assert_eq!((application.as_str(), boosted, governor.as_str()), ("mail", boosts, "ondemand"));
                    assert_eq!(loss_ms.is_some(), length_ms.is_some(), "{what}");
                    // Without the boost a sixth of the speed lasts until the governor samples.
                    assert!(loss_ms.is_none_or(|loss_ms| (loss_ms > 80.0) != boosts), "{what}: {loss_ms:?}");
                    length_ms
                }
                other => panic!("{other:?}"),
            });
            assert_eq!(lengths.collect::<Vec<_>>(), Vec::from_iter(expected), "{what}, boosts: {boosts}");
        }
    }
}

/// With telemetry launches are noticed even where launch is off; without it nothing changes.
// Verifies FLEET-1.
#[test]
fn launches_are_noticed_for_telemetry_alone() {
    for (is_observed, expected) in [(false, 0), (true, 1)] {
        let mut policy = policy(|config| config.enabled = Enabled::Off, &[]);
        policy.observe(is_observed);
        assert_eq!(policy.interest() == Interest::default(), !is_observed);
        let events = [(0, announced("mail")), (640, finished("mail"))];
        assert_eq!(run(&mut policy, &events).len(), expected);
    }
    let mut policy = policy(|_| {}, &[kick_actuator()]);
    assert_eq!(run(&mut policy, &[(0, announced("mail")), (640, finished("mail"))]), [], "not observed");
    assert_eq!(policy.interest().load_period, None);
}

// Verifies FLEET-1.
#[test]
fn a_learned_limit_cuts_off_no_launch_for_which_nothing_is_held() {
    for (actuator, expected) in [(kick_actuator(), Some(1_000)), (lease_actuator(), None)] {
        let mut events = Vec::new();
        for (began, length) in [(0, 200), (60_000, 200), (120_000, 200), (180_000, 1_000)] {
            let limit_has_passed = (began + 600, Event::Deadline);
            events.push((began, announced("mail")));
            events.extend((length > 600).then_some(limit_has_passed));
            events.push((began + length, finished("mail")));
        }
        let last = run(&mut observed(&[actuator]), &events).pop();
        assert!(matches!(last, Some(Observation::Launch { length_ms, .. }) if length_ms == expected), "{last:?}");
    }
}
