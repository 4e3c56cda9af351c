//! `brisk trace convert`: a recorded trace as Perfetto's.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use serde::Serialize;

use crate::cli::output;
use brisk_trace::{perfetto, read};

/// The number of the JSON schema.
const SCHEMA: u32 = 1;

/// Arguments of `brisk trace convert`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Writes what `brisk trace explain` reads as a trace of Perfetto, which ui.perfetto.dev and trace_processor
open: scheduling, wake-ups, frequencies, binder, storage, reclaim, programs and launches. Priorities, the
names of other slices than launches, and events that explanations do not use are left out.

Exit code 0 when OUT was written, 2 after an error.

Examples:
  brisk trace convert trace.dat -o trace.pftrace
  brisk trace convert trace.txt.gz -o trace.pftrace --json")]
pub struct Arguments {
    /// The recorded trace
    #[arg(value_name = "FILE")]
    trace: PathBuf,
    /// Write Perfetto's trace to OUT
    #[arg(long, short, value_name = "OUT")]
    output: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    schema: u32,
    file: String,
    bytes: u64,
    /// What was read.
    format: &'a str,
    events: usize,
    /// Events that were read and not written.
    left_out: u64,
    missing: &'a [String],
}

/// Reads, writes and prints.
///
/// # Errors
/// When the file is no trace, or the other one cannot be written.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let trace = read::read(&arguments.trace)?;
    let file = arguments.output.display().to_string();
    let unwritable = || format!("cannot write {file}");
    let mut output = BufWriter::new(File::create(&arguments.output).with_context(unwritable)?);
    perfetto::write(&trace, &mut output).and_then(|()| output.flush()).with_context(unwritable)?;
    let bytes = output.get_ref().metadata().with_context(unwritable)?.len();
    let report = Report {
        schema: SCHEMA,
        file: file.clone(),
        bytes,
        format: trace.format,
        events: trace.events.len(),
        left_out: trace.counts.others,
        missing: &trace.faults,
    };
    output::print(&report, arguments.json, text)?;
    Ok(ExitCode::SUCCESS)
}

fn text(report: &Report<'_>) -> String {
    let Report { file, bytes, format, events, left_out, missing, .. } = report;
    let mib = *bytes as f64 / f64::from(1 << 20);
    let mut text = format!("{file}: {events} events of {format} in {mib:.1} MiB; open it at https://ui.perfetto.dev\n");
    // Writing to a string cannot fail.
    if *left_out > 0 {
        let _ = writeln!(text, "note: {left_out} other events were left out");
    }
    for what in *missing {
        let _ = writeln!(text, "note: {what}");
    }
    text
}
