//! What this device supports: zram that can be set up, tunables that brisk would set, or nothing; and what is already applied.

use super::config::ZramPlan;
use super::plan::{MemoryPlan, SettingOutcome};
use super::probe::MemoryDevice;
use super::zram_availability::ZramAvailability;
use crate::{Support, SupportState};
use brisk_sys::Root;
use brisk_undo::journal::{Holder, JournalState};

/// What the device supports, and what `brisk memory apply` has applied. The daemon reports its own changes.
pub fn support(root: &Root, facts: &MemoryDevice) -> Support {
    // `brisk doctor` reports an unreadable journal as a separate fault.
    let held = JournalState::of(&Holder::Memory.folder(root)).ok().and_then(|state| applied(&state));
    held.unwrap_or_else(|| of_facts(facts))
}

/// What the journal of `brisk memory apply` shows; `None` when it holds nothing.
fn applied(journal: &JournalState) -> Option<Support> {
    let (reason, advice) = match journal {
        JournalState::InUse { held: 1.., pid } => {
            let process = pid.map(|pid| format!(" (process {pid})")).unwrap_or_default();
            (format!("`brisk memory apply`{process} holds its settings"), "")
        }
        JournalState::LeftBehind { held: 1.. } => {
            ("the settings of `brisk memory apply` are kept".to_owned(), "`brisk restore` reverts them.")
        }
        _ => return None,
    };
    Some(Support { state: SupportState::Active, reason, advice: advice.to_owned() })
}

fn of_facts(facts: &MemoryDevice) -> Support {
    let plan = MemoryPlan::of(facts, ZramPlan::Brisk);
    let place = ZramAvailability::of(facts);
    let changes: Vec<String> = plan
        .changes()
        .filter(|setting| setting.name != "zram device")
        .map(|setting| format!("{} {}", setting.name, setting.planned.as_deref().unwrap_or_default()))
        .collect();
    if changes.is_empty() && !place.has_zram() {
        return Support { state: SupportState::Unsupported, reason: place.reason(), advice: String::new() };
    }
    let is_owned = plan.setting("zram device").is_some_and(|device| device.outcome == SettingOutcome::LeaveAlone);
    let then = match (changes.is_empty(), is_owned) {
        (true, true) => "the rest is set as brisk would set it".to_owned(),
        (true, false) => "everything is set as brisk would set it".to_owned(),
        (false, _) => format!("brisk would set {}", changes.join(", ")),
    };
    Support {
        state: SupportState::Available,
        reason: format!("{}; {then}", place.reason()),
        advice: "`brisk memory plan` gives each setting's reason, `brisk memory apply` sets them.".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Verifies ON-4.
    #[test]
    fn applied_settings_are_active() {
        for (journal, expected) in [
            (JournalState::Empty, None),
            (JournalState::InUse { pid: Some(7), held: 0 }, None),
            (JournalState::Damaged { malformed_lines: 2 }, None),
            (JournalState::InUse { pid: Some(7), held: 3 }, Some(("(process 7) holds", ""))),
            (JournalState::InUse { pid: None, held: 3 }, Some(("apply` holds", ""))),
            (JournalState::LeftBehind { held: 3 }, Some(("are kept", "`brisk restore`"))),
        ] {
            let found = applied(&journal);
            assert_eq!(found.is_some(), expected.is_some(), "{journal:?}");
            let Some((support, (reason, advice))) = found.zip(expected) else { continue };
            assert_eq!(support.state, SupportState::Active);
            assert!(support.reason.contains(reason) && support.advice.starts_with(advice), "{support:?}");
        }
    }
}
