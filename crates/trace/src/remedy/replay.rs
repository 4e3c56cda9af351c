//! A policy that gets a trace as events, on a device that takes every decision.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::model::Trace;
use brisk_mechanism::{Action, Decision, Effect, Event, Outcome, Policy, Target};
use brisk_sys::BootTime;

/// The policy's time at which the trace begins: policies also look back.
const BEGINS: BootTime = BootTime::from_milliseconds(1_000_000);

/// The policy's time of a moment of the trace, which is not before its beginning.
pub(super) fn policy_time(trace: &Trace, time_ns: u64) -> BootTime {
    BEGINS + Duration::from_nanos(time_ns.saturating_sub(trace.start_ns()))
}

/// The policy's time `before` the trace begins; at most 1000 s.
pub(super) fn policy_time_before(before: Duration) -> BootTime {
    let before_ns = u64::try_from(before.as_nanos()).unwrap_or(u64::MAX);
    BootTime::from_nanoseconds(BEGINS.nanoseconds().saturating_sub(before_ns))
}

/// A policy under replay, and what it has done.
pub(super) struct Replay<P> {
    pub policy: P,
    /// The leases with their ends.
    held: BTreeMap<Target, (String, BootTime)>,
    /// What was done since this was last taken; a lease that ended by itself is a release.
    pub done: Vec<(BootTime, Action)>,
}

impl<P: Policy> Replay<P> {
    pub fn new(policy: P) -> Self {
        Self { policy, held: BTreeMap::new(), done: Vec::new() }
    }

    /// Tells the policy of an event, and carries out what it decides.
    pub fn tell(&mut self, now: BootTime, event: &Event) {
        let mut decisions = Vec::new();
        self.policy.on_event(now, event, &mut decisions);
        self.carry_out(now, decisions);
    }

    /// The leases in force.
    pub fn leases(&self) -> impl Iterator<Item = (&Target, &str)> {
        self.held.iter().map(|(target, (value, _))| (target, value.as_str()))
    }

    /// Ends leases and keeps the policy's deadlines up to `until`.
    pub fn run_until(&mut self, until: BootTime) {
        let mut passed = BootTime::default();
        loop {
            let ends = self.held.values().map(|(_, end)| *end).min();
            // A deadline that stays in the past is not one.
            let deadline = self.policy.deadline().filter(|deadline| *deadline > passed);
            let Some(next) = ends.into_iter().chain(deadline).min().filter(|next| *next <= until) else { return };
            self.expire(next);
            if deadline.is_some_and(|deadline| deadline <= next) {
                passed = next;
                self.tell(next, &Event::Deadline);
            }
        }
    }

    fn carry_out(&mut self, now: BootTime, mut decisions: Vec<Decision>) {
        while !decisions.is_empty() {
            let outcomes: Vec<Outcome> = decisions.drain(..).map(|decision| self.act(now, decision.action)).collect();
            self.policy.on_outcomes(now, &outcomes, &mut decisions);
        }
    }

    fn act(&mut self, now: BootTime, action: Action) -> Outcome {
        let outcome = match &action {
            Action::Lease { target, value, until } => {
                self.held.insert(target.clone(), (value.clone(), *until));
                Outcome { target: target.clone(), effect: Effect::Written, held: Some(value.clone()) }
            }
            Action::Release { target } => {
                let effect = if self.held.remove(target).is_some() { Effect::Written } else { Effect::Unchanged };
                Outcome { target: target.clone(), effect, held: None }
            }
            Action::Disinherit { target, .. } | Action::Rewrite { target } | Action::Pulse { target, .. } => {
                Outcome { target: target.clone(), effect: Effect::Written, held: None }
            }
        };
        self.done.push((now, action));
        outcome
    }

    fn expire(&mut self, now: BootTime) {
        let over: Vec<Target> =
            self.held.iter().filter(|(_, (_, end))| *end <= now).map(|(target, _)| target.clone()).collect();
        if over.is_empty() {
            return;
        }
        let outcomes: Vec<Outcome> = over.into_iter().map(|target| self.act(now, Action::Release { target })).collect();
        let mut decisions = Vec::new();
        self.policy.on_outcomes(now, &outcomes, &mut decisions);
        self.carry_out(now, decisions);
    }
}
