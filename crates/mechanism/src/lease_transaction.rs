//! Leases that are held all or none: each is requested when the previous one is held, and a refusal restores all.

use std::collections::VecDeque;

use super::{Action, Decision, Effect, Outcome, Target};
use brisk_sys::BootTime;

/// One value to hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The target to lease.
    pub target: Target,
    /// The value to hold.
    pub value: String,
    /// Why it is changed.
    pub reason: String,
}

/// The changes and their progress.
#[derive(Debug, Default)]
pub struct LeaseTransaction {
    planned: VecDeque<Change>,
    /// Requested; no outcome yet.
    requested: Option<Change>,
    held: Vec<Change>,
    /// Released; no outcome yet.
    releasing: Vec<Change>,
    /// The restore failed; the journal will retry.
    stuck: Vec<Change>,
    refusal: Option<String>,
}

impl LeaseTransaction {
    /// Starts to lease `changes`, one after the other.
    pub fn begin(&mut self, changes: Vec<Change>) {
        self.planned = changes.into();
        self.refusal = None;
    }

    /// Requests the next change, unless one is pending. True when all are held or refused.
    pub fn advance(&mut self, decisions: &mut Vec<Decision>) -> bool {
        if self.requested.is_some() {
            return false;
        }
        let Some(change) = self.planned.pop_front() else { return true };
        let Change { target, value, reason } = change.clone();
        self.requested = Some(change);
        // It does not expire: it is restored when its holder ends, by the guardian, or by `brisk restore`.
        decisions.push(Decision { action: Action::Lease { target, value, until: BootTime::FOR_EVER }, reason });
        false
    }

    /// Restores the held changes in reverse order.
    pub fn release(&mut self, reason: &str, decisions: &mut Vec<Decision>) {
        self.planned.clear();
        for change in std::mem::take(&mut self.held).into_iter().rev() {
            let action = Action::Release { target: change.target.clone() };
            decisions.push(Decision { action, reason: reason.to_owned() });
            self.releasing.push(change);
        }
    }

    /// Takes the outcome of a decision or of an expired lease. False when the target does not belong to the sequence.
    pub fn take(&mut self, outcome: &Outcome, decisions: &mut Vec<Decision>) -> bool {
        let Outcome { target, effect, held } = outcome;
        let is_of = |change: &Change| change.target == *target;
        if let Some(change) = self.requested.take_if(|change| is_of(change)) {
            match outcome.error() {
                None => {
                    self.stuck.retain(|stuck| stuck.target != change.target);
                    self.held.push(change);
                }
                Some(error) => {
                    self.refusal = Some(error.to_owned());
                    self.release("the device refused another change of the same sequence", decisions);
                }
            }
            return true;
        }
        if let Some(at) = self.releasing.iter().position(is_of) {
            let change = self.releasing.remove(at);
            if matches!(effect, Effect::Refused(_)) {
                self.stuck.push(change);
            }
            return true;
        }
        let is_known = self.held.iter().chain(&self.stuck).any(is_of);
        if held.is_none() {
            self.held.retain(|change| !is_of(change));
            self.stuck.retain(|change| !is_of(change));
        }
        is_known
    }

    /// The changes in force.
    pub fn held(&self) -> &[Change] {
        &self.held
    }

    /// The changes whose restore failed so far.
    pub fn stuck(&self) -> &[Change] {
        &self.stuck
    }

    /// Why the sequence was aborted, if it was.
    pub fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    /// True when nothing is held or requested.
    pub fn is_idle(&self) -> bool {
        self.held.is_empty() && self.planned.is_empty() && self.requested.is_none()
    }
}
