//! Launches against a kernel that refuses actions, with events in any order.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::simulated::Kernel;
use brisk_base::random::Random;

#[derive(Debug, Clone)]
enum Step {
    Event(ProcessEventKind, u32),
    Announce(u8),
    Finish(u8),
    Load(u16),
    Foreground(Vec<u32>),
    Lost,
    Deadline,
    Replace(bool),
}

fn steps() -> impl Strategy<Value = Vec<(u64, Step)>> {
    use ProcessEventKind::{Comm, Exec, Exit, Fork, Uid};
    let kind = prop_oneof![Just(Fork), Just(Exec), Just(Comm), Just(Uid), Just(Exit)];
    let step = prop_oneof![
        4 => (kind, 1u32..8).prop_map(|(kind, pid)| Step::Event(kind, pid)),
        1 => (0u8..4).prop_map(Step::Announce),
        1 => (0u8..4).prop_map(Step::Finish),
        2 => (0u16..=1000).prop_map(Step::Load),
        1 => proptest::collection::vec(1u32..8, 0..3).prop_map(Step::Foreground),
        1 => Just(Step::Lost),
        2 => Just(Step::Deadline),
        1 => any::<bool>().prop_map(Step::Replace),
    ];
    proptest::collection::vec((0u64..800, step), 0..120)
}

/// A policy and the kernel that answers it.
struct Simulation {
    policy: LaunchPolicy,
    kernel: Kernel,
    longest: Duration,
}

impl Simulation {
    fn dispatch(&mut self, now: BootTime, event: &Event) {
        let mut decisions = Vec::new();
        self.policy.on_event(now, event, &mut decisions);
        self.carry_out(now, decisions);
    }

    fn carry_out(&mut self, now: BootTime, mut decisions: Vec<Decision>) {
        while !decisions.is_empty() {
            for decision in &decisions {
                if let Action::Lease { until, .. } = &decision.action {
                    assert!(until.since(now) <= self.longest, "a lease beyond the deadline");
                }
            }
            let carry_out = |decision| self.kernel.carry_out(now, decision, &mut |_| Ok(()));
            let outcomes: Vec<_> = decisions.iter().map(carry_out).collect();
            decisions.clear();
            self.policy.on_outcomes(now, &outcomes, &mut decisions);
        }
        let believed = self.policy.leases.held().map(|(target, value)| (target.clone(), value.to_owned()));
        assert_eq!(believed.collect::<BTreeMap<_, _>>(), self.kernel.held(), "the policy's leases match the kernel's");
    }

    /// Lets time pass: expires leases that are due and sends the policy's deadlines.
    fn pass(&mut self, mut now: BootTime, next: BootTime) {
        while let Some(deadline) = self.policy.deadline().filter(|&deadline| deadline <= next) {
            now = now.max(deadline);
            self.dispatch(now, &Event::Deadline);
            assert!(self.policy.deadline().is_none_or(|later| later > now), "the deadline must advance");
        }
        let ended = self.kernel.expire(next, &mut |_| Ok(()));
        self.policy.on_outcomes(next, &ended, &mut Vec::new());
    }
}

proptest! {
    // Verifies UNDO-2, UNDO-6.
    #[test]
    fn leases_end_after_any_events_and_refusals(steps in steps(), end_foreground in any::<bool>(), seed in 0u64..9) {
        let actuators = [kick_actuator(), lease_actuator(), Actuator::Clamp { minimum: 512 }];
        let configure = |config: &mut LaunchConfig| {
            config.triggers = vec![Trigger::Fork, Trigger::Exec, Trigger::Announced];
            if !end_foreground {
                config.triggers.push(Trigger::Foreground);
            }
            config.end.foreground = end_foreground;
            config.kick.at_us = vec![0, 3_000];
        };
        let policy = policy(configure, &actuators);
        let longest = Duration::from_millis(policy.config.end.deadline_ms);
        let mut random = Random::new(seed);
        // Refusals by kind, by target, by time.
        let refuses = move |now: BootTime, action: &Action| {
            let (second, kind) = (now.since(at(0)).as_secs(), random.below(8));
            let is_refused = match action {
                Action::Lease { target: Target::UtilizationClampMinimum { pid, .. }, .. } => pid % 3 == seed as u32 % 3,
                Action::Lease { .. } => second % 4 == seed % 4,
                Action::Release { .. } => kind == 0,
                _ => kind == 1,
            };
            (is_refused && seed > 0 && second < 1000).then(|| Effect::Refused("EPERM".to_owned()))
        };
        let mut simulation = Simulation { policy, kernel: Kernel::refusing(refuses), longest };
        let mut now = at(0);
        for (pause_ms, step) in steps {
            let next = now + Duration::from_millis(pause_ms);
            simulation.pass(now, next);
            now = next;
            let event = match step {
                Step::Event(kind, pid) => process(kind, pid, &format!("app {}", pid % 3)),
                Step::Announce(number) => announced(&format!("app {number}")),
                Step::Finish(number) => Event::LaunchFinished { application: format!("app {number}") },
                Step::Load(busy_permille) => Event::Load { busy_permille },
                Step::Foreground(pids) => Event::Foreground {
                    processes: pids.into_iter().map(|pid| Process { pid, ..Process::default() }).collect(),
                },
                Step::Lost => Event::ProcessEventsLost,
                Step::Deadline => Event::Deadline,
                Step::Replace(on) => {
                    let mut decisions = Vec::new();
                    let config = simulation.policy.config.clone();
                    simulation.policy.replace(now, config, plan(if on { &actuators } else { &[] }), 2, &mut decisions);
                    simulation.carry_out(now, decisions);
                    continue;
                }
            };
            simulation.dispatch(now, &event);
            let Simulation { policy, .. } = &simulation;
            prop_assert!(!policy.launches.is_empty() || policy.leases.is_empty(), "leases without a launch");
        }
        // From here on nothing is refused.
        let end = at(1_000_000) + longest;
        simulation.pass(now, end);
        simulation.dispatch(end, &Event::Deadline);
        simulation.pass(end, end + longest);
        prop_assert!(simulation.kernel.held().is_empty(), "still leased after the end");
        prop_assert!(simulation.policy.launches.is_empty() && simulation.policy.pids.is_empty());
    }
}

// Verifies UNDO-6.
#[test]
fn a_refused_step_is_not_reported_as_helping() {
    let error = "cannot write scaling_min_freq: EACCES";
    for (is_refused, expected) in [
        (false, "boosting the launch of browser (noticed by announced)".to_owned()),
        (true, format!("boosting the launch of browser (noticed by announced), without effect: {error}")),
    ] {
        let policy = policy(|_| {}, &[lease_actuator()]);
        let kernel = Kernel::refusing(move |_, _| is_refused.then(|| Effect::Refused(error.to_owned())));
        let mut simulation = Simulation { policy, kernel, longest: Duration::from_secs(60) };
        simulation.dispatch(at(0), &announced("browser"));
        assert_eq!(simulation.policy.activity().unwrap().1, expected);
        assert_eq!(simulation.policy.leases.is_empty(), is_refused);
    }
}

// Verifies UNDO-6.
#[test]
fn the_next_launch_retries_a_refused_action() {
    let policy = policy(|_| {}, &[lease_actuator()]);
    let kernel = Kernel::refusing(|now, _| (now < at(100)).then(|| Effect::Refused("EACCES".to_owned())));
    let mut simulation = Simulation { policy, kernel, longest: Duration::from_secs(60) };
    let mut begin = |milliseconds, application: &str| {
        simulation.dispatch(at(milliseconds), &announced(application));
        simulation.policy.leases.held().count()
    };
    assert_eq!(begin(0, "browser"), 0);
    assert_eq!(begin(100, "editor"), 1);
}

// Verifies UNDO-6.
#[test]
fn a_refused_action_is_not_retried_once_the_process_is_known() {
    let mut policy = policy(|_| {}, &[lease_actuator()]);
    assert_eq!(ask(&mut policy, at(0), &announced("browser")).len(), 1);
    let effect = Effect::Refused("EACCES".to_owned());
    let outcome = Outcome { target: tunable("policy0/scaling_min_freq"), effect, held: None };
    policy.on_outcomes(at(0), &[outcome], &mut Vec::new());
    let process = Process { pid: 7, ..Process::default() };
    let again = Event::LaunchAnnounced { process: Some(process), application: "browser".to_owned() };
    assert!(ask(&mut policy, at(1), &again).is_empty());
}
