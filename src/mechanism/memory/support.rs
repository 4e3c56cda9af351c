//! What this device offers: zram that could be set up, tunables that would be set, or nothing.

use super::config::Arm;
use super::place::Place;
use super::plan::{Outcome, Plan};
use super::probe::DeviceFacts;
use crate::device::Root;
use crate::mechanism::{Support, SupportState};

/// What this device offers to the memory mechanism.
pub fn support(root: &Root) -> Support {
    of_facts(&DeviceFacts::probe(root))
}

fn of_facts(facts: &DeviceFacts) -> Support {
    let plan = Plan::of(facts, Arm::Brisk);
    let place = Place::of(facts);
    let changes: Vec<String> = plan
        .changes()
        .filter(|setting| setting.name != "zram device")
        .map(|setting| format!("{} {}", setting.name, setting.planned.as_deref().unwrap_or_default()))
        .collect();
    if changes.is_empty() && !place.has_zram() {
        return Support { state: SupportState::Unsupported, reason: place.reason(), advice: String::new() };
    }
    let is_owned = plan.setting("zram device").is_some_and(|device| device.outcome == Outcome::LeaveAlone);
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
