//! `brisk trace`: where the time of a launch or a stall went.

mod explain;

use std::process::ExitCode;

/// Arguments of `brisk trace`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Split the time of a process or thread into its causes
    Explain(explain::Arguments),
}

/// Runs `brisk trace`.
///
/// # Errors
/// Those of the subcommand.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    match &arguments.command {
        Command::Explain(arguments) => explain::run(arguments),
    }
}
