//! Asks questions of a data set by the DuckDB that is installed: its Python package, or its command line.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::question::{self, Question};

/// Reads the script and the questions as JSON and writes each answer as a line of JSON.
const PROGRAM: &str = include_str!("ask.py");

/// How it is installed, for messages. Debian's pip installs only into an environment.
pub const INSTALL: &str = "python3 -m venv ~/duckdb && ~/duckdb/bin/pip install duckdb, then PATH=~/duckdb/bin:$PATH";

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum DuckDbError {
    /// Neither the package nor the command is there.
    #[error("DuckDB is not installed: {INSTALL} (or put its command `duckdb` into PATH)")]
    Missing,
    /// It cannot be started.
    #[error("cannot run {program}: {source}")]
    Start {
        /// The command.
        program: &'static str,
        /// The cause.
        source: std::io::Error,
    },
    /// It failed.
    #[error("DuckDB cannot answer{question}: {said}")]
    Failed {
        /// Which question, with a space before.
        question: String,
        /// The last lines of its standard error.
        said: String,
    },
    /// It printed something else than an answer.
    #[error("DuckDB's answer to {question} is not understood: {source}")]
    Answer {
        /// Which question.
        question: &'static str,
        /// What is wrong.
        source: serde_json::Error,
    },
}

/// What is installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DuckDb {
    /// The module `duckdb` of `python3`.
    Python,
    /// The command `duckdb`.
    CommandLine,
}

/// The answer to a question.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Answer {
    /// Each row by its columns' names.
    pub rows: Vec<Map<String, Value>>,
    /// How long it took; not known where the start of the program is in it.
    pub seconds: Option<f64>,
}

impl Answer {
    /// Its rows as `Row`.
    ///
    /// # Errors
    /// When a column is missing or has another type.
    pub fn rows<Row: DeserializeOwned>(&self) -> Result<Vec<Row>, serde_json::Error> {
        self.rows.iter().map(|row| Row::deserialize(row)).collect()
    }
}

impl DuckDb {
    /// Finds it: the package first, because it answers all questions in one process.
    ///
    /// # Errors
    /// When neither is there.
    pub fn find() -> Result<Self, DuckDbError> {
        let works = |program: &str, arguments: &[&str]| {
            let mut command = command(program);
            command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            command.status().is_ok_and(|status| status.success())
        };
        if works("python3", &["-c", "import duckdb"]) {
            Ok(Self::Python)
        } else if works("duckdb", &["--version"]) {
            Ok(Self::CommandLine)
        } else {
            Err(DuckDbError::Missing)
        }
    }

    /// Asks `questions` of the data set in `folder`, without the rows of the devices `doubted`. The answers are by the questions' names.
    ///
    /// # Errors
    /// When a question has no answer.
    pub fn ask(
        self,
        folder: &Path,
        doubted: &[i64],
        questions: &[Question],
    ) -> Result<BTreeMap<&'static str, Answer>, DuckDbError> {
        // It runs in the folder: no letter of the path can then be taken for a pattern.
        let views = question::views(question::Engine::DuckDb, folder, "", doubted);
        match self {
            Self::Python => python(folder, &views, questions),
            Self::CommandLine => {
                questions.iter().map(|question| Ok((question.name, command_line(folder, &views, *question)?))).collect()
            }
        }
    }
}

/// The command `program`. Python (3.11 or newer) takes no module from the folder where it runs: the data set may be another user's.
fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    command.env("PYTHONSAFEPATH", "1");
    command
}

fn python(folder: &Path, views: &str, questions: &[Question]) -> Result<BTreeMap<&'static str, Answer>, DuckDbError> {
    let asked: Vec<Value> =
        questions.iter().map(|question| json!({"name": question.name, "sql": question.sql})).collect();
    let input = json!({"views": views, "questions": asked}).to_string();
    let mut command = command("python3");
    let output = run(command.args(["-c", PROGRAM]).current_dir(folder), "python3", &input)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut lines = text.lines();
    let mut answers = BTreeMap::new();
    for question in questions {
        let Some(line) = lines.next() else {
            return Err(DuckDbError::Failed {
                question: format!(" {}", question.name),
                said: last_lines(&output.stderr),
            });
        };
        let answer =
            serde_json::from_str(line).map_err(|source| DuckDbError::Answer { question: question.name, source })?;
        answers.insert(question.name, answer);
    }
    Ok(answers)
}

fn command_line(folder: &Path, views: &str, question: Question) -> Result<Answer, DuckDbError> {
    let mut command = command("duckdb");
    command.args(["-batch", "-bail", "-json"]).current_dir(folder);
    let output = run(&mut command, "duckdb", &format!("{views}{};\n", question.sql))?;
    if !output.status.success() {
        return Err(DuckDbError::Failed { question: format!(" {}", question.name), said: last_lines(&output.stderr) });
    }
    let text = String::from_utf8_lossy(&output.stdout);
    // Without rows it prints nothing, or an empty list.
    let rows = if text.trim().is_empty() { Ok(Vec::new()) } else { serde_json::from_str(&text) };
    let rows = rows.map_err(|source| DuckDbError::Answer { question: question.name, source })?;
    Ok(Answer { rows, seconds: None })
}

fn run(command: &mut Command, program: &'static str, input: &str) -> Result<Output, DuckDbError> {
    let start = |source| DuckDbError::Start { program, source };
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(start)?;
    if let Some(mut stdin) = child.stdin.take() {
        // It reads all before it writes. One that ends before says why on standard error.
        let _ = stdin.write_all(input.as_bytes());
    }
    child.wait_with_output().map_err(start)
}

fn last_lines(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(6)..].join("\n")
}
