//! The waterfall as one SVG of its own: the words, a row for each group with time to the right, and what the mechanisms would have
//! removed. In a row's column the coloured height is the share of the time. It needs no script and no network.

use std::fmt::Write as _;

use brisk_report::svg::{Scale, escape, fit, text_width};

use crate::colours::{COLOURS, colour};
use crate::explain::Explanation;
use crate::launches::Launch;
use crate::model::Trace;
use crate::remedy::WhatIf;
use crate::remedy::words::{outcome, sentence, together};
use crate::words::{self, Group, ms};

/// The style of the drawing, within it.
pub const STYLE: &str = concat!(include_str!("../templates/colours.css"), include_str!("../templates/waterfall.css"));

const WIDTH: f64 = 1160.0;
const MARGIN: f64 = 24.0;
/// Titles of rows are left of the columns of time, figures right of them.
const LEFT: f64 = 266.0;
const TIME_WIDTH: f64 = 740.0;
/// Columns of half a unit.
const COLUMNS: usize = 1480;
const ROW_HEIGHT: f64 = 27.0;
const BAR_HEIGHT: usize = 18;
/// How many rows are drawn; the others share the last one.
const ROWS: usize = 14;
/// How many lines the sentence and each note have.
const LINES: usize = 3;
const NOTES: usize = 4;
const LEDE_SIZE: f64 = 15.0;
const TEXT_SIZE: f64 = 13.0;
const SMALL_SIZE: f64 = 11.5;

/// Draws the explanation; `launch` is the explained one.
pub fn render(
    trace: &Trace,
    (explanation, what_if): (&Explanation, Option<&WhatIf>),
    launch: Option<&Launch>,
    missing: &[&str],
) -> String {
    let (title, sentence) = (words::title(explanation, launch), sentence(explanation, what_if) + ".");
    let mut sheet = Sheet { body: String::new(), y: MARGIN + 20.0 };
    sheet.text("title", "", MARGIN, &fit(&title, 21.0, WIDTH - 2.0 * MARGIN));
    sheet.y += 22.0;
    sheet.text("quiet", "", MARGIN, &fit(&words::facts(explanation, trace), TEXT_SIZE, WIDTH - 2.0 * MARGIN));
    sheet.y += 8.0;
    sheet.paragraph("lede", LEDE_SIZE, MARGIN, &sentence);
    let groups = words::groups(explanation);
    legend(&mut sheet, explanation);
    waterfall(&mut sheet, explanation, &groups);
    if let Some(what_if) = what_if {
        estimates(&mut sheet, explanation, what_if);
    }
    for note in missing.iter().take(NOTES) {
        sheet.paragraph("small", SMALL_SIZE, MARGIN, &format!("note: {note}"));
    }
    sheet.y += 24.0;
    sheet.text("small", "", MARGIN, concat!("Explained by brisk ", env!("CARGO_PKG_VERSION")));
    document(&sheet, &title, &sentence)
}

fn document(sheet: &Sheet, title: &str, description: &str) -> String {
    let height = sheet.y + MARGIN;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         role=\"img\" aria-labelledby=\"title description\">\
         <title id=\"title\">{}</title><desc id=\"description\">{}</desc>\n\
         <style>{}</style>\n<rect class=\"ground\" width=\"{WIDTH}\" height=\"{height}\"/>\n{}</svg>\n",
        escape(title),
        escape(description),
        STYLE,
        sheet.body
    )
}

/// A drawing that grows downwards; `y` is the baseline of the last line. Writing to its string cannot fail.
struct Sheet {
    body: String,
    y: f64,
}

impl Sheet {
    fn text(&mut self, class: &str, anchor: &str, x: f64, text: &str) {
        let anchor = if anchor.is_empty() { String::new() } else { format!(" text-anchor=\"{anchor}\"") };
        let _ = writeln!(
            self.body,
            "<text class=\"{class}\"{anchor} x=\"{x:.1}\" y=\"{:.1}\">{}</text>",
            self.y,
            escape(text)
        );
    }

    fn rectangle(&mut self, class: &str, (x, y): (f64, f64), (width, height): (f64, f64)) {
        let _ = writeln!(
            self.body,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"2\"/>"
        );
    }

    fn path(&mut self, class: &str, data: &str) {
        if !data.is_empty() {
            let _ = writeln!(self.body, "<path class=\"{class}\" d=\"{data}\"/>");
        }
    }

    /// At most [`LINES`] lines from `x` on, broken between words.
    fn paragraph(&mut self, class: &str, size: f64, x: f64, text: &str) {
        let width = WIDTH - MARGIN - x;
        let mut rest = text;
        for line in 1..=LINES {
            let fits = |at: &usize| text_width(rest[..*at].trim_end(), size) <= width;
            let ends = rest.char_indices().filter(|(_, letter)| *letter == ' ').map(|(at, _)| at + 1);
            let end = ends.chain([rest.len()]).take_while(fits).last().unwrap_or(rest.len());
            let end = if line == LINES { rest.len() } else { end };
            self.y += size * 1.35;
            self.text(class, "", x, &fit(rest[..end].trim_end(), size, width));
            rest = &rest[end..];
            if rest.is_empty() {
                break;
            }
        }
    }
}

/// The colours that the path has.
fn legend(sheet: &mut Sheet, explanation: &Explanation) {
    const BETWEEN: f64 = 18.0;
    sheet.y += 30.0;
    let mut x = MARGIN;
    for (number, (class, label)) in COLOURS.iter().enumerate() {
        if !explanation.parts.iter().any(|part| part.ns > 0 && colour(part.cause) == number) {
            continue;
        }
        let width = BETWEEN + text_width(label, SMALL_SIZE);
        if x + width > WIDTH - MARGIN {
            (x, sheet.y) = (MARGIN, sheet.y + 19.0);
        }
        sheet.rectangle(class, (x, sheet.y - 10.0), (11.0, 11.0));
        sheet.text("small", "", x + BETWEEN, label);
        x += width + BETWEEN;
    }
}

/// The rows in the order in which they begin.
fn waterfall(sheet: &mut Sheet, explanation: &Explanation, groups: &[Group]) {
    let mut rows = rows(explanation, groups);
    rows.sort_by_key(Row::begins);
    sheet.y += 30.0;
    let top = sheet.y + 6.0;
    let bottom = top + ROW_HEIGHT * rows.len() as f64;
    let right = LEFT + TIME_WIDTH;
    sheet.rectangle("band", (LEFT, top), (TIME_WIDTH, bottom - top));
    axis(sheet, explanation, (top, bottom));
    sheet.y = top + 18.0;
    for row in &rows {
        let _ = write!(sheet.body, "<g><title>{}</title>", escape(&row.text));
        sheet.text("", "end", LEFT - 12.0, &fit(&row.title, TEXT_SIZE, LEFT - 12.0 - MARGIN));
        let base = sheet.y + 4.0 + (BAR_HEIGHT as f64 - ROW_HEIGHT + 9.0) / 2.0;
        row.bars(sheet, base);
        sheet.text("strong", "end", right + 76.0, &ms(row.ns));
        sheet.text("quiet", "end", WIDTH - MARGIN, &format!("{:.1} %", words::percent(row.ns, explanation)));
        sheet.body.push_str("</g>\n");
        sheet.y += ROW_HEIGHT;
    }
    sheet.path("edge", &format!("M{LEFT} {bottom:.1}H{right}"));
    sheet.y = bottom + 8.0;
}

/// The times of the window, with lines below the bars.
fn axis(sheet: &mut Sheet, explanation: &Explanation, (top, bottom): (f64, f64)) {
    let length_ns = (explanation.to_ns - explanation.from_ns) as f64;
    let (unit, ns) = if length_ns >= 10e9 { ("s", 1e9) } else { ("ms", 1e6) };
    let scale = Scale { domain: (0.0, length_ns / ns), range: (LEFT, LEFT + TIME_WIDTH) };
    let mut lines = String::new();
    for (value, label) in scale.ticks(SMALL_SIZE * 3.0) {
        let x = scale.position(value);
        let _ = write!(lines, "M{x:.1} {top:.1}V{bottom:.1}");
        sheet.text("small", "middle", x, &format!("{label} {unit}"));
    }
    sheet.path("rule", &lines);
}

/// One group, or the rest of them.
struct Row {
    title: String,
    text: String,
    ns: u64,
    /// By colour: the share of each column.
    shares: [Vec<f32>; COLOURS.len()],
}

fn rows(explanation: &Explanation, groups: &[Group]) -> Vec<Row> {
    let length_ns = explanation.to_ns - explanation.from_ns;
    let mut row_of = vec![0; explanation.parts.len()];
    let mut rows: Vec<Row> = Vec::new();
    for (number, group) in groups.iter().enumerate() {
        let row = number.min(ROWS);
        group.parts.iter().for_each(|&part| row_of[part] = row);
        match rows.get_mut(row) {
            Some(others) => {
                others.title = format!("{} others", number + 1 - ROWS);
                others.text = format!("{}; {}", others.text, group.text);
                others.ns += group.ns;
            }
            None => rows.push(Row {
                title: group.title.clone(),
                text: group.text.clone(),
                ns: group.ns,
                shares: Default::default(),
            }),
        }
    }
    let place = |ns: u64| (ns - explanation.from_ns) as f64 / length_ns.max(1) as f64 * COLUMNS as f64;
    for step in &explanation.path {
        for &(part, ns) in &step.shares {
            let share = ns as f64 / (step.to_ns - step.from_ns).max(1) as f64;
            let shares = &mut rows[row_of[part]].shares[colour(explanation.parts[part].cause)];
            shares.resize(COLUMNS, 0.0);
            spread(shares, place(step.from_ns), place(step.to_ns), share);
        }
    }
    rows
}

/// Adds `share` of the time between two places to the columns that it covers.
fn spread(shares: &mut [f32], from: f64, to: f64, share: f64) {
    let first = (from as usize).min(shares.len() - 1);
    for (column, all) in shares.iter_mut().enumerate().skip(first).take_while(|(column, _)| (*column as f64) < to) {
        let covered = to.min(column as f64 + 1.0) - from.max(column as f64);
        *all += (covered.max(0.0) * share) as f32;
    }
}

impl Row {
    /// The first column that it has.
    fn begins(&self) -> usize {
        let first = |shares: &Vec<f32>| shares.iter().position(|share| *share > 0.0);
        self.shares.iter().filter_map(first).min().unwrap_or(COLUMNS)
    }

    /// Draws the colours of each column above each other, each at least half a unit high: whatever happened is seen.
    fn bars(&self, sheet: &mut Sheet, base: f64) {
        let mut low = [0_u32; COLUMNS];
        for (shares, (class, _)) in self.shares.iter().zip(COLOURS) {
            let mut data = String::new();
            let mut column = 0;
            while column < shares.len() {
                let height = half_units(shares[column]);
                let is_same = |at: &usize| half_units(shares[*at]) == height && low[*at] == low[column];
                let end = (column..shares.len()).take_while(is_same).last().map_or(column + 1, |last| last + 1);
                if height > 0 {
                    let (x, y) = (LEFT + column as f64 / 2.0, base - f64::from(low[column]) / 2.0);
                    let (width, tall) = ((end - column) as f64 / 2.0, f64::from(height) / 2.0);
                    let _ = write!(data, "M{x} {y:.1}h{width}v-{tall}h-{width}z");
                    low[column..end].iter_mut().for_each(|low| *low += height);
                }
                column = end;
            }
            sheet.path(class, &data);
        }
    }
}

/// The height of a share, in halves of a unit.
fn half_units(share: f32) -> u32 {
    let most = 2.0 * BAR_HEIGHT as f32;
    if share > 0.0 { (share * most).round().clamp(1.0, most) as u32 } else { 0 }
}

/// What each mechanism would have removed.
fn estimates(sheet: &mut Sheet, explanation: &Explanation, what_if: &WhatIf) {
    sheet.y += 30.0;
    let together = together(explanation, what_if);
    let together = together.unwrap_or_else(|| "None of these is known to have made it faster".to_owned());
    sheet.text("strong", "", MARGIN, &fit(&together, TEXT_SIZE, WIDTH - 2.0 * MARGIN));
    for estimate in &what_if.estimates {
        sheet.y += 20.0;
        sheet.text("", "", MARGIN, estimate.mechanism.name());
        sheet.y -= TEXT_SIZE * 1.35;
        let x = MARGIN + 88.0;
        sheet.paragraph("quiet", TEXT_SIZE, x, &outcome(estimate));
    }
    sheet.y += 8.0;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::{Window, explain};
    use crate::remedy::{Mechanism, Remedies, what_if};
    use crate::sample;
    use crate::threads::resolve;
    use proptest::prelude::*;

    const LAUNCH: &str = include_str!("../../../tests/cli/trace.in/launch.txt");

    /// The drawing of the main thread of process 7, and what it draws.
    fn drawn(text: &str) -> (String, Explanation) {
        let (trace, timelines) = sample::timelines(text);
        let thread = timelines.by_tid[&7][0];
        let window = Window { thread, from_ns: trace.start_ns(), to_ns: trace.end_ns() };
        let explanation = explain(&trace, &timelines, window);
        let remedies = Remedies { with: Mechanism::ALL.to_vec(), ..Remedies::default() };
        let what_if = what_if(&trace, &timelines, (window, &explanation), &remedies);
        (render(&trace, (&explanation, Some(&what_if)), None, &["a <note>"]), explanation)
    }

    /// The area of all shapes of a class, in units of full height.
    fn area(drawing: &str, class: &str) -> f64 {
        let start = format!("<path class=\"{class}\" d=\"M");
        let paths = drawing.match_indices(&start).map(|(at, found)| &drawing[at + found.len()..]);
        let shapes = paths.flat_map(|path| path[..path.find('"').unwrap()].split('M').collect::<Vec<_>>());
        let size = |shape: &str| {
            let number = |after: char| -> f64 {
                let text = &shape[shape.find(after).unwrap() + 1..];
                text[..text.find(|letter: char| letter.is_ascii_alphabetic()).unwrap()].parse().unwrap()
            };
            number('h') * -number('v') / BAR_HEIGHT as f64
        };
        shapes.map(size).sum()
    }

    // Verifies TRACE-5.
    #[test]
    fn coloured_areas_are_the_shares_of_the_causes() {
        let (drawing, explanation) = drawn(LAUNCH);
        let length_ns = (explanation.to_ns - explanation.from_ns) as f64;
        for (number, (class, _)) in COLOURS.iter().enumerate() {
            let parts = explanation.parts.iter().filter(|part| colour(part.cause) == number);
            let expected = parts.map(|part| part.ns).sum::<u64>() as f64 / length_ns * TIME_WIDTH;
            let found = area(&drawing, class);
            // Heights are rounded, and what is small is drawn larger.
            assert!((found - expected).abs() <= 2.0 + expected * 0.02, "{class}: {found} and {expected}");
        }
    }

    // Verifies TRACE-5, SECURITY-3.
    #[test]
    fn the_drawing_has_the_words_and_runs_no_name() {
        let (drawing, _) = drawn(&LAUNCH.replace("dex2oat", "<b>&\"x"));
        for words in [
            "browser: where ",
            "runnable behind other threads",
            "a &lt;note&gt;",
            "it would have taken",
            "prefers-color-scheme: dark",
        ] {
            assert!(drawing.contains(words), "{words}: {drawing}");
        }
        let outside = ["<b>", "http:", "https:", "href", "<script", "url(", "@import"];
        let found = drawing.replace("http://www.w3.org/2000/svg", "");
        assert!(outside.iter().all(|it| !found.contains(it)), "{found}");
    }

    #[test]
    fn more_groups_than_rows_share_the_last_one() {
        let mut text = String::new();
        for number in 0..30_u64 {
            let (other, us) = (100 + number as u32, number * 1000);
            text += &sample::switch(0, us, 7, "S", 0);
            text += &sample::waking(1, us + 500, other, 7, 0);
            text += &sample::switch(0, us + 500, 0, "R", 7);
        }
        text += &sample::switch(0, 31_000, 7, "S", 0);
        let (drawing, _) = drawn(&text);
        assert_eq!(drawing.matches("<g><title>").count(), ROWS + 1, "{drawing}");
        assert!(drawing.contains(" others</text>"), "{drawing}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]
        // Verifies TRACE-5.
        #[test]
        fn any_trace_is_drawn(lines in prop::collection::vec(sample::any_event(), 2..60)) {
            let text = sample::switch(0, 0, 7, "S", 1) + &lines.concat() + &sample::switch(0, 9_000, 1, "S", 7);
            let trace = crate::read::read_bytes(std::path::Path::new("a"), text.as_bytes()).unwrap();
            let timelines = resolve(&trace);
            let (from_ns, to_ns) = (trace.start_ns(), trace.end_ns());
            for thread in 0..timelines.threads.len() as u32 {
                let explanation = explain(&trace, &timelines, Window { thread, from_ns, to_ns });
                let drawing = render(&trace, (&explanation, None), None, &[]);
                prop_assert!(!drawing.contains("NaN") && !drawing.contains("inf") && drawing.ends_with("</svg>\n"));
            }
        }
    }
}
