//! The comparison as text for a terminal.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};

use brisk_report::table::wrap;

use crate::comparison::{ComparedPart, ComparedRow, Comparison};
use crate::verdict::{Difference, Verdict};

/// The narrowest output; a narrower terminal breaks its lines.
const MIN_WIDTH: usize = 60;

/// Writes the comparison in `width` columns. With `colour` it holds ANSI escapes, else none.
pub fn render(comparison: &Comparison, width: usize, colour: bool) -> String {
    let mut out = Output { text: String::new(), width: width.max(MIN_WIDTH), colour };
    for paper in &comparison.papers {
        out.line(bold(), "", &format!("{}: {}", paper.name, paper.title));
        let authors = paper.authors.join(", ");
        out.line(Style::new(), "", &format!("{authors}. {}, {}.", paper.year, paper.venue));
        out.line(Style::new(), "", &format!("{}.", paper.tally()));
        paper.parts.iter().for_each(|part| out.part(part));
        out.text.push('\n');
    }
    out.text
}

/// Its last words: how many rows of all papers have which verdict.
pub fn summary(comparison: &Comparison) -> String {
    let papers = match comparison.papers.len() {
        1 => "1 paper".to_owned(),
        count => format!("{count} papers"),
    };
    let words = crate::comparison::tally(comparison.rows());
    format!("{} rows of {papers}: {words}\n", comparison.rows().count())
}

struct Output {
    text: String,
    width: usize,
    colour: bool,
}

impl Output {
    fn part(&mut self, part: &ComparedPart) {
        self.text.push('\n');
        self.line(bold(), "", &format!("{}: {}", part.label, part.title));
        if let Some(note) = &part.note {
            self.line(Style::new().dimmed(), "  ", note.trim());
        }
        part.rows.iter().for_each(|row| self.row(row));
    }

    fn row(&mut self, row: &ComparedRow) {
        self.line(Style::new(), "  ", &row.what);
        let mut figures = vec![format!("paper: {}", row.paper_cell())];
        if row.method.is_some() || row.verdict == Verdict::NotOnRecord {
            figures.push(format!("its method here: {}", row.method_cell()));
        }
        if row.has_brisk {
            figures.push(format!("brisk: {}{}", row.brisk_cell(), difference(row)));
        }
        self.line(Style::new(), "    ", &figures.join(" | "));
        self.line(style(row.verdict), "    ", &row.words());
    }

    /// One paragraph, each of its lines indented.
    fn line(&mut self, style: Style, indent: &str, text: &str) {
        for line in wrap(text, self.width - indent.len()) {
            // Writing into memory cannot fail.
            let _ = if self.colour && style != Style::new() {
                writeln!(self.text, "{indent}{style}{line}{style:#}")
            } else {
                writeln!(self.text, "{indent}{line}")
            };
        }
    }
}

/// How brisk's figure differs, behind it.
fn difference(row: &ComparedRow) -> &'static str {
    match row.difference {
        Some(Difference::Above) => " (above the paper's method)",
        Some(Difference::Below) => " (below the paper's method)",
        Some(Difference::Level) => " (not told apart from the paper's method)",
        None => "",
    }
}

fn bold() -> Style {
    Style::new().bold()
}

fn style(verdict: Verdict) -> Style {
    let colour = match verdict {
        Verdict::Reproduced => AnsiColor::Green,
        Verdict::NotReproduced => AnsiColor::Red,
        Verdict::DirectionOnly | Verdict::Undecided => AnsiColor::Yellow,
        _ => return Style::new().dimmed(),
    };
    bold().fg_color(Some(colour.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::built_in;
    use crate::results::{self, Results};

    fn kept() -> Comparison {
        let mut results = Results::default();
        let hold = ("hold", "launch", "boot.bursts-hold", [24.9544, 24.935, 25.1652]);
        results.add_evidence(results::kept("boot-bursts", &[hold]));
        Comparison::of(&built_in::select(&[]).unwrap(), &results)
    }

    #[test]
    fn every_row_is_printed_within_the_width() {
        let comparison = kept();
        for width in [0, 80, 120] {
            let text = render(&comparison, width, false);
            // Wide characters of a name count double, so only lines without any are counted.
            let long = text.lines().filter(|line| !line.contains('최') && line.chars().count() > width.max(MIN_WIDTH));
            assert_eq!(long.collect::<Vec<_>>(), Vec::<&str>::new());
            assert!(!text.contains('\u{1b}') && text.contains("Table 3: Measured boot time"), "{text}");
        }
        let wide = render(&comparison, 1000, false);
        for row in comparison.rows() {
            assert!(wide.contains(&row.what) && wide.contains(&row.words()), "{}", row.what);
        }
        assert!(wide.contains("its method here: 25.0\u{a0}% [24.9,\u{a0}25.2], n\u{a0}=\u{a0}30"), "{wide}");
    }

    #[test]
    fn colour_is_added_on_request() {
        assert!(render(&kept(), 80, true).contains("\u{1b}["));
        let summary = summary(&kept());
        assert!(summary.contains("rows of 5 papers: 1 reproduced in direction only"), "{summary}");
    }
}
