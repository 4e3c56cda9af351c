//! Sessions and control groups of bulk work alone weigh less for as long as there is a foreground, without a trial: the weight
//! of a whole group counts only where a CPU is wanted by more than one, takes nothing that no other thread wants, and leaves
//! all threads in the group what they are to each other. So nothing has to be gained first.
//!
//! One thing can go wrong: the foreground waits for one of them to do its work. Then it runs less than before, and runs more
//! again without it.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{AT_REST, CHOSEN_FOR, EVIDENCE, PlacementPolicy, WINDOW};
use crate::placement::gain::Totals;
use crate::placement::step::{Demands, Rung, Step};
use crate::{Decision, Target};
use brisk_sys::BootTime;

/// What the foreground does with and without it is seen over this long each.
const SEEN_FOR: Duration = Duration::from_millis(500);
/// Before that, nothing is said: what was begun before is still to be done.
const SETTLES: Duration = Duration::from_millis(100);
/// Where nothing was seen of the foreground before, it is seen without this after so long.
const FIRST_LEFT_OUT: Duration = Duration::from_secs(5);
/// With less than this share of what it ran otherwise, the foreground may wait for what weighs less.
const NO_LESS_RUN: f64 = 0.85;
/// What is done when it begins, up to the next decision of the ladder.
const BEGUN: &str = "bulk work weighs less as a whole while there is a foreground";
/// Why nothing weighs less as a whole for a while.
const NEEDS: &str = "the foreground ran less while sessions of bulk work weighed less, and more without";

/// What is known of that.
#[derive(Debug)]
pub(super) struct Standing {
    since: BootTime,
    phase: Phase,
    /// What the foreground did in this phase.
    seen: Totals,
    phase_since: BootTime,
}

#[derive(Debug)]
enum Phase {
    /// It has just begun; the foreground ran so many CPUs before, where that was seen for long enough.
    New(Option<f64>),
    /// Nothing speaks against it; it is left out once more after so long.
    Trusted(Duration),
    /// It is left out to see what the foreground runs then; it ran so many CPUs with it.
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

    /// Takes a sample that ended at `now`; false where the foreground needs those that weigh less.
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
            // What is in the foreground may do something else by now.
            Phase::Trusted(length) if now.since(self.phase_since) >= length => {
                let next = if runs < AT_REST { Phase::Trusted(CHOSEN_FOR) } else { Phase::LeftOut(runs) };
                self.enter(now, next);
            }
            // Of a minute the last second counts.
            Phase::Trusted(_) if Duration::from_nanos(self.seen.wall_ns) >= WINDOW => self.seen = Totals::default(),
            Phase::Trusted(_) => {}
        }
        true
    }

    fn is_left_out(&self) -> bool {
        matches!(self.phase, Phase::LeftOut(_))
    }

    /// Since when something weighs less as a whole.
    pub(super) fn since(&self) -> Option<BootTime> {
        (!self.is_left_out()).then_some(self.since)
    }
}

impl PlacementPolicy {
    /// Begins, judges or ends it.
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

    /// While something opens, it begins at once, and is not left out: what the foreground ran before says nothing of that.
    pub(super) fn stand_for_opening(&mut self, now: BootTime) {
        self.begin_or_end(now, Totals::default());
        if let Some(standing) = self.standing.as_mut().filter(|standing| standing.is_left_out()) {
            standing.enter(now, Phase::Trusted(FIRST_LEFT_OUT));
        }
    }

    /// Ends it where no session or group of bulk work is left, and begins it where one is; true when it has begun. `before` is what
    /// the foreground did without it.
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

    /// What sessions and groups give up without a trial now.
    pub(super) fn standing_demands(&self, now: BootTime) -> Demands {
        let is_in_force = self.standing.as_ref().is_some_and(|standing| !standing.is_left_out());
        if is_in_force { self.whole_demands(now, &Step::Weight) } else { Demands::new() }
    }

    /// What sessions and groups of bulk work alone give up by `step`.
    pub(super) fn whole_demands(&self, now: BootTime, step: &Step) -> Demands {
        let nice_levels = self.nice_levels();
        let mut demands: Demands = BTreeMap::new();
        let busy = if self.neighbours.is_empty() { Vec::new() } else { self.busy(&Step::Weight) };
        let groups: BTreeMap<_, _> =
            busy.into_iter().filter_map(|member| self.neighbours.of(member.thread.pid)).collect();
        let count = groups.len();
        demands.extend(groups.into_iter().filter_map(|(folder, own)| {
            Some((Target::GroupWeight(folder.clone()), step.weight_of_group(own, nice_levels, count)?))
        }));
        if self.config.sessions {
            let sessions = self.sessions.lowered(now);
            let count = sessions.len();
            demands.extend(
                sessions.into_iter().filter_map(|(id, own)| {
                    Some((Target::Autogroup(id), step.nice_of_session(own, nice_levels, count)?))
                }),
            );
        }
        // Where all is not known yet nothing begins, but what has begun goes on.
        demands.retain(|target, _| {
            let may_begin = !matches!(target, Target::Autogroup(_)) || !self.sessions.is_incomplete();
            (may_begin || self.leased.has(target)) && self.leased.refusal(target).is_none()
        });
        demands
    }

    /// Has that done where no step of the ladder is in force.
    pub(super) fn hold_standing(&mut self, now: BootTime, decisions: &mut Vec<Decision>) {
        if self.held.is_none() {
            let wanted = self.standing_demands(now);
            self.make(now, &wanted, BEGUN, decisions);
        }
    }
}
