//! `brisk lookup`: service lookups through binder, and the driver's cache of their answers.

mod bench;
pub mod context;
mod probe;
mod profile;
mod record;
#[cfg(feature = "lab")]
mod simulate;
mod status;

use std::process::ExitCode;

use brisk_sys::Root;

/// Arguments of `brisk lookup`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Measure the cost of a lookup, step by step
    Bench(bench::Arguments),
    /// Record which services are looked up, and how often
    Record(record::Arguments),
    /// Show the driver's cache: hits, misses, refusals, entries
    Status(status::Arguments),
    /// Print a context manager's wire format for the driver's cache
    Profile(profile::Arguments),
    /// Simulate caches of several policies and sizes
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
