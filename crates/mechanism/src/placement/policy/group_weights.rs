//! Sessions and control groups that have only bulk threads are deprioritised for as long as there is a foreground, without a
//! trial: a group's weight matters only under contention, costs no CPU time that no other thread wants, and does not change how
//! the threads in the group share. So no gain has to be shown first.
//!
//! One thing can go wrong: the foreground waits for work that such a thread does. Then it runs less than before, and more
//! again without the lower weight.

use std::time::Duration;

use super::{EVIDENCE, IDLE_DEMAND, PlacementPolicy, REEVALUATE_AFTER, WINDOW};
use crate::placement::gain::Totals;
use crate::placement::groups::task_groups::Weights;
use crate::placement::step::{DesiredValues, Step, StepKind};
use crate::{Decision, Target};
use brisk_sys::BootTime;

/// The foreground is measured with and without the lower weight, for this long each.
const MEASURING_TIME: Duration = Duration::from_millis(500);
/// The warm-up of each measurement: work from before must finish.
const WARM_UP: Duration = Duration::from_millis(100);
/// The time until the first measurement without the lower weight, where there was no baseline before.
const FIRST_SUSPENSION_AFTER: Duration = Duration::from_secs(5);
/// Below this fraction of its other run rate, the foreground may be waiting for deprioritised threads.
const MINIMUM_RUN_RATIO: f64 = 0.85;
/// The reason from the start until the next decision of the ladder.
const IN_FORCE_REASON: &str = "sessions and groups of bulk threads are deprioritised while there is a foreground";
/// Why whole sessions and groups are not deprioritised during the back-off.
const HARM_REASON: &str = "the foreground ran less while sessions of bulk threads were deprioritised, and more without";

/// The state of these lower weights.
#[derive(Debug)]
pub(super) struct GroupWeights {
    since: BootTime,
    phase: Phase,
    /// What the foreground did in this phase, without the warm-up.
    seen: Totals,
    phase_since: BootTime,
}

#[derive(Debug)]
enum Phase {
    /// Just started; holds the foreground's run rate before, if it was measured for long enough.
    New(Option<f64>),
    /// No harm found; suspended for a measurement after this long.
    Trusted(Duration),
    /// Suspended for a measurement; holds the foreground's run rate with the lower weights.
    Suspended(f64),
}

impl GroupWeights {
    fn new(now: BootTime, before: Totals) -> Self {
        let is_seen = Duration::from_nanos(before.wall_ns) >= EVIDENCE;
        let ran = Some(before.run_rate()).filter(|_| is_seen);
        Self { since: now, phase: Phase::New(ran), seen: Totals::default(), phase_since: now }
    }

    fn enter(&mut self, now: BootTime, phase: Phase) {
        (self.phase, self.phase_since, self.seen) = (phase, now, Totals::default());
    }

    /// Takes a sample that ended at `now`; false where the foreground needs the deprioritised threads.
    fn take(&mut self, now: BootTime, sample: Totals) -> bool {
        if now.since(self.phase_since + WARM_UP).as_nanos() >= u128::from(sample.wall_ns) {
            self.seen += sample;
        }
        if Duration::from_nanos(self.seen.wall_ns) < MEASURING_TIME {
            return true;
        }
        let runs = self.seen.run_rate();
        match self.phase {
            Phase::New(Some(ran)) if runs < ran * MINIMUM_RUN_RATIO => self.enter(now, Phase::Suspended(runs)),
            Phase::New(Some(_)) => self.enter(now, Phase::Trusted(REEVALUATE_AFTER)),
            Phase::New(None) => self.enter(now, Phase::Trusted(FIRST_SUSPENSION_AFTER)),
            Phase::Suspended(ran) if ran < runs * MINIMUM_RUN_RATIO && runs >= IDLE_DEMAND => return false,
            Phase::Suspended(_) => self.enter(now, Phase::Trusted(REEVALUATE_AFTER)),
            // The foreground may do something else by now.
            Phase::Trusted(length) if now.since(self.phase_since) >= length => {
                let next = if runs < IDLE_DEMAND { Phase::Trusted(REEVALUATE_AFTER) } else { Phase::Suspended(runs) };
                self.enter(now, next);
            }
            // Only the last second before the suspension matters.
            Phase::Trusted(_) if Duration::from_nanos(self.seen.wall_ns) >= WINDOW => self.seen = Totals::default(),
            Phase::Trusted(_) => {}
        }
        true
    }

    fn is_suspended(&self) -> bool {
        matches!(self.phase, Phase::Suspended(_))
    }

    /// Since when whole sessions or groups are deprioritised; `None` while that is suspended.
    pub(super) fn since(&self) -> Option<BootTime> {
        (!self.is_suspended()).then_some(self.since)
    }
}

impl PlacementPolicy {
    /// Starts, judges or ends the lower weights.
    pub(super) fn update_group_weights(&mut self, now: BootTime, totals: Totals) {
        if self.group_weights.as_mut().is_some_and(|group_weights| !group_weights.take(now, totals)) {
            self.back_off.add(now, StepKind::Groups);
            self.group_weights = None;
            HARM_REASON.clone_into(&mut self.reason);
            self.window.clear();
            return;
        }
        let is_seen = self.window.span() > Duration::ZERO;
        if (is_seen || self.group_weights.is_some()) && self.begin_or_end(now, self.window.totals()) {
            self.window.clear();
            if self.held.is_none() {
                IN_FORCE_REASON.clone_into(&mut self.reason);
            }
        }
    }

    /// Starts it at once for an opening, without suspension: what the foreground ran before says nothing about the opening.
    pub(super) fn start_group_weights_for_opening(&mut self, now: BootTime) {
        self.begin_or_end(now, Totals::default());
        if let Some(group_weights) = self.group_weights.as_mut().filter(|group_weights| group_weights.is_suspended()) {
            group_weights.enter(now, Phase::Trusted(FIRST_SUSPENSION_AFTER));
        }
    }

    /// Ends it where no session or group of bulk threads is left, and starts it where one appeared; true when it has started.
    /// `before` is the baseline of the foreground.
    fn begin_or_end(&mut self, now: BootTime, before: Totals) -> bool {
        let is_wanted = !self.group_demands(now, &Step::Weight).is_empty();
        if !is_wanted {
            self.group_weights = None;
        }
        let may_begin = || self.back_off.allows(now, StepKind::Groups) && !self.keeps_apart(self.window.parallelism());
        let begins = is_wanted && self.group_weights.is_none() && may_begin();
        if begins {
            self.group_weights = Some(GroupWeights::new(now, before));
        }
        begins
    }

    /// The demands on whole sessions and groups that are in force without a trial.
    pub(super) fn group_demands_in_force(&self, now: BootTime) -> DesiredValues {
        let is_in_force = self.group_weights.as_ref().is_some_and(|group_weights| !group_weights.is_suspended());
        if is_in_force { self.group_demands(now, &Step::Weight) } else { DesiredValues::new() }
    }

    /// The demands of `step` on sessions and groups that have only bulk threads.
    pub(super) fn group_demands(&self, now: BootTime, step: &Step) -> DesiredValues {
        let nice_levels = self.nice_levels();
        let mut lowered = self.task_groups.lowerable_groups(now);
        lowered.retain(|group, _| self.may_lower(group));
        let is_session = |group: &Target| matches!(group, Target::Autogroup(_));
        let sessions = lowered.keys().filter(|group| is_session(group)).count();
        let groups = lowered.len() - sessions;
        let value = |group: &Target, weights: Weights| match is_session(group) {
            true => step.nice_of_session(weights.own, nice_levels, sessions),
            false => step.weight_of_group(weights, nice_levels, groups),
        };
        let demand = |(group, weights)| value(&group, weights).map(|value| (group, value));
        let mut demands: DesiredValues = lowered.into_iter().filter_map(demand).collect();
        // While facts are incomplete no group is newly lowered, but existing leases continue.
        demands.retain(|group, _| {
            (!self.task_groups.is_incomplete() || self.leased.has(group)) && self.leased.refusal(group).is_none()
        });
        demands
    }

    /// Applies the group demands in force where no step of the ladder is in force.
    pub(super) fn apply_group_demands(&mut self, now: BootTime, decisions: &mut Vec<Decision>) {
        if self.held.is_none() {
            let wanted = self.group_demands_in_force(now);
            self.reconcile_leases(now, &wanted, IN_FORCE_REASON, decisions);
        }
    }
}
