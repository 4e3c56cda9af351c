//! Carries decisions out: leases through the journal, rewrites and pulses through kept descriptors.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::Write;

use serde::{Deserialize, Serialize};

use crate::device::journal::{Journal, JournalError, Lease, Outcome, Restoration};
use crate::device::{BootTime, DeviceError, Root, Target, Tunable};
use crate::mechanism::{Action, Decision};

/// Decisions that `brisk status` shows.
const REMEMBERED_DECISIONS: usize = 32;

/// A decision and what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Executed {
    /// When.
    pub at: BootTime,
    /// Whose decision.
    pub mechanism: String,
    /// What and why.
    #[serde(flatten)]
    pub decision: Decision,
    /// Why it failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// How a decision went, as far as the engine has to act on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Execution {
    /// Something was written.
    Written,
    /// There was nothing to write.
    Nothing,
    /// It failed, and that was reported.
    Failed,
    /// The tunable is not there any more: what was probed is stale.
    Missing,
}

/// Where decisions go.
#[derive(Debug)]
pub enum Sink {
    /// To the device.
    Device(Box<Journal>),
    /// To stdout, and nowhere else.
    DryRun {
        /// As JSON lines instead of sentences.
        json: bool,
    },
}

/// The executor and what it remembers.
#[derive(Debug)]
pub struct Executor {
    root: Root,
    sink: Sink,
    tunables: BTreeMap<Target, Tunable>,
    /// The last error of each target, so that a refusal at every launch is reported once.
    faults: BTreeMap<Target, String>,
    /// What could not be given back so far.
    refused: BTreeSet<Target>,
    history: VecDeque<Executed>,
}

impl Executor {
    /// An executor that writes below `root`, or only prints.
    pub fn new(root: Root, sink: Sink) -> Self {
        let (tunables, faults, refused) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        Self { root, sink, tunables, faults, refused, history: VecDeque::new() }
    }

    /// Opens `targets`, which decisions will write, so that the first write need not; forgets all others. True when this
    /// process may not write one of them.
    pub fn prepare<'a>(&mut self, targets: impl IntoIterator<Item = &'a Target>) -> bool {
        self.tunables.clear();
        self.faults.clear();
        if matches!(self.sink, Sink::DryRun { .. }) {
            return false;
        }
        let mut is_denied = false;
        for target in targets {
            let Target::Tunable(path) = target else { continue };
            match Tunable::open(&self.root, path) {
                Ok(tunable) => {
                    self.tunables.insert(target.clone(), tunable);
                }
                // What cannot be opened now is reported when it is to be written.
                Err(error) => is_denied |= error.is_denied(),
            }
        }
        is_denied
    }

    /// Carries out the decisions of `mechanism`, in their order.
    pub fn execute_each(
        &mut self,
        now: BootTime,
        mechanism: &'static str,
        decisions: impl IntoIterator<Item = Decision>,
    ) -> Vec<Execution> {
        let decisions: Vec<_> = decisions.into_iter().collect();
        let mut executions = Vec::with_capacity(decisions.len());
        for together in decisions.chunk_by(|one, next| released(one).is_some() && released(next).is_some()) {
            let outcomes = match &self.sink {
                Sink::Device(_) if together.len() > 1 => {
                    let targets: Vec<_> = together.iter().filter_map(released).collect();
                    self.release(now, &targets).into_iter().map(Ok).collect()
                }
                Sink::Device(_) => together.iter().map(|decision| self.apply(now, decision)).collect::<Vec<_>>(),
                Sink::DryRun { json } => {
                    together.iter().for_each(|decision| print(*json, now, mechanism, decision));
                    together.iter().map(|_| Ok(Execution::Written)).collect()
                }
            };
            let done = together.iter().zip(outcomes);
            executions.extend(done.map(|(decision, outcome)| self.conclude(now, mechanism, decision.clone(), outcome)));
        }
        executions
    }

    /// Carries out one decision of `mechanism`.
    pub fn execute(&mut self, now: BootTime, mechanism: &'static str, decision: Decision) -> Execution {
        self.execute_each(now, mechanism, [decision]).pop().unwrap_or(Execution::Nothing)
    }

    /// Reports and remembers what became of a decision.
    fn conclude(
        &mut self,
        now: BootTime,
        mechanism: &'static str,
        decision: Decision,
        outcome: Result<Execution, Fault>,
    ) -> Execution {
        let target = target_of(&decision.action);
        let (execution, error) = match outcome {
            Ok(execution) => {
                self.faults.remove(target);
                (execution, None)
            }
            // Threads end whenever they like, and nothing of the device has changed by that.
            Err(fault) if fault.is_missing() && target.thread().is_some() => (Execution::Nothing, None),
            Err(fault) => {
                let text = fault.text();
                if self.faults.get(target) != Some(&text) {
                    tracing::warn!("{mechanism}: {text}");
                    self.faults.insert(target.clone(), text.clone());
                }
                (if fault.is_missing() { Execution::Missing } else { Execution::Failed }, Some(text))
            }
        };
        if execution != Execution::Nothing {
            if self.history.len() == REMEMBERED_DECISIONS {
                self.history.pop_front();
            }
            self.history.push_back(Executed { at: now, mechanism: mechanism.to_owned(), decision, error });
        }
        execution
    }

    fn apply(&mut self, now: BootTime, decision: &Decision) -> Result<Execution, Fault> {
        let Sink::Device(journal) = &mut self.sink else { return Ok(Execution::Nothing) };
        match &decision.action {
            Action::Lease { target, value, until } => {
                journal.lease(now, target, value, *until, &decision.reason)?;
                Ok(Execution::Written)
            }
            Action::Release { target } => Ok(self.release(now, &[target]).pop().unwrap_or(Execution::Nothing)),
            Action::Disinherit { target, inherited, original } => {
                match journal.disinherit(now, target, inherited, original)? {
                    Some(restoration) => {
                        report(&mut self.refused, &restoration);
                        Ok(Execution::Written)
                    }
                    None => Ok(Execution::Nothing),
                }
            }
            Action::Rewrite { target } => {
                let tunable = self.tunable(target)?;
                // Read at the last moment: what somebody else wrote in between must stay.
                let value = tunable.read()?;
                tunable.write(&value)?;
                Ok(Execution::Written)
            }
            Action::Pulse { target, value } => {
                self.tunable(target)?.write(value)?;
                Ok(Execution::Written)
            }
        }
    }

    /// Gives `targets` back together, in this order.
    fn release(&mut self, now: BootTime, targets: &[&Target]) -> Vec<Execution> {
        let Sink::Device(journal) = &mut self.sink else { return Vec::new() };
        let execution = |restoration| match restoration {
            Some(restoration) => {
                report(&mut self.refused, &restoration);
                Execution::Written
            }
            // Its deadline came first, or it was refused when it was asked for.
            None => Execution::Nothing,
        };
        journal.release_each(now, targets).into_iter().map(execution).collect()
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

    /// Gives back the leases whose deadline has come. True when one that had refused before is given back at last: what
    /// the mechanisms know of the device was read with it in force.
    pub fn expire(&mut self, now: BootTime) -> bool {
        let Sink::Device(journal) = &mut self.sink else { return false };
        let before = self.refused.len();
        journal.expire(now).iter().for_each(|restoration| report(&mut self.refused, restoration));
        self.refused.len() < before
    }

    /// Tries again at once what has refused to be given back.
    pub fn retry(&mut self, now: BootTime) {
        if let Sink::Device(journal) = &mut self.sink {
            journal.retry(now).iter().for_each(|restoration| report(&mut self.refused, restoration));
        }
    }

    /// Gives everything back.
    pub fn release_all(&mut self) {
        if let Sink::Device(journal) = &mut self.sink {
            journal.release_all().iter().for_each(|restoration| report(&mut self.refused, restoration));
        }
    }

    /// When [`Executor::expire`] has something to do.
    pub fn next_deadline(&self) -> Option<BootTime> {
        match &self.sink {
            Sink::Device(journal) => journal.next_deadline(),
            Sink::DryRun { .. } => None,
        }
    }

    /// What is leased now.
    pub fn leases(&self) -> &[Lease] {
        match &self.sink {
            Sink::Device(journal) => journal.leases(),
            Sink::DryRun { .. } => &[],
        }
    }

    /// True when nothing is written.
    pub fn is_dry(&self) -> bool {
        matches!(self.sink, Sink::DryRun { .. })
    }

    /// The last decisions, the oldest first.
    pub fn history(&self) -> impl Iterator<Item = &Executed> {
        self.history.iter()
    }
}

enum Fault {
    Journal(JournalError),
    Device(DeviceError),
}

impl From<JournalError> for Fault {
    fn from(error: JournalError) -> Self {
        Self::Journal(error)
    }
}

impl From<DeviceError> for Fault {
    fn from(error: DeviceError) -> Self {
        Self::Device(error)
    }
}

impl Fault {
    fn text(&self) -> String {
        match self {
            Self::Journal(error) => error.to_string(),
            Self::Device(error) => error.with_advice(),
        }
    }

    fn is_missing(&self) -> bool {
        match self {
            Self::Journal(JournalError::Device { fault }) => fault.is_missing(),
            Self::Journal(_) => false,
            Self::Device(error) => error.is_missing(),
        }
    }
}

/// What a decision gives back.
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

/// Says what did not simply go back to what it was; a refusal is said once, however often it is tried again.
fn report(refused: &mut BTreeSet<Target>, restoration: &Restoration) {
    let Restoration { target, original, outcome } = restoration;
    let Outcome::Refused { error } = outcome else {
        if refused.remove(target) {
            tracing::info!("{target}, which could not be given back before, is given back");
        }
        return match outcome {
            Outcome::ChangedByOther { found } => tracing::info!(
                "{target} was changed to {found} by somebody else and stays so; it was {original} before the lease"
            ),
            Outcome::Vanished => tracing::debug!("{target} is gone, and its lease with it"),
            _ => tracing::debug!("{target} is {original} again"),
        };
    };
    if target.thread().is_some() {
        // While a CPU is offline the kernel gives back a part of each mask only, and the rest when it returns.
        refused.insert(target.clone());
        tracing::debug!("{target} is given back in part, and is tried again in a while: {error}");
    } else if refused.insert(target.clone()) {
        tracing::error!("{target} keeps its leased value for now, and is tried again in a while: {error}");
    }
}

fn print(json: bool, now: BootTime, mechanism: &str, decision: &Decision) {
    let line = if json {
        let executed = Executed { at: now, mechanism: mechanism.to_owned(), decision: decision.clone(), error: None };
        serde_json::to_string(&executed).unwrap_or_default()
    } else {
        format!("{mechanism}: would {}: {}", describe(&decision.action), decision.reason)
    };
    // A reader that has gone is no reason to stop deciding.
    let _ = writeln!(anstream::stdout(), "{line}");
}

/// An action in words, to follow "would" or a time.
pub fn describe(action: &Action) -> String {
    match action {
        Action::Lease { target, value, .. } => format!("lease {target} at {value}"),
        Action::Release { target } => format!("give {target} back"),
        Action::Disinherit { target, original, .. } => {
            format!("give {target} {original}, with which it would have begun")
        }
        Action::Rewrite { target } => format!("write {target} again, unchanged"),
        Action::Pulse { target, value } => format!("write {value} to {target}"),
    }
}
