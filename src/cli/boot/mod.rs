//! `brisk boot`: see a boot, be told what would shorten it, and what has changed.

mod chart;
mod compare;
mod diagnose;

use std::path::Path;
use std::process::ExitCode;

use crate::chart::{Boot, read};

/// Arguments of `brisk boot`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Draw a recorded boot
    Chart(chart::Arguments),
    /// Name the phases of a recorded boot and what could be won in each
    Diagnose(diagnose::Arguments),
    /// Say what changed between two boots, or two sets of boots
    Compare(compare::Arguments),
}

/// Runs `brisk boot`.
///
/// # Errors
/// Those of the subcommand.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    match &arguments.command {
        Command::Chart(arguments) => chart::run(arguments),
        Command::Diagnose(arguments) => diagnose::run(arguments),
        Command::Compare(arguments) => compare::run(arguments),
    }
}

/// Reads a recording and says on standard error what had to be left out.
fn open(path: &Path) -> anyhow::Result<Boot> {
    let boot = read::read(path)?;
    for omission in &boot.omissions {
        eprintln!("brisk: {}: {omission}", path.display());
    }
    Ok(boot)
}
