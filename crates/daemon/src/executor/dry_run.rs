//! The output of a dry run, and descriptions of actions.

use std::fmt;
use std::io::Write;

use brisk_mechanism::{Action, Decision};
use brisk_sys::BootTime;

use super::Executed;

/// The output of a dry run.
pub struct Output(Box<dyn Write>);

impl Output {
    /// Prints to `writer`.
    pub fn to(writer: impl Write + 'static) -> Self {
        Self(Box::new(writer))
    }

    /// Prints one line.
    pub(super) fn print(&mut self, line: &str) {
        // A reader that has exited must not stop the daemon.
        let _ = writeln!(self.0, "{line}");
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Output")
    }
}

/// The line that a dry run prints for a decision.
pub(super) fn line(json: bool, now: BootTime, mechanism: &str, decision: &Decision) -> String {
    if json {
        let executed = Executed { at: now, mechanism: mechanism.to_owned(), decision: decision.clone(), error: None };
        serde_json::to_string(&executed).unwrap_or_default()
    } else {
        format!("{mechanism}: would {}: {}", describe(&decision.action), decision.reason)
    }
}

/// Describes an action, to follow "would" or a time.
pub fn describe(action: &Action) -> String {
    match action {
        Action::Lease { target, value, .. } => format!("lease {target} at {}", target.with_unit(value)),
        Action::Release { target } => format!("restore {target}"),
        Action::Disinherit { target, original, .. } => {
            format!("set {target} to {original} in place of an inherited value")
        }
        Action::Rewrite { target } => format!("write {target} again, unchanged"),
        Action::Pulse { target, value } => format!("write {value} to {target}"),
    }
}
