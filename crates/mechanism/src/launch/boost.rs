//! The actions during launches: kicks, pulses and leases, and when the next kick or pulse is due.

use std::collections::BTreeSet;
use std::time::Duration;

use super::actuator::{Actuator, LaunchPlan};
use super::config::KickConfig;
use crate::{Action, Decision, Effect, LeaseSet, Outcome, Target};
use brisk_sys::BootTime;

/// The boost that overlapping launches share.
#[derive(Debug)]
pub(super) struct Boost {
    began: BootTime,
    /// The deadline of the leases.
    until: BootTime,
    kicks: BTreeSet<BootTime>,
    next_pulse: Option<BootTime>,
    /// One of its writes took effect.
    has_taken_effect: bool,
    /// Why the last decision was refused.
    refusal: Option<String>,
}

/// What the current launches need.
#[derive(Debug)]
pub(super) struct BoostRequest<'a> {
    /// The latest deadline.
    pub until: BootTime,
    /// The utilisation clamps of their processes, each with its deadline.
    pub clamps: Vec<(Target, BootTime)>,
    /// Why, in words.
    pub reason: &'a str,
}

impl Boost {
    pub(super) fn new(now: BootTime) -> Self {
        Self {
            began: now,
            until: now,
            kicks: BTreeSet::new(),
            next_pulse: None,
            has_taken_effect: false,
            refusal: None,
        }
    }

    pub(super) fn began(&self) -> BootTime {
        self.began
    }

    /// When the next kick or pulse is due.
    pub(super) fn next_due(&self) -> Option<BootTime> {
        sooner(self.kicks.first().copied(), self.next_pulse)
    }

    /// Takes the outcome of a decision.
    pub(super) fn take(&mut self, outcome: &Outcome) {
        self.has_taken_effect |= outcome.effect == Effect::Written;
        if let Some(error) = outcome.error() {
            self.refusal = Some(error.to_owned());
        }
    }

    /// True once one of its writes took effect.
    pub(super) fn has_taken_effect(&self) -> bool {
        self.has_taken_effect
    }

    /// The last refusal, if no write has taken effect.
    pub(super) fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref().filter(|_| !self.has_taken_effect)
    }

    /// Applies `plan` to a launch that was detected now.
    pub(super) fn apply(
        &mut self,
        now: BootTime,
        wanted: &BoostRequest<'_>,
        (plan, kicks): (&LaunchPlan, &KickConfig),
        leases: &mut LeaseSet,
        decisions: &mut Vec<Decision>,
    ) {
        let reason = wanted.reason;
        self.until = self.until.max(wanted.until);
        for choice in &plan.choices {
            match &choice.actuator {
                Actuator::Kick { window, sample } => {
                    for &moment_us in &kicks.at_us {
                        if moment_us == 0 {
                            kick(window.as_ref(), sample, kicks.restart_load_window, reason, decisions);
                        } else {
                            self.kicks.insert(now + Duration::from_micros(moment_us));
                        }
                    }
                }
                Actuator::Pulse { target, value, duration } => {
                    pulse(target, value, reason, decisions);
                    self.next_pulse = sooner(self.next_pulse, duration.map(|duration| now + repeat_after(duration)));
                }
                Actuator::Lease { target, value } => {
                    leases.lease(now, (target, value), self.until, reason, decisions);
                }
                Actuator::Clamp { minimum } => {
                    for (target, until) in &wanted.clamps {
                        leases.lease(now, (target, &minimum.to_string()), *until, reason, decisions);
                    }
                }
            }
        }
    }

    /// Issues the kicks and pulses that are due.
    pub(super) fn on_due(
        &mut self,
        now: BootTime,
        plan: &LaunchPlan,
        kicks: &KickConfig,
        decisions: &mut Vec<Decision>,
    ) {
        let kick_due = self.kicks.first().is_some_and(|&moment| moment <= now);
        self.kicks = self.kicks.split_off(&(now + Duration::from_nanos(1)));
        let pulse_due = self.next_pulse.is_some_and(|moment| moment <= now);
        if pulse_due {
            self.next_pulse = None;
        }
        for choice in &plan.choices {
            match &choice.actuator {
                Actuator::Kick { window, sample } if kick_due => {
                    let reason = "a later kick of the same launch";
                    kick(window.as_ref(), sample, kicks.restart_load_window, reason, decisions);
                }
                Actuator::Pulse { target, value, duration: Some(duration) } if pulse_due => {
                    pulse(target, value, "the launch outlasts the previous pulse", decisions);
                    self.next_pulse = sooner(self.next_pulse, Some(now + repeat_after(*duration)));
                }
                _ => {}
            }
        }
    }
}

fn sooner(one: Option<BootTime>, two: Option<BootTime>) -> Option<BootTime> {
    match (one, two) {
        (Some(one), Some(two)) => Some(one.min(two)),
        (one, two) => one.or(two),
    }
}

/// After 90 % of the pulse, but at least 5 ms, so that pulses do not occupy the event loop.
fn repeat_after(duration: Duration) -> Duration {
    (duration * 9 / 10).max(Duration::from_millis(5))
}

fn kick(window: Option<&Target>, sample: &Target, restart: bool, reason: &str, decisions: &mut Vec<Decision>) {
    let rewrites = window.filter(|_| restart).into_iter().chain([sample]);
    decisions.extend(
        rewrites
            .map(|target| Decision { action: Action::Rewrite { target: target.clone() }, reason: reason.to_owned() }),
    );
}

fn pulse(target: &Target, value: &str, reason: &str, decisions: &mut Vec<Decision>) {
    let action = Action::Pulse { target: target.clone(), value: value.to_owned() };
    decisions.push(Decision { action, reason: reason.to_owned() });
}
