//! Reports a boot that has not completed: another process, `brisk boot hold`, holds the governors by a journal of its own. The
//! daemon only reports that and decides nothing.

use crate::{Decision, Event, Outcome, Policy, Support, SupportState};
use brisk_sys::BootTime;
use brisk_undo::journal::JournalState;

/// The mechanism's name.
pub const NAME: &str = "boot";

/// The boot mechanism, as far as it concerns the daemon.
#[derive(Debug, Default)]
pub struct BootWatch {
    support: Support,
    /// Since when the daemon has seen a boot being held.
    since: Option<BootTime>,
}

/// What the journal of `brisk boot hold` shows, and whether that process is alive; `None` when nothing is held.
fn held_state(journal: &JournalState) -> Option<(Support, bool)> {
    let (state, reason, advice, is_alive) = match journal {
        JournalState::InUse { held: held @ 1.., pid } => {
            let process = pid.map(|pid| format!(" (process {pid})")).unwrap_or_default();
            let reason = format!("`brisk boot hold`{process} holds {held} governors until the boot has completed");
            (SupportState::Active, reason, "", true)
        }
        JournalState::LeftBehind { held: held @ 1.. } => {
            let reason = format!("`brisk boot hold` has exited and has left {held} governors held");
            (SupportState::Available, reason, "`brisk restore` restores them.", false)
        }
        _ => return None,
    };
    Some((Support { state, reason, advice: advice.to_owned() }, is_alive))
}

impl BootWatch {
    /// Takes the journal of `brisk boot hold`, where it can be read, and what the device offers.
    pub(super) fn take_device(&mut self, now: BootTime, journal: Option<&JournalState>, device_support: Support) {
        let held = journal.and_then(held_state);
        let is_held = held.as_ref().is_some_and(|(_, is_alive)| *is_alive);
        self.since = self.since.filter(|_| is_held).or(is_held.then_some(now));
        self.support = held.map_or(device_support, |(support, _)| support);
    }
}

impl Policy for BootWatch {
    fn name(&self) -> &'static str {
        NAME
    }

    fn support(&self) -> &Support {
        &self.support
    }

    fn on_event(&mut self, _now: BootTime, _event: &Event, _decisions: &mut Vec<Decision>) {}

    fn on_outcomes(&mut self, _now: BootTime, _outcomes: &[Outcome], _decisions: &mut Vec<Decision>) {}

    fn deadline(&self) -> Option<BootTime> {
        None
    }

    fn activity(&self) -> Option<(BootTime, String)> {
        self.since.map(|since| (since, self.support.reason.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Verifies ON-4.
    #[test]
    fn a_held_boot_is_reported_until_it_has_completed() {
        for (journal, expected) in [
            (JournalState::Empty, None),
            (JournalState::InUse { pid: Some(7), held: 0 }, None),
            (JournalState::Damaged { malformed_lines: 1 }, None),
            (JournalState::InUse { pid: Some(7), held: 2 }, Some(("(process 7) holds 2 governors", true))),
            (JournalState::LeftBehind { held: 1 }, Some(("has left 1 governors held", false))),
        ] {
            let found = held_state(&journal);
            assert_eq!(found.is_some(), expected.is_some(), "{journal:?}");
            if let Some(((support, is_alive), (reason, expected_alive))) = found.zip(expected) {
                assert!(support.reason.contains(reason) && is_alive == expected_alive, "{support:?}");
                assert_eq!(support.state == SupportState::Active, is_alive);
            }
        }
    }
}
