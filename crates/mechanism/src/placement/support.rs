//! What this device offers to placement, and whether a daemon would enable it.

use super::{PlacementConfig, automatic, probe};
use crate::{Support, SupportState};
use brisk_sys::Root;

/// Whether a daemon with `config` would enable placement here, beside the managers `managers`, and why.
pub fn decision(root: &Root, config: &PlacementConfig, managers: Option<&str>) -> (bool, String) {
    automatic::decision(root, config, managers, automatic::Caller::CommandLine)
}

/// What this device offers to the placement mechanism under `config`, beside the managers `managers`, and whether the daemon uses
/// it now (`running`).
pub fn support(root: &Root, config: &PlacementConfig, running: bool, managers: Option<&str>) -> Support {
    let support = probe::support(root, config, &probe::machine(root), &decision(root, config, managers));
    if support.state != SupportState::Active || running {
        return support;
    }
    Support { state: SupportState::Available, advice: "Start the daemon: brisk daemon.".to_owned(), ..support }
}
