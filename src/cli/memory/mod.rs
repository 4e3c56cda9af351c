//! `brisk memory`: what zram and reclaim should be on this device, and how much memory is left.

mod apply;
mod explain;
mod plan;
mod status;

use std::process::ExitCode;

use crate::device::Root;

/// Arguments of `brisk memory`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Say what would be set for zram and reclaim on this device, and why; nothing is written
    Plan(plan::Arguments),
    /// Carry the plan out, until this command is stopped
    Apply(apply::Arguments),
    /// Say who was killed, why, and what that returned
    Explain(explain::Arguments),
    /// Say how much memory can still be had, what zram makes of it, and who would go first and why
    Status(status::Arguments),
}

/// Runs `brisk memory`.
///
/// # Errors
/// Those of the subcommand.
pub fn run(arguments: &Arguments, root: &Root) -> anyhow::Result<ExitCode> {
    match &arguments.command {
        Command::Plan(arguments) => plan::run(arguments, root),
        Command::Apply(arguments) => apply::run(arguments, root),
        Command::Explain(arguments) => explain::run(arguments, root),
        Command::Status(arguments) => status::run(arguments, root),
    }
}
