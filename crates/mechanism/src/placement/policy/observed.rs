//! What telemetry is told about trials.

use super::PlacementPolicy;
use crate::placement::storage::JudgedTrial;
use crate::{Decision, Facts, Observation, TrialOutcome};
use brisk_sys::BootTime;

/// The name of a lower I/O priority, beside those of the ladder's steps.
const STORAGE: &str = "storage";

impl PlacementPolicy {
    /// Observes trials for telemetry from now on, or no longer.
    pub(in crate::placement) fn observe(&mut self, is_observed: bool) {
        self.observations.switch(is_observed);
    }

    /// The trial of the step in force, if there is one, has ended so.
    pub(super) fn observe_trial(&mut self, outcome: TrialOutcome, effect_percent: Option<f64>) {
        let Some(held) = self.held.as_ref().filter(|held| held.trial.is_some()) else { return };
        let step = held.step.kind().name();
        self.observations.note(|| Observation::Trial { step, outcome, effect_percent });
    }

    /// Takes facts about the network, and about storage, which may end a trial.
    pub(super) fn take_facts(&mut self, now: BootTime, facts: &Facts, decisions: &mut Vec<Decision>) {
        self.contention.take(now, facts, self.roster.foreground(), decisions);
        if let Some(JudgedTrial { has_helped, effect_percent }) = self.contention.take_judged() {
            let outcome = if has_helped { TrialOutcome::Kept } else { TrialOutcome::Dropped };
            let effect_percent = Some(effect_percent);
            self.observations.note(|| Observation::Trial { step: STORAGE, outcome, effect_percent });
        }
    }
}
