//! What this device supports: zram that can be set up, tunables that brisk would set, or nothing; and what is already applied.

use super::config::ZramConfig;
use super::plan::{MemoryPlan, SettingOutcome};
use super::probe::MemoryDevice;
use super::zram_availability::ZramAvailability;
use crate::{Support, SupportState};
use brisk_sys::Root;
use brisk_undo::journal::{Holder, JournalState};

/// What the device supports under `config`, and what `brisk memory apply` has applied. The daemon reports its own changes.
pub fn support(root: &Root, facts: &MemoryDevice, config: &ZramConfig) -> Support {
    // `brisk doctor` reports an unreadable journal as a separate fault.
    let held = JournalState::of(&Holder::Memory.folder(root)).ok().and_then(|state| applied(&state));
    held.unwrap_or_else(|| of_facts(facts, config))
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

fn of_facts(facts: &MemoryDevice, config: &ZramConfig) -> Support {
    let plan = MemoryPlan::from_config(facts, config);
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
    let then = match (plan.refusal(), changes.is_empty(), is_owned) {
        (Some(refusal), ..) => refusal.to_owned(),
        (None, true, true) => "the rest is set as planned".to_owned(),
        (None, true, false) => "everything is set as planned".to_owned(),
        (None, false, _) => format!("`brisk memory apply` would set {}", changes.join(", ")),
    };
    Support {
        state: SupportState::Available,
        reason: format!("{}; {then}", place.reason()),
        advice: "`brisk memory plan` gives each setting's reason.".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::ZramPlan;
    use super::super::plan::tests::phone;
    use super::*;

    // Verifies MEMORY-2.
    #[test]
    fn the_settings_are_those_of_the_configuration() {
        for (config, said) in [
            (ZramConfig::default(), "`brisk memory apply` would set zram algorithm lz4"),
            (ZramConfig { size_kib: 65_536, ..ZramConfig::default() }, "zram size 65536 KiB"),
            (ZramConfig { plan: ZramPlan::Paper, ..ZramConfig::default() }, "would set zram algorithm lzo, "),
            (
                ZramConfig { algorithm: "nosuch".to_owned(), ..ZramConfig::default() },
                "not in use; memory.zram.algorithm \"nosuch\" is not offered by zram0",
            ),
        ] {
            let support = of_facts(&phone(), &config);
            assert!(support.reason.contains(said), "{said}: {support:?}");
        }
    }

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
