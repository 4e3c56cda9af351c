//! `brisk telemetry forget`: deletes the store.

use std::io::Write;
use std::process::ExitCode;

use brisk_sys::Root;
use brisk_telemetry::{folder, forget};

/// Arguments of `brisk telemetry forget`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A daemon with telemetry.enabled = true begins a new store, with other hashes.

Exit code 0 when the store was deleted, 1 when there was none.

Examples:
  sudo brisk telemetry forget")]
pub struct Arguments {}

/// Deletes the store.
///
/// # Errors
/// When a file cannot be deleted, or standard output cannot be written.
pub fn run(_arguments: &Arguments, root: &Root) -> anyhow::Result<ExitCode> {
    let is_deleted = forget(root)?;
    let folder = folder(root);
    let mut stdout = anstream::stdout();
    match is_deleted {
        true => writeln!(stdout, "{} is deleted", folder.display())?,
        false => writeln!(stdout, "{} does not exist: nothing was stored", folder.display())?,
    }
    Ok(ExitCode::from(u8::from(!is_deleted)))
}
