//! The ladder: which step is chosen, how its trial is judged, and when it is reverted.

use std::time::Duration;

use super::{EVIDENCE, Held, IDLE_DEMAND, PlacementPolicy, WINDOW};
use crate::placement::cores::{Machine, Split};
use crate::placement::gain::{Advice, CORE_SLACK, Totals, advise};
use crate::placement::step::Step;
use crate::placement::trial::{MissedPeriod, PeriodicThreads, Trial, TrialVerdict};
use crate::{Action, Decision, Target, TrialOutcome};
use brisk_sys::BootTime;
use brisk_sys::sched::thread_facts::ThreadFacts;
use brisk_sys::sched::threads::Sample;

/// What a foreground runs at its start says little about what it runs afterwards: after a first trial in which it waits less
/// and runs less, the step stays this long and is then chosen again.
const START_GRACE: Duration = Duration::from_secs(5);
/// What is done outside the ladder, without a trial.
const ONLY_GROUPS_REASON: &str = "only whole sessions or groups of bulk threads are deprioritised";
/// Why nothing is done on top of another program's masks.
const APART_REASON: &str =
    "all bulk threads are bound to the smallest cores, and the foreground needs only bigger ones";
/// Why a reservation ends.
const OUTGROWN_REASON: &str = "the foreground needs more cores than are reserved";
/// A foreground outgrows its reserved cores when its parallelism exceeds their number by this, and the excess is at least the
/// minimum gain's share of its parallelism.
const EXCESS_CORES: f64 = 0.25;
/// The same limit during the trial of a reservation.
const EXCESS_CORES_IN_TRIAL: f64 = 0.15;
/// A foreground with a lower CPU demand is light itself: the scheduler serves it at once.
const LIGHT_FOREGROUND: f64 = 0.1;

impl PlacementPolicy {
    /// Judges the step in force or chooses one, and applies it.
    pub(super) fn run_ladder(&mut self, now: BootTime, totals: Totals, sample: &Sample, decisions: &mut Vec<Decision>) {
        self.update_group_weights(now, totals);
        if self.held.is_some() {
            self.judge_step(now, totals, sample, decisions);
        }
        match &self.held {
            None => self.choose(now, decisions),
            Some(_) => {
                let spread = self.spread_foreground(now);
                decisions.extend(spread);
                self.apply(now, decisions);
            }
        }
        self.apply_group_demands(now, decisions);
    }

    /// Judges the step in force.
    fn judge_step(&mut self, now: BootTime, totals: Totals, sample: &Sample, decisions: &mut Vec<Decision>) {
        let least = self.minimum_gain();
        let Some(held) = &mut self.held else { return };
        let missed = held.periodic_threads.take(now, sample, &self.roster);
        if !self.on_missed_periods(now, &missed, decisions) {
            return;
        }
        let Some(held) = &mut self.held else { return };
        if let Some(trial) = &mut held.trial {
            match trial.take(now, totals) {
                TrialVerdict::Open => {
                    if missing_cores(&self.machine, &held.step, trial.after().runnable(), least) > EXCESS_CORES_IN_TRIAL
                    {
                        self.observe_trial(TrialOutcome::Dropped, None);
                        self.revert_step(now, OUTGROWN_REASON, decisions);
                    }
                    return;
                }
                TrialVerdict::Useless(why) => {
                    let effect_percent = trial.effect_percent();
                    self.observe_trial(TrialOutcome::Dropped, effect_percent);
                    return self.revert_step(now, &format!("it did not help: {why}"), decisions);
                }
                TrialVerdict::Unclear(why) => {
                    let effect_percent = trial.effect_percent();
                    self.observe_trial(TrialOutcome::Unclear, effect_percent);
                    return self.on_unclear_trial(now, &why, decisions);
                }
                TrialVerdict::Helps => {
                    let (after, effect_percent) = (trial.after(), trial.effect_percent());
                    let missed = held.periodic_threads.judge(now, &self.roster);
                    let confirming = trial.confirming(now);
                    if self.on_missed_periods(now, &missed, decisions) {
                        if confirming.is_none() {
                            self.observe_trial(TrialOutcome::Kept, effect_percent);
                        }
                        if let Some(held) = &mut self.held {
                            held.trial = confirming;
                        }
                        self.confirm(now, after, decisions);
                    }
                    return;
                }
            }
        }
        if self.window.span() >= WINDOW.mul_f64(0.9) && self.window.totals().runnable() < IDLE_DEMAND {
            return self.end_step("the foreground is idle", decisions);
        }
        if now >= held.until {
            return self.end_step("expired: to be chosen again", decisions);
        }
        if missing_cores(&self.machine, &held.step, self.window.parallelism(), least) > EXCESS_CORES {
            self.end_step(OUTGROWN_REASON, decisions);
        }
    }

    /// Lets light threads that `missed` their period return to the reserved cores. If one was not kept off them, the step is
    /// reverted. True while the step continues.
    fn on_missed_periods(&mut self, now: BootTime, missed: &[MissedPeriod], decisions: &mut Vec<Decision>) -> bool {
        let goes_on = self.unconfine_light(missed);
        if !goes_on {
            self.observe_trial(TrialOutcome::Dropped, None);
            let missed: Vec<&str> = missed.iter().map(|missed| missed.text.as_str()).collect();
            self.revert_step(now, &format!("a light thread misses its period: {}", missed.join(", ")), decisions);
        }
        goes_on
    }

    /// The trial has shown that the step helps: tries the next one if more can be gained.
    pub(super) fn confirm(&mut self, now: BootTime, after: Totals, decisions: &mut Vec<Decision>) {
        let Some(held) = &self.held else { return };
        let step = held.step.clone();
        if held.trial.is_none() {
            self.back_off.reset(step.kind());
            self.unclear_step = None;
        }
        self.reason = format!(
            "{}: the foreground waits {:.0} % of its busy time",
            self.describe(&step),
            after.wait_share() * 100.0
        );
        let next = match &step {
            Step::Weight => Some(Step::Idle),
            // Foreground threads wait for each other on the reserved cores.
            Step::Isolate(split) if after.runnable() > self.machine.core_count(&split.reserved) as f64 + CORE_SLACK => {
                Some(Step::Weight)
            }
            _ => None,
        };
        let next = next.filter(|next| self.back_off.allows(now, next.kind()));
        if let Some(next) = next.filter(|_| after.gain_bound() >= self.minimum_gain()) {
            let reason = format!("{:.0} % could still be gained", after.gain_bound() * 100.0);
            self.begin(now, next, after, Some(step), &reason, decisions);
        }
    }

    fn minimum_gain(&self) -> f64 {
        self.config.minimum_gain_percent / 100.0
    }

    /// Chooses a step when there is enough evidence.
    fn choose(&mut self, now: BootTime, decisions: &mut Vec<Decision>) {
        if self.window.span() < EVIDENCE {
            return;
        }
        let (totals, parallelism) = (self.window.totals(), self.window.parallelism());
        let advice = advise(totals.gain_bound(), parallelism, self.minimum_gain(), &self.machine);
        let seen = format!(
            "the foreground waits {:.0} % of its busy time on {parallelism:.2} CPUs while bulk threads use {:.2}: {:.0} % \
             to gain at most",
            totals.wait_share() * 100.0,
            totals.bulk_rate(),
            totals.gain_bound() * 100.0
        );
        let done = if self.group_demands_in_force(now).is_empty() { "nothing is done" } else { ONLY_GROUPS_REASON };
        let is_light = totals.runnable() < LIGHT_FOREGROUND;
        let is_apart = self.keeps_apart(parallelism);
        let is_settled = is_light || is_apart || advice == Advice::Nothing;
        self.settled_since = is_settled.then(|| self.settled_since.unwrap_or(now));
        let isolate = match advice {
            _ if is_light => return self.reason = format!("{done}: the foreground needs little CPU time"),
            _ if is_apart => return self.reason = format!("{done}: {APART_REASON}"),
            Advice::Nothing => return self.reason = format!("{done}: {seen}"),
            Advice::Isolate { cores } => self.machine.reserve_cores(cores).map(Step::Isolate),
            Advice::Weight => None,
        };
        // Where another program has bound all bulk threads, a mask changes nothing, and a lower weight may.
        let isolate = isolate.filter(|step| self.changes_anything(now, step));
        let may_be_tried = |step: &Step| self.back_off.allows(now, step.kind());
        // Where every thread that could be deprioritised already is, as part of a whole, the next step is the lowest possible.
        let least = match done == ONLY_GROUPS_REASON && !self.changes_anything(now, &Step::Weight) {
            true => Some(Step::Idle).filter(|step| self.changes_anything(now, step)),
            false => Some(Step::Weight),
        };
        match isolate.into_iter().chain(least).find(may_be_tried) {
            Some(step) => self.begin(now, step, totals, None, &seen, decisions),
            None => self.reason = format!("{done} until the back-off after a failed trial ends: {seen}"),
        }
    }

    /// True where other programs, Android for one, have bound all bulk threads to the smallest cores, and a foreground of this
    /// parallelism needs none of these: it waits for something else.
    pub(super) fn keeps_apart(&self, parallelism: f64) -> bool {
        let Some(smallest) = self.machine.smallest_cores() else { return false };
        let bigger = self.machine.core_count(&self.machine.cpus()) - self.machine.core_count(&smallest);
        if parallelism > bigger as f64 + CORE_SLACK {
            return false;
        }
        let is_bound = |facts: &ThreadFacts| facts.allowed.iter().all(|cpu| smallest.contains(cpu));
        // Nothing is done to a thread with unknown facts.
        let known: Vec<_> = self.busy(&Step::Weight).into_iter().filter_map(|member| member.facts.as_ref()).collect();
        !known.is_empty() && known.into_iter().all(is_bound)
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
        let periodic_threads = PeriodicThreads::of(&self.roster, trial.warm_up_ends());
        self.reason = format!("{}, on trial: {seen}", self.describe(&step));
        self.held = Some(Held::new(step, now, Some(trial), periodic_threads, in_force));
        let begun = decisions.len();
        self.apply(now, decisions);
        if self.held.is_none() {
            if self.leased.refusals().next().is_none() {
                self.reason = format!(
                    "nothing is done: all bulk threads are bound, deprioritised already, or have unknown facts: {seen}"
                );
            }
            return;
        }
        // Masks move threads at once, groups do not: foreground masks go directly after the first masks.
        let is_mask = |decision: &Decision| {
            matches!(decision.action, Action::Lease { target: Target::CpuAffinity { .. }, .. } | Action::Release { .. })
        };
        let masks = decisions[begun..].iter().take_while(|decision| is_mask(decision)).count();
        let moved = [self.migrate_foreground(now), self.spread_foreground(now)].concat();
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
    /// `START_GRACE`. Later the step is ended, and the next trial compares with a measurement without it.
    fn on_unclear_trial(&mut self, now: BootTime, why: &str, decisions: &mut Vec<Decision>) {
        let Some(held) = &mut self.held else { return };
        let kind = held.step.kind();
        let is_known = held.before.is_some() || self.unclear_step == Some(kind) || self.back_off.has_failed(kind);
        if is_known {
            self.unclear_step = None;
            return self.revert_step(now, &format!("it did not help: {why}"), decisions);
        }
        self.unclear_step = Some(kind);
        if std::mem::take(&mut self.is_start) {
            held.trial = None;
            held.until = now + START_GRACE;
            let step = held.step.clone();
            return self.reason = format!("{}, for now: {why}", self.describe(&step));
        }
        self.end_step(&format!("measured without it: {why}"), decisions);
    }

    /// Reverts the step in force, and adds it to the back-off.
    pub(super) fn revert_step(&mut self, now: BootTime, why: &str, decisions: &mut Vec<Decision>) {
        let Some(held) = self.held.take() else { return };
        let kind = held.step.kind();
        self.back_off.add(now, kind);
        self.window.clear();
        match held.before {
            Some(step) => {
                self.reason = format!("{} again: {why}", self.describe(&step));
                let periodic_threads = PeriodicThreads::of(&self.roster, now);
                self.held = Some(Held::new(step, now, None, periodic_threads, None));
                self.apply(now, decisions);
            }
            None => self.end_step(why, decisions),
        }
    }
}

/// How many cores a foreground of this parallelism lacks beyond those reserved, if that is worth the minimum gain. The kernel
/// accounts a wait when it ends, so an early estimate is a few percent too low; choosing again would give the same result.
fn missing_cores(machine: &Machine, step: &Step, parallelism: f64, minimum_gain: f64) -> f64 {
    let Step::Isolate(split) = step else { return 0.0 };
    Some(parallelism - machine.core_count(&split.reserved) as f64)
        .filter(|missing_cores| *missing_cores > parallelism * minimum_gain)
        .unwrap_or(0.0)
}
