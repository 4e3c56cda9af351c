//! `brisk boot`: record, chart, diagnose and compare boots, boot at full speed, and plan parallel preloading.

#[cfg(feature = "chart")]
mod chart;
#[cfg(feature = "chart")]
mod compare;
#[cfg(feature = "chart")]
mod diagnose;
mod hold;
#[cfg(feature = "chart")]
mod plan;
mod record;
mod watch;

#[cfg(feature = "chart")]
use std::path::Path;
use std::process::ExitCode;

#[cfg(feature = "chart")]
use brisk_chart::{Boot, read};
use brisk_sys::Root;

/// Arguments of `brisk boot`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Record this boot until it has completed
    Record(record::Arguments),
    /// Hold every governor at performance until this boot has completed
    Hold(hold::Arguments),
    /// Draw a recorded boot
    #[cfg(feature = "chart")]
    Chart(chart::Arguments),
    /// Name the phases of a recorded boot and the possible gain in each
    #[cfg(feature = "chart")]
    Diagnose(diagnose::Arguments),
    /// Compare two boots, or two sets of boots
    #[cfg(feature = "chart")]
    Compare(compare::Arguments),
    /// Plan which classes Android's zygote can preload in parallel
    #[cfg(feature = "chart")]
    Plan(plan::Arguments),
}

/// Runs `brisk boot`.
///
/// # Errors
/// Those of the subcommand.
pub fn run(arguments: &Arguments, root: &Root) -> anyhow::Result<ExitCode> {
    match &arguments.command {
        Command::Record(arguments) => record::run(arguments, root),
        Command::Hold(arguments) => hold::run(arguments, root),
        #[cfg(feature = "chart")]
        Command::Chart(arguments) => chart::run(arguments),
        #[cfg(feature = "chart")]
        Command::Diagnose(arguments) => diagnose::run(arguments),
        #[cfg(feature = "chart")]
        Command::Compare(arguments) => compare::run(arguments),
        #[cfg(feature = "chart")]
        Command::Plan(arguments) => plan::run(arguments),
    }
}

/// Reads a recording and reports omissions on standard error.
#[cfg(feature = "chart")]
fn open(path: &Path) -> anyhow::Result<Boot> {
    let boot = read::read(path)?;
    for omission in &boot.omissions {
        eprintln!("brisk: {}: {omission}", read::readable(&path.to_string_lossy()));
    }
    Ok(boot)
}
