//! `brisk telemetry show`: what is stored, and the last rows.

use std::fmt::Write as _;
use std::process::ExitCode;

use anstyle::Style;
use serde::Serialize;
use serde_json::Value;

use crate::cli::output;
use brisk_config::Layers;
use brisk_experiment::wall_clock::rfc3339;
use brisk_sys::Root;
use brisk_telemetry::error::TelemetryError;
use brisk_telemetry::folder;
use brisk_telemetry::summary::{Summary, summary};

/// The number of the JSON schema.
const SCHEMA: u32 = 1;

/// Arguments of `brisk telemetry show`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit code 0 when something is stored, 1 when nothing is.

Examples:
  brisk telemetry show             the last ten rows
  brisk telemetry show --last 1    the last one
  brisk telemetry show --json      the same for programs")]
pub struct Arguments {
    /// Show this many of the last rows
    #[arg(long, value_name = "N", default_value_t = 10)]
    last: usize,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    schema: u32,
    /// What the configuration says; a running daemon may have another one.
    enabled: bool,
    size_kib: u64,
    folder: String,
    /// What is stored, if anything is.
    #[serde(flatten)]
    store: Option<Summary>,
}

/// Prints what is stored.
///
/// # Errors
/// When the configuration or the store cannot be read, or standard output cannot be written.
pub fn run(arguments: &Arguments, root: &Root) -> anyhow::Result<ExitCode> {
    let config = Layers::read(root)?.config.telemetry;
    let store = match summary(root, arguments.last) {
        Ok(store) => Some(store),
        Err(TelemetryError::NoStore(_)) => None,
        Err(error) => return Err(error.into()),
    };
    let is_something = store.is_some();
    let folder = folder(root).display().to_string();
    let report = Report { schema: SCHEMA, enabled: config.enabled, size_kib: config.size_kib, folder, store };
    output::print(&report, arguments.json, text)?;
    Ok(ExitCode::from(u8::from(!is_something)))
}

fn text(report: &Report) -> String {
    const BOLD: Style = Style::new().bold();
    const FAINT: Style = Style::new().dimmed();
    let mut text = String::new();
    let state = if report.enabled { "on" } else { "off" };
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{BOLD}telemetry is {state}{BOLD:#} (telemetry.enabled = {})", report.enabled);
    let Some(store) = &report.store else {
        let _ = writeln!(text, "nothing is stored in {}", report.folder);
        return text;
    };
    let kib = store.bytes.div_ceil(1024);
    let _ = writeln!(text, "{} rows in {} take {kib} of {} KiB", store.rows, report.folder, report.size_kib);
    if store.damaged_bytes > 0 {
        let _ = writeln!(text, "{} bytes belong to no row, as after a power cut", store.damaged_bytes);
    }
    let _ = writeln!(text, "{FAINT}device {}{FAINT:#}\n", store.device);
    for (kind, count) in &store.kinds {
        let _ = writeln!(text, "  {kind:<8}{count:>8}");
    }
    if !store.last.is_empty() {
        text.push('\n');
    }
    store.last.iter().for_each(|row| line(row, &mut text));
    text
}

/// One row: number, time, kind, and what is known.
fn line(row: &Value, text: &mut String) {
    let [number, at_s] = ["row", "at_s"].map(|key| row[key].as_u64().unwrap_or_default());
    let _ = write!(text, "{number:>6}  {}  {:<6}", rfc3339(at_s), row["kind"].as_str().unwrap_or_default());
    let common = ["row", "at_s", "boot", "kind"];
    let own = row
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, value)| !common.contains(&key.as_str()) && !value.is_null() && value.as_str() != Some(""));
    for (key, value) in own {
        let _ = match value.as_str() {
            Some(value) => write!(text, "  {key} {value}"),
            None => write!(text, "  {key} {value}"),
        };
    }
    text.push('\n');
}
