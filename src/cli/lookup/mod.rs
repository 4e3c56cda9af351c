//! `brisk lookup`: service look-ups through binder, and the cache inside the driver that answers them.

mod simulate;

use std::process::ExitCode;

/// Arguments of `brisk lookup`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Say how many look-ups caches of different policies and sizes would answer
    Simulate(simulate::Arguments),
}

/// Runs `brisk lookup`.
///
/// # Errors
/// Those of the subcommand.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    match &arguments.command {
        Command::Simulate(arguments) => simulate::run(arguments),
    }
}
