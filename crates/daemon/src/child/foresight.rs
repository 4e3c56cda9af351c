//! Actions other than decisions in a dry run: asks every second what children and mechanisms would do, and prints what is new.

use std::time::Duration;

use crate::{Engine, killer};
use brisk_mechanism::{Child, Foreseen};
use brisk_sys::{BootTime, Root};

/// The period of asking.
const PERIOD: Duration = Duration::from_secs(1);

/// The actions printed so far.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    said: Vec<(usize, Foreseen)>,
    /// When it asks next; `None` unless this is a dry run in which an action was foreseen.
    pub(crate) due: Option<BootTime>,
}

/// The actions that `child` would take now.
fn of_child(root: &Root, child: &Child) -> Vec<Foreseen> {
    match child.subcommand {
        killer::SUBCOMMAND => killer::foresee(root, &child.arguments),
        _ => Vec::new(),
    }
}

/// The actions that `child` would take on the input `line`.
pub(crate) fn of_line(root: &Root, child: &Child, line: &str) -> Vec<Foreseen> {
    match child.subcommand {
        killer::SUBCOMMAND => Vec::from_iter(killer::foresee_line(root, line)),
        _ => Vec::new(),
    }
}

impl Engine {
    /// Starts again, because the configuration has been read.
    pub(crate) fn follow_dry_run_config(&mut self, now: BootTime) {
        if self.executor.is_dry() {
            self.shown = Shown { due: Some(now), ..Shown::default() };
        }
    }

    /// Prints the actions that would be taken now and were not printed before.
    pub(crate) fn show(&mut self, now: BootTime) {
        self.shown.due = None;
        for index in 0..self.mechanisms.len() {
            let (root, mechanism) = (&self.options.root, self.mechanisms.at(index));
            let name = mechanism.name();
            let mut all = mechanism.child().map_or_else(Vec::new, |child| of_child(root, child));
            all.extend(mechanism.foresee(root));
            for foreseen in all {
                self.shown.due = Some(now + PERIOD);
                let is_of_kind = |said: &(usize, Foreseen)| said.0 == index && said.1.action == foreseen.action;
                let is_same = |said: &(usize, Foreseen)| is_of_kind(said) && said.1.subject == foreseen.subject;
                if !self.shown.said.iter().any(is_same) {
                    self.shown.said.retain(|said| !is_of_kind(said));
                    self.executor.announce(now, name, &foreseen);
                    self.shown.said.push((index, foreseen));
                }
            }
        }
    }
}
