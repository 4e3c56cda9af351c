//! `brisk lookup`: service lookups through binder, and the cache inside the driver that answers them.

mod bench;
pub mod context;
mod probe;
mod profile;
mod record;
#[cfg(feature = "lab")]
mod simulate;
mod status;

use std::process::ExitCode;

use crate::device::Root;

/// Arguments of `brisk lookup`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Measure what a lookup takes, step by step
    Bench(bench::Arguments),
    /// Say which services are looked up how often
    Record(record::Arguments),
    /// Say what the cache inside the driver does: hits, misses, refusals, entries
    Status(status::Arguments),
    /// Print the wire format of a context manager as the driver's cache reads it
    Profile(profile::Arguments),
    /// Say how many lookups caches of different policies and sizes would answer
    #[cfg(feature = "lab")]
    Simulate(simulate::Arguments),
}

/// Runs `brisk lookup`.
///
/// # Errors
/// Those of the subcommand.
pub fn run(arguments: &Arguments, root: &Root) -> anyhow::Result<ExitCode> {
    match &arguments.command {
        Command::Bench(arguments) => bench::run(arguments, root),
        Command::Record(arguments) => record::run(arguments, root),
        Command::Status(arguments) => status::run(arguments, root),
        Command::Profile(arguments) => profile::run(arguments),
        #[cfg(feature = "lab")]
        Command::Simulate(arguments) => simulate::run(arguments),
    }
}
