//! `brisk guardian`: the process that outlives the daemon. The daemon starts it.

use std::path::PathBuf;
use std::process::ExitCode;

use brisk_sys::Root;
use brisk_undo::guardian;
use brisk_undo::journal::Holder;

/// Arguments of `brisk guardian`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Whose journal it is
    #[arg(long, value_name = "HOLDER", value_parser = Holder::of_name)]
    pub journal: Holder,
    /// The folder of the daemon's journal
    #[arg(long, value_name = "FOLDER")]
    pub folder: PathBuf,
    /// The daemon's process id
    #[arg(long, value_name = "PID")]
    pub daemon: u32,
}

/// Watches until the daemon has died and its changes are undone.
///
/// # Errors
/// When the journal cannot be used or something could not be put back.
pub fn run(arguments: &Arguments, root: &Root) -> anyhow::Result<ExitCode> {
    guardian::guard(arguments.journal, &arguments.folder, root, arguments.daemon)?;
    Ok(ExitCode::SUCCESS)
}
