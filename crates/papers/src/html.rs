//! The comparison as one self-contained HTML file, in the style of the report: no scripts, no external fonts or images.

use askama::Template;

use brisk_report::plot::Size;
use brisk_report::{html, step_plot, svg};

use crate::comparison::{ComparedPart, ComparedRow, Comparison, tally};
use crate::paper::{Paper, Part};
use crate::plot;
use crate::results::Results;
use crate::verdict::{Difference, Verdict};

const STYLE: &str = include_str!("../templates/papers.css");

/// Writes the page. The same papers and results give the same bytes.
pub fn render(papers: &[Paper], results: &Results) -> String {
    let comparison = Comparison::of(papers, results);
    let page = Page {
        styles: [html::STYLE, svg::STYLE, plot::STYLE, STYLE],
        version: env!("CARGO_PKG_VERSION"),
        headline: headline(&comparison),
        rest: tally(comparison.rows().filter(|row| row.verdict > Verdict::NotReproduced)),
        columns: Verdict::ALL.map(Badge::of),
        meanings: Verdict::ALL.map(|verdict| (Badge::of(verdict), verdict.meaning())),
        papers: papers
            .iter()
            .zip(&comparison.papers)
            .map(|(paper, compared)| PaperSection {
                paper,
                authors: paper.authors.join(", "),
                counts: Verdict::ALL.map(|verdict| compared.rows().filter(|row| row.verdict == verdict).count()),
                tally: compared.tally(),
                parts: paper
                    .parts
                    .iter()
                    .zip(&compared.parts)
                    .enumerate()
                    .map(|(at, (part, compared))| {
                        PartSection::of(part, compared, results, &format!("{}-{at}", paper.name))
                    })
                    .collect(),
            })
            .collect(),
    };
    // The template writes to a String from plain data, which cannot fail.
    page.render().unwrap_or_default()
}

/// The verdicts that a measurement decided.
fn headline(comparison: &Comparison) -> String {
    let decided = tally(comparison.rows().filter(|row| row.verdict <= Verdict::NotReproduced));
    if decided.is_empty() { "No row of the papers is measured".to_owned() } else { decided }
}

#[derive(Template)]
#[template(path = "papers.html")]
struct Page<'a> {
    styles: [&'static str; 4],
    version: &'static str,
    headline: String,
    rest: String,
    columns: [Badge; 8],
    meanings: [(Badge, &'static str); 8],
    papers: Vec<PaperSection<'a>>,
}

struct PaperSection<'a> {
    paper: &'a Paper,
    authors: String,
    counts: [usize; 8],
    tally: String,
    parts: Vec<PartSection<'a>>,
}

struct PartSection<'a> {
    part: &'a Part,
    /// The rows of the paper's measurements.
    rows: Vec<RowLine<'a>>,
    /// What the paper describes and does not measure.
    described: Vec<&'a ComparedRow>,
    /// Drawings: wide, narrow, and what they show.
    drawings: Vec<(String, String, String)>,
}

struct RowLine<'a> {
    row: &'a ComparedRow,
    badge: Badge,
    difference: &'static str,
}

/// A verdict as a coloured word with a sign.
#[derive(Clone, Copy)]
struct Badge {
    class: &'static str,
    sign: &'static str,
    words: &'static str,
}

impl Badge {
    fn of(verdict: Verdict) -> Self {
        let (class, sign) = match verdict {
            Verdict::Reproduced => ("shown", "\u{2713}"),
            Verdict::DirectionOnly => ("inconclusive", "\u{2197}"),
            Verdict::NotReproduced => ("not-shown", "\u{2717}"),
            Verdict::Undecided => ("inconclusive", "?"),
            _ => ("reported", ""),
        };
        Self { class, sign, words: verdict.words() }
    }
}

impl<'a> PartSection<'a> {
    fn of(part: &'a Part, compared: &'a ComparedPart, results: &Results, id: &str) -> Self {
        Self {
            part,
            rows: compared.rows.iter().filter(|row| !row.is_description()).map(RowLine::of).collect(),
            described: compared.rows.iter().filter(|row| row.is_description()).collect(),
            drawings: drawings(part, compared, results, id),
        }
    }
}

fn drawings(part: &Part, compared: &ComparedPart, results: &Results, id: &str) -> Vec<(String, String, String)> {
    let mut drawings = Vec::new();
    if part.bars {
        let [wide, narrow] = Size::both(id, |size, id| plot::bars(compared, size, id));
        drawings
            .extend(wide.zip(narrow).map(|(wide, narrow)| (wide, narrow, "Rows with a measured figure.".to_owned())));
    }
    if let Some((course, result)) = part.course.as_ref().and_then(|course| Some((course, results.with_course(course)?)))
    {
        let draw = |size, id: &str| step_plot::lines(result, &course.what, size, id);
        let [wide, narrow] = Size::both(&format!("{id}-course"), draw);
        let caption = format!(
            "{}: {}, step by step; the median over the replicates of each arm.",
            course.experiment, course.what
        );
        drawings.push((wide, narrow, caption));
    }
    drawings
}

impl<'a> RowLine<'a> {
    fn of(row: &'a ComparedRow) -> Self {
        let difference = match row.difference {
            Some(Difference::Above) => "above the paper\u{2019}s method",
            Some(Difference::Below) => "below the paper\u{2019}s method",
            Some(Difference::Level) => "not told apart from the paper\u{2019}s method",
            None => "",
        };
        Self { row, badge: Badge::of(row.verdict), difference }
    }
}

/// `text` as HTML, with what is between backticks as code.
fn prose(text: &str) -> String {
    code(&svg::escape(text))
}

/// Turns what is between backticks into code; the text is escaped already.
fn code(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    let last = parts.len() - 1;
    let mut html = String::new();
    for (number, part) in parts.into_iter().enumerate() {
        match (number % 2, number == last) {
            (0, _) => html += part,
            // A backtick without another stays what it is.
            (_, true) => html += &format!("`{part}"),
            _ => html += &format!("<code>{part}</code>"),
        }
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::built_in;
    use crate::results;

    fn kept() -> Results {
        let mut results = Results::default();
        let hold = ("hold", "launch", "boot.bursts-hold", [24.9544, 24.935, 25.1652]);
        results.add_evidence(results::kept("boot-bursts", &[hold]));
        let paper = ("paper", "lookup mean", "lookup.paper-gain", [48.1828, 46.7743, 49.065]);
        results.add_evidence(results::kept("lookup-list", &[paper]));
        results
    }

    // Verifies PROVE-8.
    #[test]
    fn the_page_has_every_row_and_draws_what_is_measured() {
        let papers = built_in::select(&[]).unwrap();
        let page = render(&papers, &kept());
        let comparison = Comparison::of(&papers, &Results::default());
        for row in comparison.rows() {
            assert!(page.contains(&svg::escape(&row.what)), "{}", row.what);
        }
        assert!(page.matches("class=\"plot wide\"").count() == 2, "bars of Table 3 and of Figure 5");
        assert!(page.contains("25.0\u{a0}% [24.9,\u{a0}25.2]") && !page.contains("NaN"));
        let empty = render(&papers, &Results::default());
        assert!(empty.contains("No row of the papers is measured") && !empty.contains("class=\"plot"), "{empty}");
    }

    #[test]
    fn backticks_become_code() {
        for (text, expected) in [
            ("a `b` c", "a <code>b</code> c"),
            ("`b`", "<code>b</code>"),
            ("a ` b", "a ` b"),
            ("`a` `b", "<code>a</code> `b"),
            ("", ""),
        ] {
            assert_eq!(code(text), expected, "{text}");
        }
    }

    #[test]
    fn no_text_of_a_paper_is_taken_for_html() {
        let text = include_str!("../../../papers/lookup.toml").replace("A monkey", "<hostile>&");
        let paper = Paper::parse("lookup", &text).unwrap();
        let page = render(&[paper], &kept());
        assert!(!page.contains("<hostile>") && page.contains("&#60;hostile&#62;&#38;"), "{page}");
    }
}
