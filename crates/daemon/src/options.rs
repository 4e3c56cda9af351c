//! How the daemon is started.

use std::path::PathBuf;

use brisk_config::{ConfigError, Layers};
use brisk_mechanism::Mechanism;
use brisk_sys::Root;

/// How the daemon runs.
#[derive(Debug, Clone)]
pub struct Options {
    /// The device.
    pub root: Root,
    /// This file alone instead of the layers.
    pub config: Option<PathBuf>,
    /// What it is for.
    pub purpose: Purpose,
    /// Where what its mechanisms are told and decide is recorded.
    pub record: Option<PathBuf>,
    /// Makes the mechanisms that it drives.
    pub mechanisms: fn() -> Vec<Box<dyn Mechanism>>,
}

/// What an engine is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To serve until it is told to stop.
    Daemon,
    /// To print decisions and write nothing.
    DryRun {
        /// As JSON lines instead of sentences.
        json: bool,
    },
    /// To help one announced launch, without a control socket and deaf to all others.
    OneLaunch,
}

impl Options {
    pub(super) fn read_config(&self) -> Result<Layers, ConfigError> {
        let mut layers = match &self.config {
            Some(file) => Layers::read_only(file)?,
            None => Layers::read(&self.root)?,
        };
        if self.purpose == Purpose::OneLaunch {
            layers.config = layers.config.for_one_launch();
        }
        Ok(layers)
    }
}
