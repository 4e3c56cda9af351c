//! `brisk telemetry export`: all rows, for a fleet's data set.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;

use brisk_base::notes::note;
use brisk_sys::time::wall_s;
use brisk_sys::{Root, durable_file};
use brisk_telemetry::export::export;

/// Arguments of `brisk telemetry export`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The export is JSON Lines: a header, the rows, and a trailer with a checksum. The
rows stay stored. docs/telemetry.md describes each field.

Examples:
  brisk telemetry export --output rows.jsonl
  brisk telemetry export | gzip > rows.jsonl.gz")]
pub struct Arguments {
    /// Write to FILE instead of standard output; it is replaced as a whole
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Exports the store.
///
/// # Errors
/// When there is no store, it cannot be read, or the export cannot be written.
pub fn run(arguments: &Arguments, root: &Root) -> anyhow::Result<ExitCode> {
    let export = export(root, wall_s())?;
    if export.damaged_bytes > 0 {
        note!("{} bytes of the store belong to no row, as after a power cut: they are left out", export.damaged_bytes);
    }
    match &arguments.output {
        Some(file) => {
            // A device or a pipe is written to: replaced by a file, it would be gone.
            let written = match fs::metadata(file).is_ok_and(|it| !it.is_file()) {
                true => fs::write(file, &export.text),
                false => durable_file::write(file, &export.text, 0o644),
            };
            written.with_context(|| format!("cannot write {}", file.display()))?;
            note!("{} rows in {}", export.rows, file.display());
        }
        None => std::io::stdout().lock().write_all(export.text.as_bytes())?,
    }
    Ok(ExitCode::SUCCESS)
}
