//! What a dry run shows beyond decisions: it asks each second what children and mechanisms would do, and prints what is new.

use std::time::Duration;

use crate::{Engine, killer};
use brisk_mechanism::{Child, Foreseen};
use brisk_sys::{BootTime, Root};

/// How often.
const PERIOD: Duration = Duration::from_secs(1);

/// What was printed.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    said: Vec<(usize, Foreseen)>,
    /// When it asks next; none unless it is a dry run in which something is foreseen.
    pub(crate) due: Option<BootTime>,
}

/// What `child` would do now.
fn of_child(root: &Root, child: &Child) -> Vec<Foreseen> {
    match child.subcommand {
        killer::SUBCOMMAND => killer::foresee(root, &child.arguments),
        _ => Vec::new(),
    }
}

/// What `child` would do when it is told `line`.
pub(crate) fn of_line(root: &Root, child: &Child, line: &str) -> Vec<Foreseen> {
    match child.subcommand {
        killer::SUBCOMMAND => Vec::from_iter(killer::foresee_line(root, line)),
        _ => Vec::new(),
    }
}

impl Engine {
    /// Starts again: the configuration has been read.
    pub(crate) fn follow_dry_run_config(&mut self, now: BootTime) {
        if self.executor.is_dry() {
            self.shown = Shown { due: Some(now), ..Shown::default() };
        }
    }

    /// Shows what would be done now and was not shown before.
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
