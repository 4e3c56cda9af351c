//! `brisk run`: the daemon, in the foreground.

use std::path::PathBuf;
use std::process::ExitCode;

use tracing::Level;

use super::log;
use crate::device::Root;
use crate::engine::{Engine, Options, Purpose};
use crate::mechanism::list;

/// Arguments of `brisk run`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  brisk run                     with the configuration of /etc/brisk and /usr/lib/brisk
  brisk run --config my.toml    with this file alone
  brisk run --dry-run           print what would be done, and do nothing
  brisk run --record day.jsonl  keep what was observed and decided, for `brisk replay`

SIGTERM or SIGINT restores everything and ends it; SIGHUP reads the configuration again.")]
pub struct Arguments {
    /// Use FILE alone, in place of the configuration's layers
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print the actions that it would take; write nothing
    #[arg(long)]
    pub dry_run: bool,
    /// With --dry-run: one JSON object a line
    #[arg(long, requires = "dry_run")]
    pub json: bool,
    /// Record what it observes and decides in the new file FILE, for `brisk replay`
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Say more on standard error
    #[arg(long, short)]
    pub verbose: bool,
}

/// Runs until SIGTERM or SIGINT.
///
/// # Errors
/// When it cannot start: a configuration that is not right, or a daemon that runs already.
pub fn run(arguments: &Arguments, root: &Root) -> anyhow::Result<ExitCode> {
    log::start(if arguments.verbose { Level::DEBUG } else { Level::INFO });
    let purpose = if arguments.dry_run { Purpose::DryRun { json: arguments.json } } else { Purpose::Daemon };
    let options = Options {
        root: root.clone(),
        config: arguments.config.clone(),
        purpose,
        record: arguments.record.clone(),
        mechanisms: list::all,
    };
    Engine::start(options)?.run()?;
    Ok(ExitCode::SUCCESS)
}
