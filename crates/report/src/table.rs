//! The proof as one table for a terminal.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr};

use super::finding::{self, Finding};
use super::summary::{self, ArmOutcome, Mark, Row, Subject, Tally};
use crate::proof::{ExperimentResult, Proof, Timekeeping, Verdict};

/// The narrowest table; a narrower terminal breaks its lines.
pub const MIN_WIDTH: usize = 80;

const HEADS: [&str; COLUMNS] = ["mechanism, arm", "median", "gain", "95 % interval", "verdict", "paper"];
const COLUMNS: usize = 6;
/// No column but the first is wider than this; longer cells continue in the next line.
const MAX_WIDTHS: [usize; COLUMNS] = [usize::MAX, 12, 9, 16, 14, 10];
/// From this width on there is room for signs beside verdicts and wider gaps between columns.
const WIDE_LAYOUT_WIDTH: usize = 100;

/// Writes the table (mechanism, arm, median, gain, interval, verdict, the paper's figure), at most `width` columns wide, and
/// sentences about each mechanism below it. With `colour` it holds ANSI escapes, else none.
pub fn render(proof: &Proof, width: usize, colour: bool) -> String {
    let width = width.max(MIN_WIDTH);
    let tables: Vec<(&ExperimentResult, Vec<Row<'_>>)> =
        proof.experiments.iter().map(|experiment| (experiment, summary::rows(experiment))).collect();
    let columns = Columns::of(tables.iter().flat_map(|(_, rows)| rows), width);
    let mut out = Output { text: String::new(), width, colour };
    if !tables.is_empty() {
        out.row(&HEADS.map(String::from), &columns, [bold(); COLUMNS]);
        out.rule(&columns);
    }
    for (experiment, rows) in &tables {
        out.experiment(experiment, rows, &columns);
    }
    for (name, experiments) in summary::mechanisms(proof) {
        out.mechanism(name, &experiments);
    }
    if proof.experiments.is_empty() {
        out.text.push_str("No experiment was run.\n");
    }
    out.text
}

pub(super) fn bold() -> Style {
    Style::new().bold()
}

pub(super) fn dim() -> Style {
    Style::new().dimmed()
}

pub(super) fn style(mark: Mark) -> Style {
    match mark {
        Mark::Verdict(Verdict::Shown) => bold().fg_color(Some(AnsiColor::Green.into())),
        Mark::Verdict(Verdict::NotShown) => bold().fg_color(Some(AnsiColor::Red.into())),
        Mark::Verdict(Verdict::Inconclusive) => bold().fg_color(Some(AnsiColor::Yellow.into())),
        Mark::ArmOutcome(ArmOutcome::Worse) => Style::new().fg_color(Some(AnsiColor::Red.into())),
        Mark::ArmOutcome(_) | Mark::Reported | Mark::Nothing => dim(),
    }
}

/// The layout of the columns.
struct Columns {
    widths: [usize; COLUMNS],
    gap: usize,
    signs: bool,
}

impl Columns {
    /// As wide as the cells need; the first column gets the remaining width.
    fn of<'a>(rows: impl Iterator<Item = &'a Row<'a>>, width: usize) -> Self {
        let is_wide = width >= WIDE_LAYOUT_WIDTH;
        let mut columns =
            Self { widths: HEADS.map(UnicodeWidthStr::width), gap: 1 + usize::from(is_wide), signs: is_wide };
        for row in rows {
            let cells = columns.cells(row);
            for (column, cell) in cells.iter().enumerate() {
                columns.widths[column] = columns.widths[column].max(cell.width().min(MAX_WIDTHS[column]));
            }
        }
        let others = columns.widths[1..].iter().sum::<usize>() + columns.gap * (COLUMNS - 1);
        columns.widths[0] = columns.widths[0].min(width.saturating_sub(others));
        columns
    }

    fn total(&self) -> usize {
        self.widths.iter().sum::<usize>() + self.gap * (COLUMNS - 1)
    }

    fn cells(&self, row: &Row<'_>) -> [String; COLUMNS] {
        let label = match row.subject {
            Subject::Series(arm, _) => &arm.name,
            Subject::Claim(claim) => &claim.id,
        };
        let sign =
            if self.signs && !row.mark.sign().is_empty() { format!("{} ", row.mark.sign()) } else { String::new() };
        [
            format!("   {}", printable(label)),
            abbreviated(&printable(&row.median)),
            printable(&row.gain),
            printable(&row.interval),
            format!("{sign}{}", row.mark.words()),
            printable(&row.paper),
        ]
    }
}

/// Abbreviates units that are wider than the column; `insn` is perf's word.
fn abbreviated(median: &str) -> String {
    median.replace("instructions", "insn").replace("applications", "apps")
}

struct Output {
    text: String,
    width: usize,
    colour: bool,
}

impl Output {
    fn paint(&mut self, style: Style, text: &str) {
        if self.colour && !text.is_empty() {
            // Writing to a String cannot fail.
            let _ = write!(self.text, "{style}{text}{style:#}");
        } else {
            self.text.push_str(text);
        }
    }

    fn end_line(&mut self) {
        self.text.truncate(self.text.trim_end_matches(' ').len());
        self.text.push('\n');
    }

    fn rule(&mut self, columns: &Columns) {
        self.paint(dim(), &"\u{2500}".repeat(columns.total()));
        self.end_line();
    }

    /// One row; long cells continue below.
    fn row(&mut self, cells: &[String; COLUMNS], columns: &Columns, styles: [Style; COLUMNS]) {
        let wrapped: Vec<Vec<String>> =
            cells.iter().zip(columns.widths).map(|(cell, width)| wrap(cell, width)).collect();
        let height = wrapped.iter().map(Vec::len).max().unwrap_or(0);
        for line in 0..height {
            for column in 0..COLUMNS {
                let piece = wrapped[column].get(line).map_or("", String::as_str);
                let padding = " ".repeat(columns.widths[column].saturating_sub(piece.width()));
                // Words are left-aligned, figures right-aligned.
                let figures = (1..=3).contains(&column);
                if figures {
                    self.text.push_str(&padding);
                }
                self.paint(styles[column], piece);
                if !figures {
                    self.text.push_str(&padding);
                }
                self.text.push_str(&" ".repeat(columns.gap));
            }
            self.end_line();
        }
    }

    fn experiment(&mut self, experiment: &ExperimentResult, rows: &[Row<'_>], columns: &Columns) {
        let form = if experiment.quick { "quick" } else { "full" };
        let head = format!("{}  {}", printable(&experiment.mechanism), printable(&experiment.title));
        self.lines(bold(), "", &head);
        self.lines(dim(), " ", &format!("{} ({form}, {})", printable(&experiment.name), experiment.mode.word()));
        if let Some(reason) = summary::failure(experiment) {
            let red = Style::new().fg_color(Some(AnsiColor::Red.into()));
            self.lines(red, " ", &printable(&format!("failed: {reason}")));
        }
        let mut heading = String::new();
        for row in rows {
            match row.subject {
                Subject::Series(arm, _) => {
                    let next = [arm.metric.as_str(), arm.point.as_str()].map(printable);
                    let next = next.iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join(", ");
                    if next != heading {
                        self.lines(Style::new(), " ", &next);
                        heading = next;
                    }
                }
                Subject::Claim(claim) => {
                    let point = if claim.point.is_empty() { String::new() } else { format!(" ({})", claim.point) };
                    self.lines(Style::new(), " ", &printable(&format!("{}{point}", claim.text)));
                }
            }
            let plain = Style::new();
            let baseline = matches!(row.subject, Subject::Series(arm, _) if arm.baseline);
            let gain = if baseline { dim() } else { bold() };
            self.row(&columns.cells(row), columns, [plain, plain, gain, dim(), style(row.mark), dim()]);
        }
        let refused = summary::refused(experiment);
        if refused > 0 {
            self.lines(dim(), " ", &format!("{refused} replicates refused; the report says why"));
        }
        // Notes about the user's own device are printed: readers do not expect them only in the report.
        if experiment.mode == Timekeeping::Native {
            experiment.notes.iter().for_each(|note| self.lines(Style::new(), " ", &printable(note)));
        }
        self.text.push('\n');
    }

    fn mechanism(&mut self, name: &str, experiments: &[&ExperimentResult]) {
        let tally = Tally::of(experiments.iter().copied());
        let verdict = tally.verdict().map_or(bold(), |verdict| style(Mark::Verdict(verdict)));
        self.lines(
            verdict,
            "",
            &format!("{}: {}.", printable(name), summary::verdict_words(experiments.iter().copied())),
        );
        for experiment in experiments {
            for finding in finding::findings(experiment).iter().filter(|finding| !finding.energy) {
                for sentence in plain_words(finding) {
                    self.lines(Style::new(), "  ", &printable(&format!("{sentence} ({})", experiment.name)));
                }
            }
        }
    }

    /// Whole lines with an indent, wrapped at the table's width.
    fn lines(&mut self, style: Style, indent: &str, text: &str) {
        for line in wrap(text, self.width - indent.len()) {
            self.text.push_str(indent);
            self.paint(style, &line);
            self.end_line();
        }
    }
}

/// Sentences about where the baseline does as well or better.
fn plain_words(finding: &Finding) -> Vec<String> {
    [finding.same_sentence(), finding.worse_sentence()].into_iter().flatten().collect()
}

/// Names without characters that could move the cursor or change the text's direction.
pub(super) fn printable(text: &str) -> String {
    let hidden = |c: char| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars()
        .map(|c| match c {
            '\t' | '\n' | '\r' => ' ',
            c if c.is_control() || hidden(c) => '\u{fffd}',
            c => c,
        })
        .collect()
}

/// Breaks `text` into lines of at most `width` columns: between words, else after a hyphen and the like, else anywhere.
/// An indent is kept, and continuation lines are indented two columns more.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let indent = text.chars().take_while(|c| *c == ' ').count().min(width / 2);
    let hang = if indent > 0 && indent + 2 < width { indent + 2 } else { indent };
    let mut lines = Vec::new();
    let mut line = " ".repeat(indent);
    let mut begun = false;
    for piece in text.trim_start_matches(' ').split_inclusive([' ', '-', '_', '/']) {
        let whole = line.width() + piece.trim_end_matches(' ').width();
        if begun && whole > width {
            lines.push(std::mem::replace(&mut line, " ".repeat(hang)));
            begun = false;
        }
        for character in piece.chars() {
            let full = line.width() + character.width().unwrap_or(0) > width;
            if full && character == ' ' {
                continue;
            }
            if full && begun {
                lines.push(std::mem::replace(&mut line, " ".repeat(hang)));
            }
            line.push(character);
            begun = true;
        }
    }
    if begun || lines.is_empty() {
        lines.push(line);
    }
    for line in &mut lines {
        line.truncate(line.trim_end_matches(' ').len());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wraps_between_words_and_inside_long_words() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("  abcdefgh", 6), ["  abcd", "    ef", "    gh"]);
        assert_eq!(wrap("  paper-100-to-50ms", 12), ["  paper-100-", "    to-50ms"]);
        assert_eq!(wrap("", 5), [""]);
        assert_eq!(wrap("\u{4e2d}\u{4e2d}\u{4e2d}", 4), ["\u{4e2d}\u{4e2d}", "\u{4e2d}"]);
    }

    #[test]
    fn a_figure_stays_on_its_line() {
        assert_eq!(wrap(&abbreviated("35134.2 instructions"), MAX_WIDTHS[1]), ["35134.2 insn"]);
        assert_eq!(wrap(&abbreviated("\u{2212}9.50 applications"), MAX_WIDTHS[1]), ["\u{2212}9.50 apps"]);
    }

    #[test]
    fn names_cannot_move_the_cursor() {
        assert_eq!(printable("a\x1b[2Jb\u{202e}c\nd"), "a\u{fffd}[2Jb\u{fffd}c d");
    }
}
