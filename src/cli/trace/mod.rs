//! `brisk trace`: where the time of a launch or a stall went.

#[cfg(feature = "trace")]
mod compare;
#[cfg(feature = "trace")]
mod convert;
#[cfg(feature = "trace")]
pub mod diagnose;
#[cfg(feature = "trace")]
mod explain;
mod record;

use std::process::ExitCode;

use brisk_sys::Root;

/// Arguments of `brisk trace`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Record on this device what explanations need
    Record(record::Arguments),
    /// Split the time of a process or thread into its causes
    #[cfg(feature = "trace")]
    Explain(explain::Arguments),
    /// Compare the same launch in two traces
    #[cfg(feature = "trace")]
    Compare(compare::Arguments),
    /// Write a trace as Perfetto's, for ui.perfetto.dev
    #[cfg(feature = "trace")]
    Convert(convert::Arguments),
}

/// Runs `brisk trace`.
///
/// # Errors
/// Those of the subcommand.
pub fn run(arguments: &Arguments, root: &Root) -> anyhow::Result<ExitCode> {
    match &arguments.command {
        Command::Record(arguments) => record::run(arguments, root),
        #[cfg(feature = "trace")]
        Command::Explain(arguments) => explain::run(arguments),
        #[cfg(feature = "trace")]
        Command::Compare(arguments) => compare::run(arguments),
        #[cfg(feature = "trace")]
        Command::Convert(arguments) => convert::run(arguments),
    }
}
