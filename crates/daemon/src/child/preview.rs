//! Actions other than decisions in a dry run: asks every second what children and mechanisms would do, and prints what is new.

use std::time::Duration;

use crate::{Engine, killer};
use brisk_mechanism::{Child, Preview};
use brisk_sys::{BootTime, Root};

/// The period of asking.
const PERIOD: Duration = Duration::from_secs(1);

/// The actions printed so far.
#[derive(Debug, Default)]
pub(crate) struct PreviewOutput {
    printed: Vec<(usize, Preview)>,
    /// When it asks next; `None` unless this is a dry run in which an action was foreseen.
    pub(crate) due: Option<BootTime>,
}

/// The actions that `child` would take now.
fn preview_child(root: &Root, child: &Child) -> Vec<Preview> {
    match child.subcommand {
        killer::SUBCOMMAND => killer::preview(root, &child.arguments),
        _ => Vec::new(),
    }
}

/// The actions that `child` would take on the input `line`.
pub(crate) fn preview_child_line(root: &Root, child: &Child, line: &str) -> Vec<Preview> {
    match child.subcommand {
        killer::SUBCOMMAND => Vec::from_iter(killer::preview_line(root, line)),
        _ => Vec::new(),
    }
}

impl Engine {
    /// Starts again, because the configuration has been read.
    pub(crate) fn restart_previews(&mut self, now: BootTime) {
        if self.executor.is_dry_run() {
            self.preview_output = PreviewOutput { due: Some(now), ..PreviewOutput::default() };
        }
    }

    /// Prints the actions that would be taken now and were not printed before.
    pub(crate) fn print_previews(&mut self, now: BootTime) {
        self.preview_output.due = None;
        for index in 0..self.mechanisms.len() {
            let (root, mechanism) = (&self.options.root, self.mechanisms.at(index));
            let name = mechanism.name();
            let mut all = mechanism.child().map_or_else(Vec::new, |child| preview_child(root, child));
            all.extend(mechanism.preview(root));
            for foreseen in all {
                self.preview_output.due = Some(now + PERIOD);
                let is_of_kind = |printed: &(usize, Preview)| printed.0 == index && printed.1.action == foreseen.action;
                let is_same = |printed: &(usize, Preview)| is_of_kind(printed) && printed.1.subject == foreseen.subject;
                if !self.preview_output.printed.iter().any(is_same) {
                    self.preview_output.printed.retain(|printed| !is_of_kind(printed));
                    self.executor.announce(now, name, &foreseen);
                    self.preview_output.printed.push((index, foreseen));
                }
            }
        }
    }
}
