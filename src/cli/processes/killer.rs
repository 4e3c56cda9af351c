//! `brisk killer`: kills processes when memory is short. Started by the daemon.

use std::process::ExitCode;

use anyhow::Context;

use crate::cli::log;
use brisk_daemon::killer;
use brisk_mechanism::memory::config::KillerConfig;
use brisk_sys::Root;

/// Arguments of `brisk killer`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The section [memory.killer] as JSON
    #[arg(long, value_name = "JSON")]
    settings: String,
    /// The daemon manages zram's writeback limit
    #[arg(long)]
    limits: bool,
    /// memory.zram.backing_device names a device
    #[arg(long)]
    names_backing: bool,
}

/// Runs until standard input ends.
///
/// # Errors
/// When the settings are invalid or memory pressure cannot be monitored.
pub fn run(arguments: &Arguments, root: &Root) -> anyhow::Result<ExitCode> {
    log::start(tracing::Level::INFO);
    let config: KillerConfig =
        serde_json::from_slice(arguments.settings.as_bytes()).context("--settings is not a [memory.killer] section")?;
    let prepared = killer::WritebackSetup { limits: arguments.limits, names_backing: arguments.names_backing };
    killer::run(root, &config, prepared)?;
    Ok(ExitCode::SUCCESS)
}
