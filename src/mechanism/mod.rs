//! The five mechanisms and what they share: events in, decisions with reasons out, and what became of each back in.
//!
//! A mechanism's `policy.rs` is pure: it takes events and the time, and returns [`Decision`]s. It does no I/O, reads
//! no clock and keeps no globals, so that unit tests are tables, recordings replay and `--dry-run` is free.

pub mod action;
pub mod boot;
pub mod event;
pub mod glob;
pub mod holdings;
pub mod interest;
pub mod launch;
pub mod lookup;
pub mod memory;
pub mod outcome;
pub mod placement;
mod recency;
#[cfg(test)]
mod simulated;
pub mod support;

pub use action::{Action, Decision, Target};
pub use event::{Event, Process, ProcessEvent, ProcessEventKind};
pub use glob::Glob;
pub use holdings::{Demands, Holdings};
pub use interest::{Interest, ProcessEventKinds, ProcessFacts};
pub use outcome::{Effect, Outcome};
pub use support::{Support, SupportState};

use crate::device::BootTime;

/// A mechanism as the engine sees it.
pub trait Mechanism {
    /// Its name on the command line, in the configuration and in reports: one lower-case word.
    fn name(&self) -> &'static str;

    /// What this device offers to it, and what to do about the rest.
    fn support(&self) -> &Support;

    /// Takes one event at the time `now` and appends what should be done about it.
    fn on_event(&mut self, now: BootTime, event: &Event, decisions: &mut Vec<Decision>);

    /// Takes what became of its decisions, one outcome for each in their order, and later of leases that ended by
    /// themselves; appends what should be done about that. Until then it knows only what it has asked for.
    fn on_outcomes(&mut self, now: BootTime, outcomes: &[Outcome], decisions: &mut Vec<Decision>);

    /// What it wants to hear now.
    fn interest(&self) -> Interest {
        Interest::default()
    }

    /// True when it has no use for an event of `kind` about `pid` at `now`, although it asked for that kind: then nobody
    /// looks the process up for it.
    fn ignores(&self, now: BootTime, kind: ProcessEventKind, pid: u32) -> bool {
        let _ = (now, kind, pid);
        false
    }

    /// The processes whose end it wants to hear, whatever [`Mechanism::interest`] says.
    fn awaited_exits(&self) -> &[u32] {
        &[]
    }

    /// When it wants an [`Event::Deadline`], if nothing happens before.
    fn deadline(&self) -> Option<BootTime>;

    /// What it does now, in one sentence for `brisk status`, and since when; `None` while it does nothing.
    fn activity(&self) -> Option<(BootTime, String)>;
}
