//! `brisk memory`: settings of zram and reclaim for this device, the headroom, and the history of kills.

mod apply;
mod kills;
mod plan;
mod status;

use std::process::ExitCode;

use brisk_sys::Root;

/// Arguments of `brisk memory`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Show suitable settings of zram and reclaim, with reasons
    Plan(plan::Arguments),
    /// Apply the plan until this command is stopped
    Apply(apply::Arguments),
    /// Show the history of kills: process, reason, memory returned
    // `explain` was its name until version 0.2.
    #[command(alias = "explain")]
    Kills(kills::Arguments),
    /// Show headroom, zram efficiency, and the next kill candidates
    Status(status::Arguments),
}

/// Runs `brisk memory`.
///
/// # Errors
/// Those of the subcommand.
pub fn run(arguments: &Arguments, root: &Root) -> anyhow::Result<ExitCode> {
    match &arguments.command {
        Command::Plan(arguments) => plan::run(arguments, root),
        Command::Apply(arguments) => apply::run(arguments, root),
        Command::Kills(arguments) => kills::run(arguments, root),
        Command::Status(arguments) => status::run(arguments, root),
    }
}
