//! Carries out decisions: leases through the journal, rewrites and pulses through descriptors that are kept open.

mod claims;
mod dry_run;
mod fault;
mod leasing;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;
use tracing::Level;

use brisk_mechanism::{Action, Decision, Effect, Outcome, Preview};
use brisk_sys::{BootTime, Root, Target, Tunable};
use brisk_undo::journal::{self, Journal, JournalError, Lease, Restoration};
use claims::{Claim, Claims};
use dry_run::line;
pub use dry_run::{Output, describe};
use fault::Fault;

/// The number of decisions that `brisk status` shows.
const REMEMBERED_DECISIONS: usize = 32;
/// How long a probe is delayed until frequency limits show their restored values. The kernel worker that applies them has
/// normal priority, so it may be delayed on a busy CPU.
const LIMITS_TIMEOUT: Duration = Duration::from_millis(200);

/// A decision and its outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Executed {
    /// When.
    pub at: BootTime,
    /// The mechanism that decided.
    pub mechanism: String,
    /// The action and its reason.
    #[serde(flatten)]
    pub decision: Decision,
    /// Why it failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Where decisions go.
#[derive(Debug)]
pub enum Sink {
    /// To the device.
    Device(Box<Journal>),
    /// To a text output only.
    DryRun {
        /// JSON lines instead of sentences.
        json: bool,
        /// The leases that would be held now.
        leases: Vec<Lease>,
        /// The output.
        output: Output,
    },
}

/// The executor and its state.
#[derive(Debug)]
pub struct Executor {
    root: Root,
    sink: Sink,
    tunables: BTreeMap<Target, Tunable>,
    claims: Claims,
    known: BTreeMap<Target, TargetState>,
    /// Outcomes for owners that lost their leases because of another owner's action.
    lost: Vec<(&'static str, Outcome)>,
    has_restored_late: bool,
    history: VecDeque<Executed>,
}

/// The state of a target.
#[derive(Debug, Default)]
struct TargetState {
    /// The owners of a lease whose restore has failed.
    waiting: Vec<&'static str>,
    /// Its last error, so that the same error at every launch is reported once.
    fault: Option<String>,
    /// How often its restore has failed so far.
    failed_restores: u32,
}

impl Executor {
    /// An executor that writes below `root`, or only prints.
    pub fn new(root: Root, sink: Sink) -> Self {
        Self {
            root,
            sink,
            tunables: BTreeMap::new(),
            claims: Claims::default(),
            known: BTreeMap::new(),
            lost: Vec::new(),
            has_restored_late: false,
            history: VecDeque::new(),
        }
    }

    /// Opens `targets`, which decisions will write, so that the first write finds them open; closes all others. True when
    /// this process may not write one of them.
    pub fn prepare<'a>(&mut self, targets: impl IntoIterator<Item = &'a Target>) -> bool {
        self.tunables.clear();
        self.known.values_mut().for_each(|known| known.fault = None);
        if self.is_dry_run() {
            return false;
        }
        let mut is_denied = false;
        for target in targets {
            let Target::Tunable(path) = target else { continue };
            match Tunable::open(&self.root, path) {
                Ok(tunable) => {
                    self.tunables.insert(target.clone(), tunable);
                }
                // Other errors are reported when the target is written.
                Err(error) => is_denied |= error.is_denied(),
            }
        }
        is_denied
    }

    /// Carries out the decisions of `mechanism` in order, and returns one outcome for each.
    pub fn execute_each(&mut self, now: BootTime, mechanism: &'static str, decisions: &[Decision]) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(decisions.len());
        for batch in decisions.chunk_by(|one, next| released(one).is_some() && released(next).is_some()) {
            let effects: Vec<_> = if batch.len() > 1 {
                let targets: Vec<_> = batch.iter().filter_map(released).collect();
                self.release(now, mechanism, &targets).into_iter().map(Ok).collect()
            } else {
                batch.iter().map(|decision| self.apply(now, mechanism, decision)).collect()
            };
            if let Sink::DryRun { json, output, .. } = &mut self.sink {
                let written = batch.iter().zip(&effects).filter(|(_, effect)| matches!(effect, Ok(Effect::Written)));
                written.for_each(|(decision, _)| output.print(&line(*json, now, mechanism, decision)));
            }
            let done = batch.iter().zip(effects);
            outcomes.extend(done.map(|(decision, effect)| self.record_outcome(now, mechanism, decision, effect)));
        }
        outcomes
    }

    /// Carries out one decision of `mechanism`.
    pub fn execute(&mut self, now: BootTime, mechanism: &'static str, decision: Decision) -> Effect {
        let outcome = self.execute_each(now, mechanism, &[decision]).pop();
        outcome.map_or(Effect::Unchanged, |outcome| outcome.effect)
    }

    /// In a dry run, prints an action of `mechanism` that is not a decision.
    pub fn announce(&mut self, now: BootTime, mechanism: &str, foreseen: &Preview) {
        let Sink::DryRun { json, output, .. } = &mut self.sink else { return };
        let Preview { action, subject, reason } = foreseen;
        let line = if *json {
            let fields =
                json!({"at": now, "mechanism": mechanism, "action": action, "subject": subject, "reason": reason});
            fields.to_string()
        } else {
            format!("{mechanism}: would {action} {subject}: {reason}")
        };
        output.print(&line);
    }

    /// Reports and records the outcome of a decision.
    fn record_outcome(
        &mut self,
        now: BootTime,
        mechanism: &'static str,
        decision: &Decision,
        effect: Result<Effect, Fault>,
    ) -> Outcome {
        let target = target_of(&decision.action);
        let effect = match effect {
            Ok(effect) => effect,
            Err(fault) => fault.effect(),
        };
        let outcome = self.outcome(mechanism, target, effect);
        // A thread may exit at any time; the device has not changed then.
        let has_ended = matches!(outcome.effect, Effect::Missing(_)) && target.thread().is_some();
        let fault = outcome.error().filter(|_| !has_ended).map(str::to_owned);
        let has_failed_restore = self.known.get(target).is_some_and(|known| known.failed_restores > 0);
        if outcome.held.is_none() && fault.is_none() && !has_failed_restore {
            self.known.remove(target);
        } else {
            let known = self.known.entry(target.clone()).or_default();
            // A failed restore has been logged as [`failed_restore_level`] says.
            if let Some(text) = fault.as_ref().filter(|_| known.fault != fault && !has_failed_restore) {
                tracing::warn!("{mechanism}: {text}");
            }
            known.fault = fault;
        }
        if outcome.effect != Effect::Unchanged && !has_ended {
            if self.history.len() == REMEMBERED_DECISIONS {
                self.history.pop_front();
            }
            let (mechanism, error) = (mechanism.to_owned(), outcome.error().map(str::to_owned));
            self.history.push_back(Executed { at: now, mechanism, decision: decision.clone(), error });
        }
        outcome
    }

    /// An outcome for `owner`. It includes the leased value only while the owner claims the target or waits for its restore.
    fn outcome(&self, owner: &str, target: &Target, effect: Effect) -> Outcome {
        let waits = || self.known.get(target).is_some_and(|known| known.waiting.contains(&owner));
        let is_owner = self.claims.get(target, owner).is_some() || waits();
        let held = self.leases().iter().find(|lease| is_owner && lease.target == *target);
        Outcome { target: target.clone(), effect, held: held.map(|lease| lease.value.clone()) }
    }

    fn apply(&mut self, now: BootTime, mechanism: &'static str, decision: &Decision) -> Result<Effect, Fault> {
        match &decision.action {
            Action::Lease { target, value, until } => {
                let claim = Claim { value: value.clone(), until: *until, reason: decision.reason.clone() };
                self.claim(now, target, mechanism, claim)?;
                return Ok(Effect::Written);
            }
            Action::Release { target } => {
                return Ok(self.release(now, mechanism, &[target]).pop().unwrap_or(Effect::Unchanged));
            }
            _ => {}
        }
        let Sink::Device(journal) = &mut self.sink else { return Ok(Effect::Written) };
        match &decision.action {
            Action::Lease { .. } | Action::Release { .. } => {}
            Action::Disinherit { target, inherited, original } => {
                return match journal.disinherit(now, target, inherited, original)? {
                    Some(restoration) => Ok(self.report(&restoration)),
                    None => Ok(Effect::Unchanged),
                };
            }
            Action::Rewrite { target } => {
                let tunable = self.tunable(target)?;
                // Read right before the write, so that a value from another process is kept.
                let value = tunable.read()?;
                tunable.write(&value)?;
            }
            Action::Pulse { target, value } => self.tunable(target)?.write(value)?,
        }
        Ok(Effect::Written)
    }

    fn tunable(&mut self, target: &Target) -> Result<&mut Tunable, Fault> {
        let Target::Tunable(path) = target else {
            return Err(Fault::Journal(JournalError::NotLeasable { target: target.clone() }));
        };
        Ok(match self.tunables.entry(target.clone()) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(Tunable::open(&self.root, path)?),
        })
    }

    /// Ends the claims and restores the leases whose deadline has passed; returns each owner with its outcome.
    pub fn expire(&mut self, now: BootTime) -> Vec<(&'static str, Outcome)> {
        let mut ended = self.expire_claims(now);
        let restorations = match &mut self.sink {
            Sink::Device(journal) => journal.expire(now),
            Sink::DryRun { json, leases, output } => {
                let due = leases.extract_if(.., |lease| lease.until <= now);
                let end = |lease: Lease| {
                    let reason = "its deadline passed".to_owned();
                    let decision = Decision { action: Action::Release { target: lease.target.clone() }, reason };
                    let owner = self.claims.owners(&lease.target).next().unwrap_or_default();
                    output.print(&line(*json, now, owner, &decision));
                    let Lease { target, original, .. } = lease;
                    Restoration { target, original, outcome: journal::RestoreOutcome::Restored }
                };
                due.map(end).collect()
            }
        };
        ended.extend(self.ended(restorations));
        ended
    }

    /// Retries all failed restores at once; returns each owner with its outcome.
    pub fn retry(&mut self, now: BootTime) -> Vec<(&'static str, Outcome)> {
        let Sink::Device(journal) = &mut self.sink else { return Vec::new() };
        let restorations = journal.retry(now);
        self.ended(restorations)
    }

    /// Waits at most `LIMITS_TIMEOUT` until frequency limits show their restored values. False when one does not.
    pub fn await_limits(&mut self) -> bool {
        match &mut self.sink {
            Sink::Device(journal) => journal.await_limits(LIMITS_TIMEOUT),
            Sink::DryRun { .. } => true,
        }
    }

    /// Takes the outcomes for owners that have lost their leases because of another owner's action.
    pub fn lost(&mut self) -> Vec<(&'static str, Outcome)> {
        std::mem::take(&mut self.lost)
    }

    /// True once after a failed restore has succeeded: the mechanisms probed the device while the leased value was still in
    /// force.
    pub fn has_restored_late(&mut self) -> bool {
        std::mem::take(&mut self.has_restored_late)
    }

    /// Restores all leases.
    pub fn release_all(&mut self) {
        if let Sink::Device(journal) = &mut self.sink {
            let restorations = journal.release_all();
            self.ended(restorations);
        }
    }

    /// When [`Executor::expire`] is due.
    pub fn next_deadline(&self) -> Option<BootTime> {
        self.leases().iter().map(|lease| lease.until).chain(self.claims.next_deadline()).min()
    }

    /// The leases held now; in a dry run, those that would be.
    pub fn leases(&self) -> &[Lease] {
        match &self.sink {
            Sink::Device(journal) => journal.leases(),
            Sink::DryRun { leases, .. } => leases,
        }
    }

    /// True in a dry run.
    pub fn is_dry_run(&self) -> bool {
        matches!(self.sink, Sink::DryRun { .. })
    }

    /// The last decisions, the oldest first.
    pub fn history(&self) -> impl Iterator<Item = &Executed> {
        self.history.iter()
    }

    /// Reports a restore that did not simply succeed; a failure is reported once, not at every retry.
    fn report(&mut self, restoration: &Restoration) -> Effect {
        let Restoration { target, original, outcome } = restoration;
        let known = self.known.entry(target.clone()).or_default();
        let journal::RestoreOutcome::Refused { error } = outcome else {
            if std::mem::take(&mut known.failed_restores) > 0 {
                self.has_restored_late = true;
                tracing::info!("{target}: restored after an earlier failure");
            }
            match outcome {
                journal::RestoreOutcome::ChangedByOther { found } => tracing::info!(
                    "{target} was changed to {found} by another program and stays so; it was {original} before the lease"
                ),
                journal::RestoreOutcome::Vanished => tracing::debug!("{target} no longer exists, so its lease ends"),
                _ => tracing::debug!("{target} was restored to {original}"),
            }
            return Effect::Written;
        };
        known.failed_restores = known.failed_restores.saturating_add(1);
        match failed_restore_level(target, known.failed_restores, self.waits_for_swap(target)) {
            Level::ERROR => tracing::error!("{target}: restore failed, will retry: {error}"),
            Level::WARN => tracing::warn!("{target}: restore failed, will retry: {error}"),
            _ => tracing::debug!("{target}: restore incomplete, will retry: {error}"),
        }
        Effect::Refused(error.clone())
    }

    /// True for an attribute of a zram device whose swap could not be switched off yet, which the kernel keeps until then.
    fn waits_for_swap(&self, target: &Target) -> bool {
        let (Target::ZramAlgorithm(name) | Target::ZramBacking(name) | Target::ZramSize(name)) = target else {
            return false;
        };
        self.known.get(&Target::ZramSwap(name.clone())).is_some_and(|known| known.failed_restores > 0)
    }
}

/// The target that a decision releases.
fn released(decision: &Decision) -> Option<&Target> {
    match &decision.action {
        Action::Release { target } => Some(target),
        _ => None,
    }
}

fn target_of(action: &Action) -> &Target {
    match action {
        Action::Lease { target, .. }
        | Action::Release { target }
        | Action::Disinherit { target, .. }
        | Action::Rewrite { target }
        | Action::Pulse { target, .. } => target,
    }
}

/// How the failure of a restore is logged that has failed `failures` times, this one included: once, unless more are to be
/// expected. `waits_for_swap`: see [`Executor::waits_for_swap`].
fn failed_restore_level(target: &Target, failures: u32, waits_for_swap: bool) -> Level {
    match (target, failures) {
        // While a CPU is offline the kernel restores only the online part of a mask, and the rest when it is online again.
        (Target::CpuAffinity { .. }, _) => Level::DEBUG,
        _ if waits_for_swap => Level::DEBUG,
        // As promised where its content does not fit into memory: brisk is not at fault.
        (Target::ZramSwap(_), 1) => Level::WARN,
        // A killed process stays in its group until the kernel has freed its memory.
        (Target::Group(_), 1) => Level::DEBUG,
        (Target::Group(_), 2) | (_, 1) => Level::ERROR,
        _ => Level::DEBUG,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};

    use super::*;
    use brisk_sys::test_trees::root_of;
    use brisk_undo::journal::Holder;

    const A: &str = "/sys/devices/system/cpu/cpufreq/policy0/scaling_min_freq";
    const B: &str = "/sys/devices/system/cpu/cpufreq/policy1/scaling_min_freq";
    const GONE: &str = "/sys/devices/system/cpu/cpufreq/policy2/scaling_min_freq";
    const NOTHING: &str = "/sys/devices/system/cpu/cpufreq/policy3/scaling_min_freq";

    fn at(milliseconds: u64) -> BootTime {
        BootTime::from_milliseconds(milliseconds)
    }

    fn decision(action: Action) -> Decision {
        Decision { action, reason: "why".to_owned() }
    }

    fn lease(file: &str, value: &str, until_ms: u64) -> Decision {
        let target = Target::Tunable(file.into());
        decision(Action::Lease { target, value: value.to_owned(), until: at(until_ms) })
    }

    fn release(file: &str) -> Decision {
        decision(Action::Release { target: Target::Tunable(file.into()) })
    }

    fn words(outcome: &Outcome) -> (String, &'static str, Option<&str>) {
        let effect = match outcome.effect {
            Effect::Written => "written",
            Effect::Unchanged => "unchanged",
            Effect::Refused(_) => "refused",
            Effect::Missing(_) => "missing",
        };
        (outcome.target.to_string(), effect, outcome.held.as_deref())
    }

    // Verifies UNDO-6.
    #[test]
    fn each_decision_and_each_expired_lease_has_an_outcome() {
        let (_folder, root) = root_of(&[(A, "1\n"), (B, "1\n"), (NOTHING, "")]);
        let journal = Journal::open(Holder::Daemon, &root.runtime_folder(), &root).unwrap();
        let mut printed = tempfile::tempfile().unwrap();
        let output = Output::to(printed.try_clone().unwrap());
        for sink in [Sink::Device(Box::new(journal)), Sink::DryRun { json: false, leases: Vec::new(), output }] {
            let mut executor = Executor::new(root.clone(), sink);
            let decisions = [lease(A, "2", 50), lease(GONE, "2", 50), lease(NOTHING, "2", 50), lease(B, "3", 90)];
            let outcomes = executor.execute_each(at(0), "launch", &decisions);
            if executor.is_dry_run() {
                assert!(outcomes.iter().all(|outcome| outcome.effect == Effect::Written), "{outcomes:?}");
            } else {
                let found: Vec<_> = outcomes.iter().map(words).collect();
                let expected = [
                    (A.to_owned(), "written", Some("2")),
                    (GONE.to_owned(), "missing", None),
                    (NOTHING.to_owned(), "refused", None),
                    (B.to_owned(), "written", Some("3")),
                ];
                assert_eq!(found, expected);
                let said: Vec<_> = executor.history().map(|executed| executed.error.is_some()).collect();
                assert_eq!(said, [false, true, true, false]);
            }
            let ended = executor.expire(at(50));
            let ended: Vec<_> = ended.iter().map(|(owner, outcome)| (*owner, words(outcome))).collect();
            assert!(ended.contains(&("launch", (A.to_owned(), "written", None))), "{ended:?}");
            let outcomes = executor.execute_each(at(60), "launch", &[release(A), release(B)]);
            let found: Vec<_> = outcomes.iter().map(words).collect();
            let expected = [(A.to_owned(), "unchanged", None), (B.to_owned(), "written", None)];
            assert_eq!(found, expected, "{}", executor.is_dry_run());
        }
        printed.rewind().unwrap();
        let mut text = String::new();
        printed.read_to_string(&mut text).unwrap();
        assert_eq!(text.lines().next(), Some(format!("launch: would lease {A} at 2: why").as_str()), "{text}");
        assert_eq!(text.lines().count(), 4 + 3 + 1, "leases, those whose deadline passed, and a release: {text}");
    }

    // Verifies UNDO-6.
    #[test]
    fn a_failed_restore_is_logged_once_unless_it_is_to_be_expected() {
        let mask = Target::CpuAffinity { tid: 7, start_time_ticks: 1 };
        let (debug, warning, error) = (Level::DEBUG, Level::WARN, Level::ERROR);
        for (target, waits_for_swap, expected) in [
            (Target::Tunable(A.into()), false, [error, debug, debug]),
            (Target::Group("/sys/fs/cgroup/brisk-threads".into()), false, [debug, error, debug]),
            (Target::ZramSwap("zram0".into()), false, [warning, debug, debug]),
            (Target::ZramSize("zram0".into()), false, [error, debug, debug]),
            (Target::ZramSize("zram0".into()), true, [debug, debug, debug]),
            (mask, false, [debug, debug, debug]),
        ] {
            let levels = [1, 2, 3].map(|failures| failed_restore_level(&target, failures, waits_for_swap));
            assert_eq!(levels, expected, "{target}");
        }
    }
}
