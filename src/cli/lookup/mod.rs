//! `brisk lookup`: service look-ups through binder, and the cache inside the driver that answers them.

mod bench;
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
    /// Measure what a look-up takes, step by step
    Bench(bench::Arguments),
    /// Say how many look-ups caches of different policies and sizes would answer
    Simulate(simulate::Arguments),
}

/// Runs `brisk lookup`.
///
/// # Errors
/// Those of the subcommand.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    match &arguments.command {
        Command::Bench(arguments) => bench::run(arguments),
        Command::Simulate(arguments) => simulate::run(arguments),
    }
}
