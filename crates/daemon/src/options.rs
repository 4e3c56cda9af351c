//! The daemon's start options.

use std::path::PathBuf;

use brisk_config::{ConfigError, Layers};
use brisk_mechanism::Mechanism;
use brisk_sys::Root;

/// The daemon's options.
#[derive(Debug, Clone)]
pub struct Options {
    /// The device.
    pub root: Root,
    /// Only this file instead of the layers.
    pub config: Option<PathBuf>,
    /// Its purpose.
    pub purpose: Purpose,
    /// The file of the recording, if any.
    pub record: Option<PathBuf>,
    /// Creates the mechanisms that it drives.
    pub mechanisms: fn() -> Vec<Box<dyn Mechanism>>,
}

/// The purpose of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Runs until it is stopped.
    Daemon,
    /// Prints decisions and writes nothing.
    DryRun {
        /// JSON lines instead of sentences.
        json: bool,
    },
    /// Boosts one announced launch, without a control socket, and ignores all other launches.
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
