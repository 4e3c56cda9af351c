//! What this device offers to placement, and whether a daemon would have it on.

use super::{PlacementConfig, by_itself, probe};
use crate::{Support, SupportState};
use brisk_sys::Root;

/// Whether a daemon under `config` would have it on here, where `doers` set priorities as well, and why.
pub fn decision(root: &Root, config: &PlacementConfig, doers: Option<&str>) -> (bool, String) {
    by_itself::decision(root, config, doers, by_itself::Asker::Person)
}

/// What this device offers to the placement mechanism under `config`, where `doers` set priorities as well, and whether the
/// daemon does it now (`running`).
pub fn support(root: &Root, config: &PlacementConfig, running: bool, doers: Option<&str>) -> Support {
    let support = probe::support(root, config, &probe::machine(root), &decision(root, config, doers));
    if support.state != SupportState::Active || running {
        return support;
    }
    Support { state: SupportState::Available, advice: "Start the daemon: brisk daemon.".to_owned(), ..support }
}
