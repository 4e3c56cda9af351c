//! A proof's files and its text on standard output.

use std::io::{IsTerminal, Write};
use std::path::Path;

use anyhow::Context;

use crate::cli::output;
use brisk_base::notes::note;
use brisk_report::proof::{DeviceDescription, Proof, Timekeeping};

/// The table's width without a terminal.
const TABLE_WIDTH: usize = 120;
const PAGE: &str = "report.html";

/// Writes `proof.json` and `report.html` into `folder`.
///
/// # Errors
/// When a file cannot be written.
pub fn write(proof: &Proof, folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let texts = [("proof.json", brisk_report::json::render(proof)), (PAGE, brisk_report::html::render(proof))];
    for (name, text) in texts {
        let path = folder.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Prints the proof as JSON, or as one screen, with the tables of all arms and claims if `verbose`.
///
/// # Errors
/// When standard output cannot be written.
pub fn print(proof: &Proof, json: bool, verbose: bool) -> anyhow::Result<()> {
    if json {
        writeln!(anstream::stdout(), "{}", brisk_report::json::render(proof).trim_end())?;
        return Ok(());
    }
    // anstream strips colours where NO_COLOR is set.
    let terminal = std::io::stdout().is_terminal();
    let width = width();
    if verbose {
        write!(anstream::stdout(), "{}", brisk_report::table::render(proof, width, terminal))?;
    }
    write!(anstream::stdout(), "{}", brisk_report::brief::render(proof, width, terminal))?;
    Ok(())
}

/// The columns of the terminal, or of a table without one.
pub fn width() -> usize {
    output::terminal_columns().unwrap_or(TABLE_WIDTH)
}

/// Tells the user where the report is.
pub fn name(folder: &Path) {
    note!("report: {}", folder.join(PAGE).display());
}

/// One description for all experiments; where devices differ (one CPU or two), each experiment's mode shows it.
pub fn device(known: &[(Timekeeping, &DeviceDescription)], here: bool) -> DeviceDescription {
    let first = known.iter().find(|(mode, _)| *mode == Timekeeping::Deterministic).or_else(|| known.first());
    let unknown =
        || DeviceDescription { place: if here { "here" } else { "lab" }.into(), ..DeviceDescription::default() };
    first.map_or_else(unknown, |(_, device)| (*device).clone())
}
