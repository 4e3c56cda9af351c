//! `brisk fleet report`: the answers of DuckDB as a page.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use serde::Serialize;

use crate::cli::output;
use brisk_base::notes::note;
use brisk_fleet::answers::Answers;
use brisk_fleet::dataset;
use brisk_fleet::duckdb::{Answer, DuckDb};
use brisk_fleet::import::set_aside;
use brisk_fleet::question;
use brisk_fleet::report::{self, Origin, words};

/// Arguments of `brisk fleet report`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Asks the questions by the DuckDB that is installed, as Python package or as command. A
build counts as slower if it is at a rate of false discoveries of at most 1 %, over all
builds and models that are compared.

To install it, once:
  python3 -m venv ~/duckdb && ~/duckdb/bin/pip install duckdb
  PATH=~/duckdb/bin:$PATH brisk fleet report fleet

Examples:
  brisk fleet report fleet
  brisk fleet report fleet --output fleet.html
  brisk fleet report fleet --json | jq '.answers.regressions.rows[0]'")]
pub struct Arguments {
    /// The data set
    #[arg(value_name = "DATASET")]
    dataset: PathBuf,
    /// Write the page to FILE
    #[arg(long, short, value_name = "FILE", default_value = "fleet.html")]
    output: PathBuf,
    /// Print all answers as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    schema: u32,
    headline: String,
    findings: Vec<String>,
    answers: BTreeMap<&'static str, Answer>,
}

/// Asks, writes the page, and prints what it says.
///
/// # Errors
/// When there is no data set or no DuckDB, or the page cannot be written.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let folder = &arguments.dataset;
    let manifest = dataset::manifest(folder)?;
    let given = DuckDb::find()?.ask(folder, &manifest.doubted, &question::ALL)?;
    let answers = Answers::of(&given)?;
    let set_aside =
        set_aside::kinds(folder).with_context(|| format!("cannot read what {} set aside", folder.display()))?;
    let name =
        folder.file_name().map_or_else(|| folder.display().to_string(), |name| name.to_string_lossy().into_owned());
    let page = report::render(&Origin { dataset: name, manifest, set_aside }, &answers);
    std::fs::write(&arguments.output, page).with_context(|| format!("cannot write {}", arguments.output.display()))?;
    let (first, rest) = words::headline(&answers);
    let headline = if rest.is_empty() { first } else { format!("{first}: {rest}") };
    let report = Report { schema: 1, headline, findings: words::findings(&answers), answers: given };
    output::print(&report, arguments.json, text)?;
    note!("report: {}", arguments.output.display());
    Ok(ExitCode::SUCCESS)
}

fn text(report: &Report) -> String {
    let lines = report.findings.iter().map(|finding| format!("  {finding}\n"));
    format!("{}\n", report.headline) + &lines.collect::<String>()
}
