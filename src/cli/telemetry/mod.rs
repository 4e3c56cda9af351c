//! `brisk telemetry`: what is stored for a fleet.

mod export;
mod forget;
mod show;

use std::process::ExitCode;

use brisk_sys::Root;

/// Arguments of `brisk telemetry`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Show what is stored, and the last rows
    Show(show::Arguments),
    /// Write all rows, for a fleet's data set
    Export(export::Arguments),
    /// Delete all rows and the salt of their hashes
    Forget(forget::Arguments),
}

/// Runs `brisk telemetry`.
///
/// # Errors
/// Those of the subcommand.
pub fn run(arguments: &Arguments, root: &Root) -> anyhow::Result<ExitCode> {
    match &arguments.command {
        Command::Show(arguments) => show::run(arguments, root),
        Command::Export(arguments) => export::run(arguments, root),
        Command::Forget(arguments) => forget::run(arguments, root),
    }
}
