//! A simulated kernel and journal for policy tests: it holds leases until their deadline, restores them, and refuses
//! actions on request.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::{Action, Decision, Effect, Outcome, Target};
use brisk_sys::BootTime;

/// A failed restore is retried after this long.
const RETRY_AFTER: Duration = Duration::from_secs(1);

type Judge = Box<dyn FnMut(BootTime, &Action) -> Option<Effect>>;

pub struct Kernel {
    leases: BTreeMap<Target, (String, BootTime)>,
    /// Returns the effect of an action that is to fail; also called for each restore, as a release.
    pub refuses: Judge,
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.leases.fmt(f)
    }
}

impl Default for Kernel {
    fn default() -> Self {
        Self { leases: BTreeMap::new(), refuses: Box::new(|_, _| None) }
    }
}

impl Kernel {
    /// A kernel that fails the actions for which `refuses` returns an effect.
    pub fn refusing(refuses: impl FnMut(BootTime, &Action) -> Option<Effect> + 'static) -> Self {
        Self { refuses: Box::new(refuses), ..Self::default() }
    }

    /// Carries out `decision`; `act` changes the device, or returns why it cannot.
    pub fn carry_out(
        &mut self,
        now: BootTime,
        decision: &Decision,
        act: &mut dyn FnMut(&Action) -> Result<(), Effect>,
    ) -> Outcome {
        assert!(!decision.reason.is_empty(), "{decision:?}");
        let (target, effect) = match &decision.action {
            Action::Lease { target, value, until } => {
                assert!(*until > now && !value.is_empty(), "a lease that has already expired: {decision:?}");
                let effect = self.attempt(now, &decision.action, act);
                if effect == Effect::Written {
                    self.leases.insert(target.clone(), (value.clone(), *until));
                } else if self.leases.remove(target).is_some() {
                    // As in the journal: a refusal ends the existing lease.
                    act(&Action::Release { target: target.clone() }).unwrap();
                }
                (target, effect)
            }
            Action::Release { target } if self.leases.contains_key(target) => (target, self.restore(now, target, act)),
            Action::Release { target } => (target, Effect::Unchanged),
            Action::Disinherit { target, .. } | Action::Rewrite { target } | Action::Pulse { target, .. } => {
                (target, self.attempt(now, &decision.action, act))
            }
        };
        self.outcome(target, effect)
    }

    fn attempt(
        &mut self,
        now: BootTime,
        action: &Action,
        act: &mut dyn FnMut(&Action) -> Result<(), Effect>,
    ) -> Effect {
        match (self.refuses)(now, action) {
            Some(effect) => effect,
            None => act(action).err().unwrap_or(Effect::Written),
        }
    }

    fn restore(
        &mut self,
        now: BootTime,
        target: &Target,
        act: &mut dyn FnMut(&Action) -> Result<(), Effect>,
    ) -> Effect {
        let effect = self.attempt(now, &Action::Release { target: target.clone() }, act);
        match (&effect, self.leases.get_mut(target)) {
            (Effect::Refused(_), Some((_, until))) => *until = now + RETRY_AFTER,
            _ => drop(self.leases.remove(target)),
        }
        effect
    }

    fn outcome(&self, target: &Target, effect: Effect) -> Outcome {
        let held = self.leases.get(target).map(|(value, _)| value.clone());
        Outcome { target: target.clone(), effect, held }
    }

    /// Restores the leases whose deadline has passed.
    pub fn expire(&mut self, now: BootTime, act: &mut dyn FnMut(&Action) -> Result<(), Effect>) -> Vec<Outcome> {
        let is_due = |(_, (_, until)): &(&Target, &(String, BootTime))| *until <= now;
        let due: Vec<Target> = self.leases.iter().rev().filter(is_due).map(|(target, _)| target.clone()).collect();
        let restore = |target: Target| {
            let effect = self.restore(now, &target, act);
            self.outcome(&target, effect)
        };
        due.into_iter().map(restore).collect()
    }

    pub fn held(&self) -> BTreeMap<Target, String> {
        self.leases.iter().map(|(target, (value, _))| (target.clone(), value.clone())).collect()
    }
}
