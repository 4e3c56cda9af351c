//! Prints a subcommand's result: JSON for programs, text for users.

use std::io::Write;

use serde::Serialize;

/// Prints `report` to standard output, as JSON or as formatted by `text`.
///
/// # Errors
/// When standard output cannot be written.
pub fn print<Report: Serialize>(
    report: &Report,
    json: bool,
    text: impl FnOnce(&Report) -> String,
) -> anyhow::Result<()> {
    let answer = if json { serde_json::to_string_pretty(report)? + "\n" } else { text(report) };
    Ok(anstream::stdout().lock().write_all(answer.as_bytes())?)
}
