//! Prints a subcommand's result: JSON for programs, text for users.

use std::io::Write;

use anstream::adapter::strip_str;
use serde::Serialize;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// A continued line has at least this many columns.
const CONTINUED_COLUMNS: usize = 24;

/// Prints `report` to standard output, as JSON or as formatted by `text`.
///
/// # Errors
/// When standard output cannot be written.
pub fn print<Report: Serialize>(
    report: &Report,
    json: bool,
    text: impl FnOnce(&Report) -> String,
) -> anyhow::Result<()> {
    if !json {
        return print_text(&text(report));
    }
    let answer = serde_json::to_string_pretty(report)? + "\n";
    Ok(anstream::stdout().lock().write_all(answer.as_bytes())?)
}

/// Prints `text` to standard output, wrapped if that is a terminal.
///
/// # Errors
/// When standard output cannot be written.
pub fn print_text(text: &str) -> anyhow::Result<()> {
    let wrapped = terminal_columns().map(|columns| wrapped(text, columns));
    Ok(anstream::stdout().lock().write_all(wrapped.as_deref().unwrap_or(text).as_bytes())?)
}

/// The columns of standard output's terminal; `None` if it is no terminal, or a serial line, which reports no size.
pub fn terminal_columns() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    (size.ws_col > 0).then_some(size.ws_col.into())
}

/// Wraps the lines of `text` that have more than `columns`. They continue below their last column of words.
fn wrapped(text: &str, columns: usize) -> String {
    let line = |line: &str| match strip_str(line).to_string() {
        plain if plain.width() > columns => fold(line, columns, continuation(&plain, columns)),
        _ => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

/// Where a line continues: after its last gap of two spaces, if there is room for words, or else indented by two.
fn continuation(line: &str, columns: usize) -> usize {
    let (mut column, mut spaces, mut found) = (0, 0, 2);
    for letter in line.chars() {
        if letter != ' ' && spaces >= 2 && column + CONTINUED_COLUMNS <= columns {
            found = column;
        }
        spaces = if letter == ' ' { spaces + 1 } else { 0 };
        column += letter.width().unwrap_or(0);
    }
    found
}

/// Wraps `line`, which may have colours, to `columns`. Its further lines are indented by `indent` and have at least a word each.
pub fn fold(line: &str, columns: usize, indent: usize) -> String {
    let (mut text, mut column) = (String::new(), 0);
    for word in line.split_inclusive(' ') {
        let width = strip_str(word).to_string().width();
        let is_gap = word.trim_end().is_empty();
        if !is_gap && column > indent && column + strip_str(word.trim_end()).to_string().width() > columns {
            text.truncate(text.trim_end().len());
            text.push('\n');
            text.extend(std::iter::repeat_n(' ', indent));
            column = indent;
        }
        text.push_str(word);
        column += width;
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_continue_below_their_words() {
        let table = [
            ("short\n\nlines stay\n", "short\n\nlines stay\n"),
            (
                "launch         off  the governor performance has no frequency below the highest\n",
                "launch         off  the governor performance has\n                    no frequency below the highest\n",
            ),
            (
                "no daemon is running; it would begin with what is below this\n",
                "no daemon is running; it would begin with what is\n  below this\n",
            ),
            (
                "    a reason that is indented, and longer than the screen\n",
                "    a reason that is indented, and longer than the\n    screen\n",
            ),
            (
                "0.999 ±0.001    0.999 ±0.001  a title without room below itself\n",
                "0.999 ±0.001    0.999 ±0.001  a title without room\n                below itself\n",
            ),
            (
                "\u{1b}[1mname\u{1b}[0m  \u{1b}[2mcolours take no columns, so that this is too long\u{1b}[0m\n",
                "\u{1b}[1mname\u{1b}[0m  \u{1b}[2mcolours take no columns, so that this is too\n      long\u{1b}[0m\n",
            ),
            (
                "/a/path/of/more/columns/than/the/terminal/of/the/user has\n",
                "/a/path/of/more/columns/than/the/terminal/of/the/user\n  has\n",
            ),
        ];
        for (text, expected) in table {
            assert_eq!(wrapped(text, 50), expected);
            assert_eq!(wrapped(expected, 50), expected, "wrapped once more");
        }
    }
}
