//! The ladder: which step is chosen, how its trial is judged, and when it is reverted.

use std::time::Duration;

use super::{AT_REST, EVIDENCE, Held, PlacementPolicy, WINDOW};
use crate::placement::cores::Split;
use crate::placement::gain::{Advice, CORE_SLACK, Totals, advise};
use crate::placement::step::{Rung, Step};
use crate::placement::trial::{Missed, Rhythms, Trial, TrialVerdict, is_less};
use crate::{Action, Decision, Target};
use brisk_sys::BootTime;
use brisk_sys::sched::threads::Sample;

/// What a foreground runs at its start says little about what it runs afterwards: after a first trial in which it waits less
/// and runs less, the step stays this long and is then chosen again.
const START: Duration = Duration::from_secs(5);
/// A rejected step is compared again with this much time without it.
const SECOND_SAMPLE: Duration = Duration::from_millis(500);
/// What is done outside the ladder, without a trial.
const WHOLE: &str = "only whole sessions or groups of bulk threads are deprioritised";
/// Why a reservation ends.
const OUTGROWS: &str = "the foreground needs more cores than are reserved";
/// A foreground outgrows its reserved cores when its parallelism exceeds their number by this, and the excess is at least the
/// minimum gain's share of its parallelism.
const MORE_THAN_RESERVED: f64 = 0.25;
/// The same limit during the trial of a reservation.
const OUTGROWN: f64 = 0.15;
/// A foreground with a lower CPU demand is light itself: the scheduler serves it at once.
const LIGHT_FRONT: f64 = 0.1;

impl PlacementPolicy {
    /// Judges the step in force or chooses one, and applies it.
    pub(super) fn climb(&mut self, now: BootTime, totals: Totals, sample: &Sample, decisions: &mut Vec<Decision>) {
        self.stand(now, totals);
        if self.held.is_some() {
            self.watch(now, totals, sample, decisions);
        }
        match &self.held {
            None => self.choose(now, decisions),
            Some(_) => {
                let parted = self.part_front(now);
                decisions.extend(parted);
                self.apply(now, decisions);
            }
        }
        self.hold_standing(now, decisions);
    }

    /// Judges the step in force.
    fn watch(&mut self, now: BootTime, totals: Totals, sample: &Sample, decisions: &mut Vec<Decision>) {
        let least = self.least_gain();
        let Some(held) = &mut self.held else { return };
        let missed = held.rhythms.take(now, sample, &self.roster);
        if !self.hear(now, &missed, decisions) {
            return;
        }
        let Some(held) = &mut self.held else { return };
        if let Some(trial) = &mut held.trial {
            match trial.take(now, totals) {
                TrialVerdict::Open => {
                    if lacking(&held.step, trial.after().runnable(), least) > OUTGROWN {
                        self.take_back(now, OUTGROWS, decisions);
                    }
                    return;
                }
                TrialVerdict::Useless(why) => {
                    let rung = held.step.rung();
                    if !self.back_off.knows(rung) {
                        self.refused = Some((rung, trial.after().wait_share()));
                    }
                    return self.take_back(now, &format!("it did not help: {why}"), decisions);
                }
                TrialVerdict::Unclear(why) => return self.doubt(now, &why, decisions),
                TrialVerdict::Helps => {
                    let after = trial.after();
                    held.trial = trial.again(now);
                    let missed = held.rhythms.judge(now, &self.roster);
                    if self.hear(now, &missed, decisions) {
                        self.confirm(now, after, decisions);
                    }
                    return;
                }
            }
        }
        if self.window.span() >= WINDOW.mul_f64(0.9) && self.window.totals().runnable() < AT_REST {
            return self.end_step("the foreground is idle", decisions);
        }
        if now >= held.until {
            return self.end_step("expired: to be chosen again", decisions);
        }
        if lacking(&held.step, self.window.parallelism(), least) > MORE_THAN_RESERVED {
            self.end_step(OUTGROWS, decisions);
        }
    }

    /// Lets light threads that `missed` their period return to the reserved cores. If one was not kept off them, the step is
    /// reverted. True while the step continues.
    fn hear(&mut self, now: BootTime, missed: &[Missed], decisions: &mut Vec<Decision>) -> bool {
        let goes_on = self.free_light(missed);
        if !goes_on {
            let missed: Vec<&str> = missed.iter().map(|missed| missed.text.as_str()).collect();
            self.take_back(now, &format!("a light thread misses its period: {}", missed.join(", ")), decisions);
        }
        goes_on
    }

    /// The trial has shown that the step helps: tries the next one if more can be gained.
    pub(super) fn confirm(&mut self, now: BootTime, after: Totals, decisions: &mut Vec<Decision>) {
        let Some(held) = &self.held else { return };
        let step = held.step.clone();
        if held.trial.is_none() {
            self.back_off.forgive(step.rung());
            self.doubted = None;
        }
        self.reason =
            format!("{}: the foreground waits {:.0} % of its busy time", self.words(&step), after.wait_share() * 100.0);
        let next = match &step {
            Step::Weight => Some(Step::Idle),
            // Foreground threads wait for each other on the reserved cores.
            Step::Isolate(split) if after.runnable() > split.reserved.len() as f64 + CORE_SLACK => Some(Step::Weight),
            _ => None,
        };
        let next = next.filter(|next| self.back_off.allows(now, next.rung()));
        if let Some(next) = next.filter(|_| after.gain_bound() >= self.least_gain()) {
            let reason = format!("{:.0} % could still be gained", after.gain_bound() * 100.0);
            self.begin(now, next, after, Some(step), &reason, decisions);
        }
    }

    fn least_gain(&self) -> f64 {
        self.config.minimum_gain_percent / 100.0
    }

    /// Chooses a rung when there is enough evidence.
    fn choose(&mut self, now: BootTime, decisions: &mut Vec<Decision>) {
        if self.window.span() < EVIDENCE {
            return;
        }
        let (totals, parallelism) = (self.window.totals(), self.window.parallelism());
        let advice = advise(totals.gain_bound(), parallelism, self.least_gain(), &self.machine);
        let seen = format!(
            "the foreground waits {:.0} % of its busy time on {parallelism:.2} CPUs while bulk threads use {:.2}: {:.0} % \
             to gain at most",
            totals.wait_share() * 100.0,
            totals.bulk_rate(),
            totals.gain_bound() * 100.0
        );
        let done = if self.standing_demands(now).is_empty() { "nothing is done" } else { WHOLE };
        let isolate = match advice {
            _ if totals.runnable() < LIGHT_FRONT => {
                return self.reason = format!("{done}: the foreground needs little CPU time");
            }
            Advice::Nothing => return self.reason = format!("{done}: {seen}"),
            Advice::Isolate { cores } => self.machine.reserve(cores).map(Step::Isolate),
            Advice::Weight => None,
        };
        let may_be_tried = |step: &Step| {
            let rung = step.rung();
            self.back_off.allows(now, rung) || self.was_refused_by_chance(rung, &totals)
        };
        // Where every thread that could be deprioritised already is, as part of a whole, the next rung is the lowest possible.
        let least = match done == WHOLE && !self.adds(now, &Step::Weight) {
            true => Some(Step::Idle).filter(|step| self.adds(now, step)),
            false => Some(Step::Weight),
        };
        match isolate.into_iter().chain(least).find(may_be_tried) {
            Some(step) => {
                self.refused = self.refused.filter(|(rung, _)| *rung != step.rung());
                self.begin(now, step, totals, None, &seen, decisions);
            }
            None => self.reason = format!("{done} until the back-off after a failed trial ends: {seen}"),
        }
    }

    /// True where the foreground waits so much longer without the rejected step that it helped after all: the baseline was too
    /// short. Only once, because a foreground that changes all the time would otherwise cause endless trials.
    fn was_refused_by_chance(&self, rung: Rung, without: &Totals) -> bool {
        let is_seen = self.window.span() >= SECOND_SAMPLE;
        self.refused.is_some_and(|(refused, waits)| is_seen && refused == rung && is_less(waits, without.wait_share()))
    }

    /// Starts a trial of `step`, if it changes anything.
    fn begin(
        &mut self,
        now: BootTime,
        step: Step,
        before: Totals,
        in_force: Option<Step>,
        seen: &str,
        decisions: &mut Vec<Decision>,
    ) {
        let trial = Trial::new(now, Duration::from_millis(self.config.trial_ms), before);
        let rhythms = Rhythms::of(&self.roster, trial.settles());
        self.reason = format!("{}, on trial: {seen}", self.words(&step));
        self.held = Some(Held::new(step, now, Some(trial), rhythms, in_force));
        let begun = decisions.len();
        self.apply(now, decisions);
        if self.held.is_none() {
            if self.leased.refusals().next().is_none() {
                self.reason = format!("nothing is done: all bulk threads are bound or have unknown facts: {seen}");
            }
            return;
        }
        // Masks move threads at once, groups do not: foreground masks go directly after the first masks.
        let is_mask = |decision: &Decision| {
            matches!(decision.action, Action::Lease { target: Target::CpuAffinity { .. }, .. } | Action::Release { .. })
        };
        let masks = decisions[begun..].iter().take_while(|decision| is_mask(decision)).count();
        let moved = [self.fetch_front(now), self.part_front(now)].concat();
        decisions.splice(begun + masks..begun + masks, moved);
    }

    /// The cores that are reserved now, and the others.
    pub fn split(&self) -> Option<&Split> {
        match &self.held.as_ref()?.step {
            Step::Isolate(split) => Some(split),
            _ => None,
        }
    }

    /// The foreground waits less and runs less. At its start the likely cause is the foreground itself, so the step stays for
    /// `START`. Later the step is ended, and the next trial compares with a measurement without it.
    fn doubt(&mut self, now: BootTime, why: &str, decisions: &mut Vec<Decision>) {
        let Some(held) = &mut self.held else { return };
        let rung = held.step.rung();
        let is_known = held.before.is_some() || self.doubted == Some(rung) || self.back_off.knows(rung);
        if is_known {
            self.doubted = None;
            return self.take_back(now, &format!("it did not help: {why}"), decisions);
        }
        self.doubted = Some(rung);
        if std::mem::take(&mut self.is_start) {
            held.trial = None;
            held.until = now + START;
            let step = held.step.clone();
            return self.reason = format!("{}, for now: {why}", self.words(&step));
        }
        self.end_step(&format!("measured without it: {why}"), decisions);
    }

    /// Reverts the step in force, and adds it to the back-off.
    pub(super) fn take_back(&mut self, now: BootTime, why: &str, decisions: &mut Vec<Decision>) {
        let Some(held) = self.held.take() else { return };
        let rung = held.step.rung();
        self.back_off.add(now, rung);
        self.window.clear();
        match held.before {
            Some(step) => {
                self.reason = format!("{} again: {why}", self.words(&step));
                let rhythms = Rhythms::of(&self.roster, now);
                self.held = Some(Held::new(step, now, None, rhythms, None));
                self.apply(now, decisions);
            }
            None => self.end_step(why, decisions),
        }
    }
}

/// How many cores a foreground of this parallelism lacks beyond those reserved, if that is worth the minimum gain. The kernel
/// accounts a wait when it ends, so an early estimate is a few percent too low; choosing again would give the same result.
fn lacking(step: &Step, parallelism: f64, least_gain: f64) -> f64 {
    let Step::Isolate(split) = step else { return 0.0 };
    Some(parallelism - split.reserved.len() as f64).filter(|lacking| *lacking > parallelism * least_gain).unwrap_or(0.0)
}
