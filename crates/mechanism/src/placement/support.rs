//! What this device offers to placement, and whether a daemon would enable it.

use super::{PlacementConfig, automatic, probe};
use crate::{Support, SupportState};
use brisk_sys::Root;

/// Whether a daemon with `config` would enable placement here, beside the managers `doers`, and why.
pub fn decision(root: &Root, config: &PlacementConfig, doers: Option<&str>) -> (bool, String) {
    automatic::decision(root, config, doers, automatic::Asker::Person)
}

/// What this device offers to the placement mechanism under `config`, beside the managers `doers`, and whether the daemon uses
/// it now (`running`).
pub fn support(root: &Root, config: &PlacementConfig, running: bool, doers: Option<&str>) -> Support {
    let support = probe::support(root, config, &probe::machine(root), &decision(root, config, doers));
    if support.state != SupportState::Active || running {
        return support;
    }
    Support { state: SupportState::Available, advice: "Start the daemon: brisk daemon.".to_owned(), ..support }
}
