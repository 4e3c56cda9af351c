//! `brisk guardian`: the process that reverts the daemon's changes when the daemon dies. Started by the daemon.

use std::path::PathBuf;
use std::process::ExitCode;

use brisk_sys::Root;
use brisk_undo::guardian;
use brisk_undo::journal::Holder;

/// Arguments of `brisk guardian`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The journal's holder
    #[arg(long, value_name = "HOLDER", value_parser = Holder::of_name)]
    pub journal: Holder,
    /// The folder of the daemon's journal
    #[arg(long, value_name = "FOLDER")]
    pub folder: PathBuf,
    /// The daemon's process id
    #[arg(long, value_name = "PID")]
    pub daemon: u32,
}

/// Runs until the daemon has died and its changes are reverted.
///
/// # Errors
/// When the journal cannot be used or a value could not be restored.
pub fn run(arguments: &Arguments, root: &Root) -> anyhow::Result<ExitCode> {
    guardian::guard(arguments.journal, &arguments.folder, root, arguments.daemon)?;
    Ok(ExitCode::SUCCESS)
}
