//! What a dry run prints, and decisions in words.

use std::fmt;
use std::io::Write;

use brisk_mechanism::{Action, Decision};
use brisk_sys::BootTime;

use super::Executed;

/// What a dry run is printed to.
pub struct Output(Box<dyn Write>);

impl Output {
    /// Prints to `writer`.
    pub fn to(writer: impl Write + 'static) -> Self {
        Self(Box::new(writer))
    }

    /// Prints one line.
    pub(super) fn print(&mut self, line: &str) {
        // A reader that has gone is no reason to stop deciding.
        let _ = writeln!(self.0, "{line}");
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Output")
    }
}

/// What a dry run prints of a decision.
pub(super) fn line(json: bool, now: BootTime, mechanism: &str, decision: &Decision) -> String {
    if json {
        let executed = Executed { at: now, mechanism: mechanism.to_owned(), decision: decision.clone(), error: None };
        serde_json::to_string(&executed).unwrap_or_default()
    } else {
        format!("{mechanism}: would {}: {}", describe(&decision.action), decision.reason)
    }
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
