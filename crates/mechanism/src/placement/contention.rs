//! What the foreground waits for besides a CPU, and the background that it waits behind: storage and the network.

use std::collections::BTreeSet;

use super::PlacementConfig;
use super::network::NetworkContention;
use super::storage::JudgedTrial;
use super::storage_contention::StorageContention;
use super::threads::roster::Roster;
use crate::{Decision, Facts, Outcome, Question, Target};
use brisk_sys::BootTime;
use brisk_sys::io::io_priority::IoPriority;

/// Both, which know nothing of each other.
#[derive(Debug, Default)]
pub(super) struct Contention {
    /// Background processes that keep the foreground waiting for storage.
    storage: StorageContention,
    /// Background groups that fill the queue of a network interface.
    network: NetworkContention,
}

impl Contention {
    /// Takes the lowest I/O priority that a thread can get, `None` where nothing is done about storage; and whether packets of
    /// background groups may get a lower priority. All leases were released before.
    pub(super) fn replace(&mut self, lowest: Option<IoPriority>, acts_on_network: bool, config: &PlacementConfig) {
        self.storage.replace(lowest, config);
        self.network.replace(acts_on_network);
    }

    /// Samples while there are processes in the foreground.
    pub(super) fn update_foreground(&mut self, now: BootTime, roster: &Roster, decisions: &mut Vec<Decision>) {
        self.storage.update_foreground(now, roster.has_foreground(), decisions);
        self.network.update_foreground(now, roster.roots(), decisions);
    }

    /// Releases everything, and samples no more until [`Self::update_foreground`].
    pub(super) fn stop(&mut self, why: &str, decisions: &mut Vec<Decision>) {
        self.storage.stop(why, decisions);
        self.network.stop(why, decisions);
    }

    /// When the next sample is due.
    pub(super) fn deadline(&self) -> Option<BootTime> {
        [self.storage.deadline(), self.network.deadline()].into_iter().flatten().min()
    }

    /// Asks for the samples that are due, those of storage of the processes `foreground`.
    pub(super) fn on_deadline(&mut self, now: BootTime, foreground: &BTreeSet<u32>) {
        self.storage.on_deadline(now, foreground);
        self.network.on_deadline(now);
    }

    pub(super) fn take_questions(&mut self, questions: &mut Vec<Question>) {
        self.storage.take_questions(questions);
        self.network.take_questions(questions);
    }

    /// Takes an answer, and asks the next question or decides.
    pub(super) fn take(
        &mut self,
        now: BootTime,
        facts: &Facts,
        foreground: &BTreeSet<u32>,
        decisions: &mut Vec<Decision>,
    ) {
        self.network.take(now, facts, decisions);
        self.storage.take(now, facts, foreground, decisions);
    }

    /// A trial about storage that has ended.
    pub(super) fn take_judged(&mut self) -> Option<JudgedTrial> {
        self.storage.take_judged()
    }

    /// Takes the outcomes of their decisions, and returns the others.
    pub(super) fn on_outcomes<'a>(&mut self, now: BootTime, outcomes: &'a [Outcome]) -> Vec<&'a Outcome> {
        let (mut of_storage, mut of_network, mut others) = (Vec::new(), Vec::new(), Vec::new());
        for outcome in outcomes {
            match outcome.target {
                Target::IoPriority { .. } => of_storage.push(outcome.clone()),
                Target::EgressPriority(_) => of_network.push(outcome.clone()),
                _ => others.push(outcome),
            }
        }
        self.storage.on_outcomes(now, &of_storage);
        self.network.on_outcomes(now, &of_network);
        others
    }

    /// What is done about the network, in one sentence, and since when.
    pub(super) fn activity(&self) -> Option<(BootTime, String)> {
        self.network.activity()
    }
}
