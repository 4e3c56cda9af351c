//! Leases that stand or fall together: each is asked for when the one before it is held, and a refusal restores all.

use std::collections::VecDeque;

use super::{Action, Decision, Effect, Outcome, Target};
use brisk_sys::BootTime;

/// One thing to hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// What.
    pub target: Target,
    /// The value to hold.
    pub value: String,
    /// Why.
    pub reason: String,
}

/// The changes, and how far they are.
#[derive(Debug, Default)]
pub struct Sequence {
    planned: VecDeque<Change>,
    /// Asked for, and not answered yet.
    asked: Option<Change>,
    held: Vec<Change>,
    /// To be restored, and not answered yet.
    releasing: Vec<Change>,
    /// What could not be restored so far; the journal tries again.
    stuck: Vec<Change>,
    refusal: Option<String>,
}

impl Sequence {
    /// Holds `changes` from now on, one after the other.
    pub fn begin(&mut self, changes: Vec<Change>) {
        self.planned = changes.into();
        self.refusal = None;
    }

    /// Asks for the next change, unless one is asked for. True when all is held or refused.
    pub fn go_on(&mut self, decisions: &mut Vec<Decision>) -> bool {
        if self.asked.is_some() {
            return false;
        }
        let Some(change) = self.planned.pop_front() else { return true };
        let Change { target, value, reason } = change.clone();
        self.asked = Some(change);
        // It does not end by itself: it is restored when its holder ends, by the guardian, or by `brisk restore`.
        decisions.push(Decision { action: Action::Lease { target, value, until: BootTime::FOR_EVER }, reason });
        false
    }

    /// Restores what is held, the latest first.
    pub fn release(&mut self, reason: &str, decisions: &mut Vec<Decision>) {
        self.planned.clear();
        for change in std::mem::take(&mut self.held).into_iter().rev() {
            let action = Action::Release { target: change.target.clone() };
            decisions.push(Decision { action, reason: reason.to_owned() });
            self.releasing.push(change);
        }
    }

    /// Takes what became of a decision, or of a lease that ended by itself. False when that was none of the sequence.
    pub fn take(&mut self, outcome: &Outcome, decisions: &mut Vec<Decision>) -> bool {
        let Outcome { target, effect, held } = outcome;
        let is_of = |change: &Change| change.target == *target;
        if let Some(change) = self.asked.take_if(|change| is_of(change)) {
            match outcome.error() {
                None => {
                    self.stuck.retain(|stuck| stuck.target != change.target);
                    self.held.push(change);
                }
                Some(error) => {
                    self.refusal = Some(error.to_owned());
                    self.release("the device has refused another change that belongs to it", decisions);
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

    /// What is held.
    pub fn held(&self) -> &[Change] {
        &self.held
    }

    /// What could not be restored so far.
    pub fn stuck(&self) -> &[Change] {
        &self.stuck
    }

    /// Why the sequence was given up, if it was.
    pub fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    /// True when nothing is held or asked for.
    pub fn is_idle(&self) -> bool {
        self.held.is_empty() && self.planned.is_empty() && self.asked.is_none()
    }
}
