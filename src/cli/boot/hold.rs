//! `brisk boot hold`: sets every governor to performance until the boot has completed.

use std::process::ExitCode;

use tracing::Level;

use super::watch::{UntilArguments, report};
use crate::cli::log;
use brisk_daemon::boot::{Hold, HoldOptions, watch};
use brisk_sys::Root;

/// Arguments of `brisk boot hold`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Each cpufreq policy's governor and tunables are journalled before performance is set. They are restored
when the boot has completed, at the time-out, or by the guardian when this command dies. A governor that
another process sets meanwhile stays. `brisk boot record --help` explains how to start this command, and
when a boot counts as completed.

With cpufreq.default_governor=performance on the kernel's command line (Linux 5.9), the boot runs at full
speed before any program starts; --then names the governor to set afterwards.

Exit code 0 when all governors were restored or none had to be held, 2 after an error.

Examples:
  brisk boot hold
  brisk boot hold --until process:launcher --timeout-s 60
  brisk boot hold --then schedutil")]
pub struct Arguments {
    #[command(flatten)]
    until: UntilArguments,
}

/// Holds the governors, then restores them.
///
/// # Errors
/// When the journal cannot be used.
pub fn run(arguments: &Arguments, root: &Root) -> anyhow::Result<ExitCode> {
    log::start(Level::INFO);
    let hold = Some(Hold { then: arguments.until.then.clone() });
    report(&watch(&HoldOptions { hold, ..arguments.until.options(root) })?, arguments.until.json)
}
