//! `brisk fleet`: the telemetry of many devices.

mod import;
mod report;
mod simulate;
mod sql;

use std::process::ExitCode;

/// Arguments of `brisk fleet`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Bring exports of telemetry into a data set of Parquet files
    Import(import::Arguments),
    /// Answer the questions about a data set, as a page
    Report(report::Arguments),
    /// Print the questions as a script for DuckDB or Spark
    Sql(sql::Arguments),
    /// Make a data set of simulated devices
    Simulate(simulate::Arguments),
}

/// Runs `brisk fleet`.
///
/// # Errors
/// Those of the subcommand.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    match &arguments.command {
        Command::Import(arguments) => import::run(arguments),
        Command::Report(arguments) => report::run(arguments),
        Command::Sql(arguments) => sql::run(arguments),
        Command::Simulate(arguments) => simulate::run(arguments),
    }
}
