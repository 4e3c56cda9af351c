//! `brisk fleet import`: exports, and files beside them, become a data set.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::cli::output;
use brisk_base::notes::note;
use brisk_fleet::dataset::{self, Durability, Manifest, SET_ASIDE};
use brisk_fleet::document::{self, Given};
use brisk_fleet::fault::DatasetError;
use brisk_fleet::import::{self, Importer, Summary};
use brisk_fleet::partition::parse_date;
use brisk_sys::time::wall_s;

/// Faults that are printed; the folder has all of them.
const PRINTED_FAULTS: usize = 10;
/// How long the import says nothing.
const NOTE_PERIOD: Duration = Duration::from_secs(2);

/// Arguments of `brisk fleet import`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Reads all files below each FOLDER as exports of `brisk telemetry export`. Each row of a
device is in the data set once: a file that was imported before changes nothing, and a
later export of the same device adds only its new rows.

Also reads proofs (proof.json), archives of `brisk boot record`, and what `brisk trace
explain --json` prints. They do not say which device they are of: --device does, for all
of them in this import. Files with the same bytes are imported once.

A damaged or cut file, another version of the format, a clock that is off, or a device
that contradicts what it said before is not used: a copy and the reason are in the
folder set-aside of the data set. No row of such a device is in an answer any more,
because it is not known when it was right. An interrupted import leaves the data set as
it was; without FOLDER, an interrupted one is completed.

Exit code 0 when the files were read, also if none was new or some are set aside, 2 after
an error.

Examples:
  brisk fleet import exports --to fleet
  brisk fleet import /srv/incoming/2026-11-* --to fleet --json
  brisk fleet import proof.json boot.tgz --to fleet --device 00000000000000d1 \\
      --date 2026-11-27")]
pub struct Arguments {
    /// Folders with files of devices, or single files
    #[arg(value_name = "FOLDER")]
    folders: Vec<PathBuf>,
    /// The data set; it is created if it does not exist
    #[arg(long, value_name = "DATASET")]
    to: PathBuf,
    /// The device of proofs, recordings and explanations: its hash in exports, or any name
    #[arg(long, value_name = "DEVICE", value_parser = |text: &str| Ok::<_, String>(document::device(text)))]
    device: Option<u64>,
    /// Its model, if the data set has no export of it
    #[arg(long, value_name = "MODEL", requires = "device")]
    model: Option<String>,
    /// The build of the system that they are about
    #[arg(long, value_name = "BUILD", requires = "device")]
    build: Option<String>,
    /// The day of those that do not say when they were made (2026-11-27)
    #[arg(long, value_name = "DATE", requires = "device", value_parser = day)]
    date: Option<i64>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

fn day(date: &str) -> Result<i64, String> {
    parse_date(date).ok_or_else(|| "this is no date like 2026-11-27".to_owned())
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    schema: u32,
    dataset: &'a Path,
    #[serde(flatten)]
    summary: Summary,
    total: Manifest,
}

/// Imports.
///
/// # Errors
/// When a folder cannot be read, there is nothing to import or complete, or the data set cannot be written.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let paths = import::files(&arguments.folders)?;
    if arguments.folders.is_empty()
        && let Err(missing @ DatasetError::Missing(_)) = dataset::manifest(&arguments.to)
    {
        return Err(missing.into());
    }
    let mut importer = Importer::open(&arguments.to, wall_s().cast_signed(), Durability::Synced)?;
    importer.set_given(Given {
        device: arguments.device,
        model: arguments.model.clone().unwrap_or_default(),
        build: arguments.build.clone().unwrap_or_default(),
        day: arguments.date,
    });
    let count = paths.len();
    let mut noted = Instant::now();
    import::add_files(&mut importer, &paths, |summary| {
        if noted.elapsed() >= NOTE_PERIOD {
            noted = Instant::now();
            note!("{} of {count} files, {} new rows", summary.files, summary.rows);
        }
    })?;
    let summary = importer.commit()?;
    let total = importer.dataset().manifest.clone();
    output::print(&Report { schema: 1, dataset: &arguments.to, summary, total }, arguments.json, text)?;
    Ok(ExitCode::SUCCESS)
}

fn text(report: &Report<'_>) -> String {
    let Report { summary, total, dataset, .. } = report;
    let (files, rows) = (counted(summary.files, "file"), counted(summary.rows, "new row"));
    let mut text = format!("{} of {files} imported: {rows}\n", summary.imported);
    // Writing to a String cannot fail.
    for (reason, count, noun) in [
        ("imported before", summary.known, "file"),
        ("known from other exports", summary.known_rows, "row"),
        ("without a date, because the clock was not set", summary.undated_rows, "row"),
    ] {
        if count > 0 {
            let _ = writeln!(text, "  {reason}: {}", counted(count, noun));
        }
    }
    if !summary.set_aside.is_empty() {
        let kinds: Vec<String> = summary.set_aside.iter().map(|(kind, count)| format!("{kind}: {count}")).collect();
        let _ = writeln!(text, "not used, in {}: {}", dataset.join(SET_ASIDE).display(), kinds.join(", "));
        for refused in summary.faults.iter().take(PRINTED_FAULTS) {
            let _ = writeln!(text, "  {} {}", refused.file, refused.reason);
        }
        if let Some(more) = summary.faults.len().checked_sub(PRINTED_FAULTS).filter(|more| *more > 0) {
            let _ = writeln!(text, "  and {more} more (--json lists all)");
        }
    }
    let (rows, devices) = (counted(total.rows, "row"), counted(total.devices, "device"));
    let _ = writeln!(text, "{}: {rows} of {devices}", dataset.display());
    if !total.doubted.is_empty() {
        let devices = counted(total.doubted.len() as u64, "device");
        let _ = writeln!(text, "  in no answer: the rows of {devices} that contradicted what was said before");
    }
    text
}

fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
