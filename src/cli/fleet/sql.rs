//! `brisk fleet sql`: the questions as a script.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;

use brisk_fleet::dataset;
use brisk_fleet::question::{self, Engine, Question};

/// Arguments of `brisk fleet sql`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Prints what makes the views, one for each kind of row and one of Student's quantiles, and
then the questions. Only the views differ between the engines.

Examples:
  brisk fleet sql fleet | duckdb
  brisk fleet sql fleet regressions --engine spark > ask.sql
  brisk fleet sql fleet boots kills")]
pub struct Arguments {
    /// The data set
    #[arg(value_name = "DATASET")]
    dataset: PathBuf,
    /// Questions; all without any
    #[arg(value_name = "QUESTION", value_parser = name)]
    questions: Vec<Question>,
    /// The engine that will run it
    #[arg(long, value_name = "ENGINE", default_value = "duckdb")]
    engine: EngineName,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum EngineName {
    Duckdb,
    Spark,
}

fn name(name: &str) -> Result<Question, String> {
    let known = question::ALL.map(|question| question.name).join(", ");
    question::find(name).ok_or_else(|| format!("there is no such question; there are {known}"))
}

/// Prints the script.
///
/// # Errors
/// When there is no data set, or standard output cannot be written.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let manifest = dataset::manifest(&arguments.dataset)?;
    let folder = std::path::absolute(&arguments.dataset).context("cannot find the data set")?;
    let engine = match arguments.engine {
        EngineName::Duckdb => Engine::DuckDb,
        EngineName::Spark => Engine::Spark,
    };
    let mut script = question::views(engine, &folder, &format!("{}/", folder.display()), &manifest.doubted);
    let chosen = if arguments.questions.is_empty() { &question::ALL[..] } else { &arguments.questions };
    for question in chosen {
        script += &format!("\n{};\n", question.sql.trim_end());
    }
    anstream::stdout().lock().write_all(script.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
