//! A paper's page of the book.

use std::fmt::Write as _;

use brisk_report::figure::NO_BREAK_SPACE;

use crate::comparison::{ComparedPaper, ComparedPart, ComparedRow, Comparison};
use crate::paper::Paper;
use crate::results::Results;
use crate::verdict::Difference;

/// Longest line of a paragraph, in characters.
const WIDTH: usize = 130;

const RULE: &str = "\
Each figure here is followed by its 95 % interval and the number of its samples. A row is *reproduced* if the interval of the \
paper's method reaches the paper's figure, give or take a tenth of it unless the data states another tolerance, and, for a \
difference, excludes zero. If it only excludes zero on the paper's side, its direction alone is reproduced. *Not on record* means \
that an experiment measures it, but docs/evidence does not have its full run yet.";

/// Writes the page of `paper` for the folder docs/papers.
pub fn page(paper: &Paper, results: &Results) -> String {
    let comparison = Comparison::of(std::slice::from_ref(paper), results);
    let mut text = String::new();
    for compared in &comparison.papers {
        head(&mut text, paper, compared);
        for part in &compared.parts {
            write_part(&mut text, part);
        }
    }
    text.truncate(text.trim_end().len());
    text + "\n"
}

fn head(text: &mut String, paper: &Paper, compared: &ComparedPaper) {
    let Paper { name, title, authors, year, venue, doi, device, .. } = paper;
    let mut capitalised = name.clone();
    if let Some(first) = capitalised.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    // Writing to a String cannot fail.
    let _ = write!(
        text,
        "# {capitalised}: the paper, side by side\n\n\
         <!-- Written by `cargo xtask evidence` from papers/{name}.toml and docs/evidence: edit those. -->\n\n"
    );
    let doi = doi.as_ref().map_or_else(String::new, |doi| format!(", [{doi}](https://doi.org/{doi})"));
    paragraph(text, &format!("{}: *{title}*. {year}, {venue}{doi}.", authors.join(", ")));
    paragraph(text, &format!("It measured on {device}."));
    let command =
        format!("`./dev prove papers {name}` measures the rows and writes this comparison as a page with its plots.");
    paragraph(text, &command);
    for (heading, prose) in [
        ("What they proposed", &paper.proposed),
        ("What holds today", &paper.today),
        ("What brisk does instead, and why", &paper.instead),
    ] {
        let _ = write!(text, "## {heading}\n\n");
        paragraph(text, prose);
    }
    if !paper.doubts.is_empty() {
        text.push_str("## Doubts\n\n");
        for doubt in &paper.doubts {
            item(text, doubt);
        }
        text.push('\n');
    }
    text.push_str("## Tables and figures\n\n");
    paragraph(text, &format!("Of its rows: {}.", compared.tally()));
    paragraph(text, RULE);
}

fn write_part(text: &mut String, part: &ComparedPart) {
    let _ = write!(text, "### {}: {}\n\n", part.label, part.title);
    if let Some(note) = &part.note {
        paragraph(text, note);
    }
    let (described, measured): (Vec<&ComparedRow>, Vec<&ComparedRow>) =
        part.rows.iter().partition(|row| row.is_description());
    if !measured.is_empty() {
        text.push_str("| | paper | its method here | brisk | verdict |\n|---|---|---|---|---|\n");
        for row in measured {
            let brisk = row.brisk_cell() + difference(row);
            let cells =
                [&row.what, &row.paper_cell(), &row.method_cell(), &brisk, &row.words()].map(|cell| plain(cell));
            let _ = writeln!(text, "| {} |", cells.join(" | "));
        }
        text.push('\n');
    }
    for row in &described {
        let reason = row.reason.as_deref().unwrap_or_default();
        item(text, &plain(&format!("{} ({}). Here: {reason}.", row.what, row.paper_cell())));
    }
    if !described.is_empty() {
        text.push('\n');
    }
}

fn difference(row: &ComparedRow) -> &'static str {
    match row.difference {
        Some(Difference::Above) => "; above the paper's method",
        Some(Difference::Below) => "; below the paper's method",
        Some(Difference::Level) => "; not told apart from the paper's method",
        None => "",
    }
}

/// A table's cell: a bar would end it; minus signs and spaces as the other pages have them.
fn plain(cell: &str) -> String {
    cell.replace('|', "\\|").replace(NO_BREAK_SPACE, " ").replace(['\u{2212}', '\u{2013}'], "-")
}

fn paragraph(text: &mut String, prose: &str) {
    for line in wrapped(prose, WIDTH) {
        text.push_str(&line);
        text.push('\n');
    }
    text.push('\n');
}

fn item(text: &mut String, prose: &str) {
    for (number, line) in wrapped(prose, WIDTH - 2).into_iter().enumerate() {
        let _ = writeln!(text, "{}{line}", if number == 0 { "- " } else { "  " });
    }
}

/// `prose` in lines of at most `width` characters, broken only between words.
fn wrapped(prose: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in prose.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::built_in;

    // Verifies PROVE-8.
    #[test]
    fn a_page_has_each_part_and_each_row() {
        for paper in built_in::select(&[]).unwrap() {
            let page = page(&paper, &Results::default());
            for part in &paper.parts {
                assert!(page.contains(&format!("\n### {}: {}\n", part.label, part.title)), "{}", part.label);
                for row in &part.rows {
                    let first = plain(&row.what.value);
                    let is_there =
                        page.contains(&format!("\n| {first} | ")) || page.contains(&format!("\n- {first} ("));
                    assert!(is_there, "{first}");
                }
            }
            assert!(page.ends_with('\n') && !page.ends_with("\n\n"));
        }
    }

    #[test]
    fn cells_and_lines_are_kept_whole() {
        assert_eq!(plain("a | b\u{a0}c \u{2212}3"), "a \\| b c -3");
        assert_eq!(wrapped("one two  three\nfour", 9), ["one two", "three", "four"]);
        assert_eq!(wrapped("unbreakable-word", 5), ["unbreakable-word"]);
    }
}
