//! `brisk daemon`: the daemon, in the foreground.

use std::path::PathBuf;
use std::process::ExitCode;

use tracing::Level;

use crate::cli::log;
use brisk_daemon::{Engine, Options, Purpose};
use brisk_mechanism::list;
use brisk_sys::Root;

/// Arguments of `brisk daemon`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  brisk daemon                     with the configuration of /etc and /usr/lib
  brisk daemon --config my.toml    with this file alone
  brisk daemon --dry-run           print what it would do; write nothing
  brisk daemon --record day.jsonl  record events and decisions for a replay

On SIGTERM or SIGINT the daemon reverts all changes and exits. On SIGHUP it reads the configuration again.")]
pub struct Arguments {
    /// Use only FILE, instead of the configuration's layers
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print the actions that the daemon would take; write nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Print one JSON object a line, with --dry-run
    #[arg(long, requires = "dry_run")]
    pub json: bool,
    /// Record events and decisions in the new file FILE, for `brisk replay`
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Print debug messages on standard error
    #[arg(long, short)]
    pub verbose: bool,
}

/// Runs until SIGTERM or SIGINT.
///
/// # Errors
/// When it cannot start: an invalid configuration, or a daemon that is already running.
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
