//! Other managers of priorities: while placement is enabled automatically, it is left to one that starts.

use std::time::Duration;

use super::PlacementPolicy;
use crate::deference::{DeferenceChange, Intervals};
use crate::{Decision, Enabled, Question, Support, SupportState};
use brisk_sys::BootTime;
use brisk_sys::sched::threads::Sample;
use brisk_sys::system::other_managers::FoundManager;

/// The same defaults as for frequency managers (`launch.other_managers`).
const INTERVALS: Intervals = Intervals { check: Duration::from_secs(60), away: Duration::from_secs(120) };

impl PlacementPolicy {
    /// Continues beside the managers `found`; `None` where managers are ignored. Returns those that priorities are left to.
    pub(in crate::placement) fn defer(
        &mut self,
        now: BootTime,
        found: Option<&[FoundManager]>,
        is_new_configuration: bool,
    ) -> Option<String> {
        self.deference.reconfigure(now, found.map(|found| (INTERVALS, found)), is_new_configuration)
    }

    /// Takes which other managers run now.
    pub(super) fn hear_of_managers(&mut self, now: BootTime, found: &[FoundManager], decisions: &mut Vec<Decision>) {
        match self.deference.answer(now, found) {
            Some(DeferenceChange::TakenOver) => self.probe_requested = true,
            Some(DeferenceChange::Deferred) => {
                let reason = self.deference.reason();
                self.release_all(&reason, decisions);
                self.contention.stop(&reason, decisions);
                let managers = self.deference.managers().unwrap_or_default();
                let reason = format!("auto: this is left to {managers}");
                tracing::info!("placement: {reason}");
                let advice = "Set placement.enabled = true to have both.".to_owned();
                self.support = Support { state: SupportState::Available, reason, advice };
                self.forget_threads();
            }
            None => {}
        }
    }

    /// New processes may be managers.
    pub(super) fn check_new_processes(&mut self, now: BootTime, sample: &Sample) {
        if self.config.enabled == Enabled::Auto {
            for process in sample.born.iter().filter(|thread| thread.tid == thread.pid) {
                self.deference.on_process_start(now, Some(&process.command));
            }
        }
    }

    /// Queries the managers when a check is due.
    pub(super) fn query_managers(&mut self, now: BootTime) {
        if self.deference.take_due(now) {
            self.questions.push(Question::OtherManagers);
        }
    }
}
