//! Sessions and control groups that have only bulk threads are deprioritised for as long as there is a foreground, without a
//! trial: a group's weight matters only under contention, costs no CPU time that no other thread wants, and does not change how
//! the threads in the group share. So no gain has to be shown first.
//!
//! One thing can go wrong: the foreground waits for work that such a thread does. Then it runs less than before, and more
//! again without the lower weight.

use std::time::Duration;

use super::{AT_REST, CHOSEN_FOR, EVIDENCE, PlacementPolicy, WINDOW};
use crate::placement::gain::Totals;
use crate::placement::step::{Demands, Rung, Step};
use crate::{Decision, Target};
use brisk_sys::BootTime;

/// The foreground is measured with and without the lower weight, for this long each.
const SEEN_FOR: Duration = Duration::from_millis(500);
/// The warm-up of each measurement: work from before must finish.
const SETTLES: Duration = Duration::from_millis(100);
/// The time until the first measurement without the lower weight, where there was no baseline before.
const FIRST_LEFT_OUT: Duration = Duration::from_secs(5);
/// Below this fraction of its other run rate, the foreground may be waiting for deprioritised threads.
const NO_LESS_RUN: f64 = 0.85;
/// The reason from the start until the next decision of the ladder.
const BEGUN: &str = "sessions and groups of bulk threads are deprioritised while there is a foreground";
/// Why whole sessions and groups are not deprioritised during the back-off.
const NEEDS: &str = "the foreground ran less while sessions of bulk threads were deprioritised, and more without";

/// The state of these lower weights ("standing").
#[derive(Debug)]
pub(super) struct Standing {
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
    LeftOut(f64),
}

impl Standing {
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
        if now.since(self.phase_since + SETTLES).as_nanos() >= u128::from(sample.wall_ns) {
            self.seen += sample;
        }
        if Duration::from_nanos(self.seen.wall_ns) < SEEN_FOR {
            return true;
        }
        let runs = self.seen.run_rate();
        match self.phase {
            Phase::New(Some(ran)) if runs < ran * NO_LESS_RUN => self.enter(now, Phase::LeftOut(runs)),
            Phase::New(Some(_)) => self.enter(now, Phase::Trusted(CHOSEN_FOR)),
            Phase::New(None) => self.enter(now, Phase::Trusted(FIRST_LEFT_OUT)),
            Phase::LeftOut(ran) if ran < runs * NO_LESS_RUN && runs >= AT_REST => return false,
            Phase::LeftOut(_) => self.enter(now, Phase::Trusted(CHOSEN_FOR)),
            // The foreground may do something else by now.
            Phase::Trusted(length) if now.since(self.phase_since) >= length => {
                let next = if runs < AT_REST { Phase::Trusted(CHOSEN_FOR) } else { Phase::LeftOut(runs) };
                self.enter(now, next);
            }
            // Only the last second before the suspension matters.
            Phase::Trusted(_) if Duration::from_nanos(self.seen.wall_ns) >= WINDOW => self.seen = Totals::default(),
            Phase::Trusted(_) => {}
        }
        true
    }

    fn is_left_out(&self) -> bool {
        matches!(self.phase, Phase::LeftOut(_))
    }

    /// Since when whole sessions or groups are deprioritised; `None` while that is suspended.
    pub(super) fn since(&self) -> Option<BootTime> {
        (!self.is_left_out()).then_some(self.since)
    }
}

impl PlacementPolicy {
    /// Starts, judges or ends the standing deprioritisation.
    pub(super) fn stand(&mut self, now: BootTime, totals: Totals) {
        if self.standing.as_mut().is_some_and(|standing| !standing.take(now, totals)) {
            self.back_off.add(now, Rung::Whole);
            self.standing = None;
            NEEDS.clone_into(&mut self.reason);
            self.window.clear();
            return;
        }
        let is_seen = self.window.span() > Duration::ZERO;
        if (is_seen || self.standing.is_some()) && self.begin_or_end(now, self.window.totals()) {
            self.window.clear();
            if self.held.is_none() {
                BEGUN.clone_into(&mut self.reason);
            }
        }
    }

    /// Starts it at once for an opening, without suspension: what the foreground ran before says nothing about the opening.
    pub(super) fn stand_for_opening(&mut self, now: BootTime) {
        self.begin_or_end(now, Totals::default());
        if let Some(standing) = self.standing.as_mut().filter(|standing| standing.is_left_out()) {
            standing.enter(now, Phase::Trusted(FIRST_LEFT_OUT));
        }
    }

    /// Ends it where no session or group of bulk threads is left, and starts it where one appeared; true when it has started.
    /// `before` is the baseline of the foreground.
    fn begin_or_end(&mut self, now: BootTime, before: Totals) -> bool {
        let is_wanted = !self.whole_demands(now, &Step::Weight).is_empty();
        if !is_wanted {
            self.standing = None;
        }
        let begins = is_wanted && self.standing.is_none() && self.back_off.allows(now, Rung::Whole);
        if begins {
            self.standing = Some(Standing::new(now, before));
        }
        begins
    }

    /// The demands on whole sessions and groups that are in force without a trial.
    pub(super) fn standing_demands(&self, now: BootTime) -> Demands {
        let is_in_force = self.standing.as_ref().is_some_and(|standing| !standing.is_left_out());
        if is_in_force { self.whole_demands(now, &Step::Weight) } else { Demands::new() }
    }

    /// The demands of `step` on sessions and groups that have only bulk threads.
    pub(super) fn whole_demands(&self, now: BootTime, step: &Step) -> Demands {
        let nice_levels = self.nice_levels();
        let mut lowered = self.task_groups.lowered(now);
        lowered.retain(|group, _| self.may_lower(group));
        let is_session = |group: &Target| matches!(group, Target::Autogroup(_));
        let sessions = lowered.keys().filter(|group| is_session(group)).count();
        let groups = lowered.len() - sessions;
        let value = |group: &Target, own: i32| match is_session(group) {
            true => step.nice_of_session(own, nice_levels, sessions),
            false => step.weight_of_group(own.unsigned_abs(), nice_levels, groups),
        };
        let demand = |(group, own)| value(&group, own).map(|value| (group, value));
        let mut demands: Demands = lowered.into_iter().filter_map(demand).collect();
        // While facts are incomplete no group is newly lowered, but existing leases continue.
        demands.retain(|group, _| {
            (!self.task_groups.is_incomplete() || self.leased.has(group)) && self.leased.refusal(group).is_none()
        });
        demands
    }

    /// Applies the standing demands where no step of the ladder is in force.
    pub(super) fn hold_standing(&mut self, now: BootTime, decisions: &mut Vec<Decision>) {
        if self.held.is_none() {
            let wanted = self.standing_demands(now);
            self.make(now, &wanted, BEGUN, decisions);
        }
    }
}
