//! A mechanism's leases: those that the kernel has confirmed, and those that were requested and have no outcome yet.
//!
//! Lease decisions and their outcomes go through this module. So a mechanism never counts a refused value as held, requests
//! nothing twice, renews leases before their deadline, and does not retry a refused target for `REFUSAL_BACK_OFF`. That bounds
//! the retries of a mechanism that decides again on each refusal.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Action, Decision, Effect, Outcome, Target};
use brisk_sys::BootTime;

/// A refused target is requested again after this long.
const REFUSAL_BACK_OFF: Duration = Duration::from_secs(10);

/// Targets with their wanted values.
pub type DesiredValues = BTreeMap<Target, String>;

/// The leases of one mechanism.
#[derive(Debug, Default)]
pub struct LeaseSet {
    leases: BTreeMap<Target, HeldLease>,
    refusals: BTreeMap<Target, (BootTime, String)>,
}

#[derive(Debug)]
struct HeldLease {
    /// The requested value.
    requested: String,
    /// What the target holds, which may be another owner's value.
    value: String,
    until: BootTime,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Requested; no outcome yet.
    Requested,
    /// The kernel holds it.
    Held,
    /// To be restored: no outcome yet, or the restore failed and the journal will retry.
    Ending,
}

impl LeaseSet {
    /// Requests a lease of `value` in `target`, unless it is already held until then or was refused within `REFUSAL_BACK_OFF`.
    pub fn lease(
        &mut self,
        now: BootTime,
        (target, value): (&Target, &str),
        until: BootTime,
        reason: &str,
        decisions: &mut Vec<Decision>,
    ) {
        let is_held = |held: &HeldLease| held.state != State::Ending && held.requested == value && held.until >= until;
        let is_refused = self.refusals.get(target).is_some_and(|(over, _)| now < *over);
        if is_refused || self.leases.get(target).is_some_and(is_held) {
            return;
        }
        let holding =
            HeldLease { requested: value.to_owned(), value: value.to_owned(), until, state: State::Requested };
        self.leases.insert(target.clone(), holding);
        let action = Action::Lease { target: target.clone(), value: value.to_owned(), until };
        decisions.push(Decision { action, reason: reason.to_owned() });
    }

    /// Restores each target that `is_over`, in reverse order of the leases, so that a group is removed after its members.
    pub fn release_where(&mut self, reason: &str, decisions: &mut Vec<Decision>, is_over: impl Fn(&Target) -> bool) {
        for (target, held) in self.leases.iter_mut().rev() {
            if held.state != State::Ending && is_over(target) {
                held.state = State::Ending;
                let action = Action::Release { target: target.clone() };
                decisions.push(Decision { action, reason: reason.to_owned() });
            }
        }
    }

    /// Changes the leases into `wanted`: releases the rest, leases what is missing, and renews for `lease_duration` what would expire
    /// within half of that.
    pub fn reconcile(
        &mut self,
        now: BootTime,
        wanted: &DesiredValues,
        lease_duration: Duration,
        reasons: (&str, &str),
        decisions: &mut Vec<Decision>,
    ) {
        let (reason, reason_of_release) = reasons;
        self.refusals.retain(|_, (over, _)| now < *over);
        self.release_where(reason_of_release, decisions, |target| !wanted.contains_key(target));
        for (target, value) in wanted {
            let lasts = |held: &HeldLease| {
                held.state != State::Ending && held.requested == *value && held.until.since(now) * 2 >= lease_duration
            };
            if !self.leases.get(target).is_some_and(lasts) {
                self.lease(now, (target, value), now + lease_duration, reason, decisions);
            }
        }
    }

    /// Takes the outcome of a decision; outcomes for other mechanisms' targets are ignored.
    pub fn take(&mut self, now: BootTime, outcome: &Outcome) {
        let Outcome { target, effect, held } = outcome;
        let Some(lease) = self.leases.get_mut(target) else { return };
        if let Some(error) = outcome.error().filter(|_| lease.state != State::Ending) {
            self.refusals.insert(target.clone(), (now + REFUSAL_BACK_OFF, error.to_owned()));
        }
        match (held, effect) {
            (Some(value), _) => {
                value.clone_into(&mut lease.value);
                if lease.state == State::Requested {
                    lease.state = State::Held;
                }
            }
            // It was restored; the lease that was requested after that has no outcome yet.
            (None, Effect::Written | Effect::Unchanged) if lease.state == State::Requested => {}
            (None, _) => {
                self.leases.remove(target);
            }
        }
    }

    /// Forgets the refusals of targets that `may_be_retried` again: the device or the configuration changed, or there is a new
    /// reason to ask.
    pub fn forget_refusals(&mut self, may_be_retried: impl Fn(&Target) -> bool) {
        self.refusals.retain(|target, _| !may_be_retried(target));
    }

    /// True when nothing is held or requested, except targets that are to be restored.
    pub fn is_empty(&self) -> bool {
        self.in_force().next().is_none()
    }

    /// Targets that are held or requested, and not to be restored.
    pub fn in_force(&self) -> impl DoubleEndedIterator<Item = (&Target, &str)> {
        self.select(|state| state != State::Ending)
    }

    /// What the kernel holds, including targets that are still to be restored.
    pub fn held(&self) -> impl DoubleEndedIterator<Item = (&Target, &str)> {
        self.select(|state| state != State::Requested)
    }

    fn select(&self, matches_state: fn(State) -> bool) -> impl DoubleEndedIterator<Item = (&Target, &str)> {
        self.leases
            .iter()
            .filter(move |(_, held)| matches_state(held.state))
            .map(|(target, held)| (target, held.value.as_str()))
    }

    /// True when `target` is held or requested, and not to be restored.
    pub fn has(&self, target: &Target) -> bool {
        self.leases.get(target).is_some_and(|held| held.state != State::Ending)
    }

    /// Why `target` was refused, within the last `REFUSAL_BACK_OFF`.
    pub fn refusal(&self, target: &Target) -> Option<&str> {
        self.refusals.get(target).map(|(_, error)| error.as_str())
    }

    /// All refusals of the last `REFUSAL_BACK_OFF`, with their errors.
    pub fn refusals(&self) -> impl Iterator<Item = (&Target, &str)> {
        self.refusals.iter().map(|(target, (_, error))| (target, error.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> BootTime {
        BootTime::from_milliseconds(seconds * 1000)
    }

    fn target(name: &str) -> Target {
        Target::Tunable(name.into())
    }

    fn outcome(name: &str, effect: Effect, held: Option<&str>) -> Outcome {
        Outcome { target: target(name), effect, held: held.map(str::to_owned) }
    }

    fn refused() -> Effect {
        Effect::Refused("EPERM".to_owned())
    }

    /// The decisions in short form.
    fn short(decisions: &mut Vec<Decision>) -> Vec<String> {
        let short = |decision: Decision| match decision.action {
            Action::Lease { target, value, until } => {
                format!("{target}={value} until {}", until.since(at(0)).as_secs())
            }
            Action::Release { target } => format!("release {target}"),
            other => panic!("{other:?}"),
        };
        decisions.drain(..).map(short).collect()
    }

    fn held(holdings: &LeaseSet) -> Vec<(String, &str)> {
        holdings.held().map(|(target, value)| (target.to_string(), value)).collect()
    }

    fn wanted(names: &[(&str, &str)]) -> DesiredValues {
        names.iter().map(|(name, value)| (target(name), (*value).to_owned())).collect()
    }

    // Verifies UNDO-6.
    #[test]
    fn only_what_the_kernel_answered_is_held() {
        let (mut holdings, mut decisions) = (LeaseSet::default(), Vec::new());
        let reconcile = |holdings: &mut LeaseSet, now, names: &[(&str, &str)], decisions: &mut Vec<Decision>| {
            holdings.reconcile(at(now), &wanted(names), Duration::from_secs(90), ("why", "over"), decisions);
            short(decisions)
        };
        let both = [("/a", "1"), ("/b", "2")];
        assert_eq!(reconcile(&mut holdings, 0, &both, &mut decisions), ["/a=1 until 90", "/b=2 until 90"]);
        assert!(reconcile(&mut holdings, 0, &both, &mut decisions).is_empty(), "nothing is requested twice");
        assert!(held(&holdings).is_empty() && !holdings.is_empty());
        holdings.take(at(0), &outcome("/a", Effect::Written, Some("1")));
        holdings.take(at(0), &outcome("/b", refused(), None));
        assert_eq!((held(&holdings), holdings.refusal(&target("/b"))), (vec![("/a".to_owned(), "1")], Some("EPERM")));
        assert!(reconcile(&mut holdings, 9, &both, &mut decisions).is_empty(), "not retried within 10 s");
        assert_eq!(reconcile(&mut holdings, 10, &both, &mut decisions), ["/b=2 until 100"]);
        holdings.take(at(10), &outcome("/b", Effect::Written, Some("2")));
        assert_eq!(reconcile(&mut holdings, 46, &both, &mut decisions), ["/a=1 until 136"], "renewed in time");
        assert_eq!(reconcile(&mut holdings, 46, &[("/b", "3")], &mut decisions), ["release /a", "/b=3 until 136"]);
        assert_eq!(held(&holdings), [("/a".to_owned(), "1")], "neither has an outcome yet");
    }

    // Verifies UNDO-6.
    #[test]
    fn what_cannot_be_restored_is_held_until_it_is() {
        let (mut holdings, mut decisions) = (LeaseSet::default(), Vec::new());
        holdings.lease(at(0), (&target("/a"), "1"), at(90), "why", &mut decisions);
        holdings.take(at(0), &outcome("/a", Effect::Written, Some("1")));
        holdings.release_where("over", &mut decisions, |_| true);
        holdings.take(at(1), &outcome("/a", refused(), Some("1")));
        assert!(holdings.is_empty() && held(&holdings) == [("/a".to_owned(), "1")]);
        decisions.clear();
        holdings.release_where("over", &mut decisions, |_| true);
        assert!(decisions.is_empty(), "the journal tries again");
        holdings.take(at(2), &outcome("/a", Effect::Written, None));
        assert!(held(&holdings).is_empty());
    }

    // Verifies UNDO-6.
    #[test]
    fn a_release_and_a_lease_at_once_are_answered_in_order() {
        for (answer, left) in [((Effect::Written, Some("2")), 1), ((refused(), None), 0)] {
            let (mut holdings, mut decisions) = (LeaseSet::default(), Vec::new());
            holdings.lease(at(0), (&target("/a"), "1"), at(90), "why", &mut decisions);
            holdings.take(at(0), &outcome("/a", Effect::Written, Some("1")));
            holdings.release_where("over", &mut decisions, |_| true);
            holdings.lease(at(1), (&target("/a"), "2"), at(91), "why", &mut decisions);
            assert_eq!(short(&mut decisions)[1..], ["release /a", "/a=2 until 91"]);
            holdings.take(at(1), &outcome("/a", Effect::Written, None));
            holdings.take(at(1), &outcome("/a", answer.0, answer.1));
            assert_eq!(held(&holdings).len(), left);
        }
    }

    // Verifies UNDO-6.
    #[test]
    fn expired_or_foreign_leases_do_not_count_as_held() {
        let (mut holdings, mut decisions) = (LeaseSet::default(), Vec::new());
        holdings.lease(at(0), (&target("/a"), "1"), at(9), "why", &mut decisions);
        holdings.take(at(0), &outcome("/a", Effect::Written, Some("1")));
        holdings.take(at(1), &outcome("/b", Effect::Written, Some("1")));
        assert_eq!(held(&holdings).len(), 1);
        holdings.take(at(9), &outcome("/a", Effect::Written, None));
        assert!(holdings.is_empty() && held(&holdings).is_empty());
    }
}
