//! What this device offers to the launch mechanism.

use super::{LaunchConfig, LaunchDevice, LaunchPlan};
use crate::{Support, SupportState};
use brisk_sys::Root;

/// What this device offers to the launch mechanism under `config`, and whether the daemon uses it now (`running`).
pub fn support(root: &Root, config: &LaunchConfig, running: bool) -> Support {
    let support = LaunchPlan::of(&LaunchDevice::probe_for(root, config), config).support;
    if support.state != SupportState::Active || running {
        return support;
    }
    let advice = ["Start the daemon: brisk daemon.", &support.advice].join(" ").trim_end().to_owned();
    Support { state: SupportState::Available, advice, ..support }
}
