//! `brisk killer`: ends processes when memory is short. The daemon starts it.

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
    /// The kernel's limit of what zram writes back is the daemon's
    #[arg(long)]
    limits: bool,
    /// memory.zram.backing_device names a device
    #[arg(long)]
    names_backing: bool,
}

/// Watches memory until standard input ends.
///
/// # Errors
/// When the settings are not right or memory cannot be watched.
pub fn run(arguments: &Arguments, root: &Root) -> anyhow::Result<ExitCode> {
    log::start(tracing::Level::INFO);
    let config: KillerConfig =
        serde_json::from_slice(arguments.settings.as_bytes()).context("--settings is not a [memory.killer] section")?;
    let prepared = killer::Prepared { limits: arguments.limits, names_backing: arguments.names_backing };
    killer::run(root, &config, prepared)?;
    Ok(ExitCode::SUCCESS)
}
