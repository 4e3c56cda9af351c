//! A window as a waterfall of text: a row for each group, time to the right.

use std::ops::RangeInclusive;

use unicode_width::UnicodeWidthChar as _;

use crate::explain::Explanation;
use crate::words::{Group, ms};

/// How many columns the window may have.
const COLUMNS: RangeInclusive<usize> = 20..=60;
/// How wide a row's title is.
const TITLE: usize = 34;
/// Between title and window.
const GAP: usize = 2;
/// How many rows are drawn; the others share the last one.
const ROWS: usize = 12;
/// From nothing to the whole of a column.
const SHADES: [char; 5] = [' ', '\u{2591}', '\u{2592}', '\u{2593}', '\u{2588}'];

/// Draws the groups in the order in which they begin, for a terminal of `width` columns, if it has one.
pub fn draw(explanation: &Explanation, groups: &[Group], width: Option<usize>) -> String {
    let columns = width.map_or(*COLUMNS.end(), |width| width.saturating_sub(TITLE + GAP));
    let columns = columns.clamp(*COLUMNS.start(), *COLUMNS.end());
    let window_ns = explanation.to_ns - explanation.from_ns;
    if window_ns == 0 {
        return String::new();
    }
    let mut row_of = vec![0; explanation.parts.len()];
    for (row, group) in groups.iter().enumerate() {
        group.parts.iter().for_each(|&part| row_of[part] = row.min(ROWS));
    }
    let count = groups.len().min(ROWS + 1);
    let mut rows = vec![vec![0.0; columns]; count];
    for step in &explanation.path {
        for &(part, ns) in &step.shares {
            let place = |ns: u64| (ns - explanation.from_ns) as f64 / window_ns as f64 * columns as f64;
            let share = ns as f64 / (step.to_ns - step.from_ns) as f64;
            spread(&mut rows[row_of[part]], place(step.from_ns), place(step.to_ns), share);
        }
    }
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by_key(|&row| rows[row].iter().position(|share| *share > 0.0));
    let mut text = format!("{:TITLE$}{:GAP$}0{:>width$}\n", "", "", ms(window_ns), width = columns - 1);
    for row in order {
        let title = if row == ROWS { "others" } else { &groups[row].title };
        let cells: String = rows[row].iter().map(|&share| shade(share)).collect();
        text.push_str(&format!("{}{:GAP$}{}\n", fitted(title), "", cells.trim_end()));
    }
    text
}

/// Adds `share` of the time between two places to the columns that it covers.
fn spread(row: &mut [f64], from: f64, to: f64, share: f64) {
    let mut column = (from as usize).min(row.len() - 1);
    while column < row.len() && (column as f64) < to {
        let covered = to.min(column as f64 + 1.0) - from.max(column as f64);
        row[column] += covered.max(0.0) * share;
        column += 1;
    }
}

fn shade(share: f64) -> char {
    let last = SHADES.len() - 1;
    match share {
        // Whatever happened is seen.
        _ if share > 0.0 => SHADES[((share * last as f64).round() as usize).clamp(1, last)],
        _ => SHADES[0],
    }
}

/// A title cut or padded to [`TITLE`] columns.
fn fitted(title: &str) -> String {
    let mut text = String::new();
    let mut width = 0;
    for letter in title.chars() {
        let letters = letter.width().unwrap_or(0);
        if width + letters > TITLE {
            break;
        }
        text.push(letter);
        width += letters;
    }
    text.extend(std::iter::repeat_n(' ', TITLE - width));
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::explain::{Cause, Part, Step};
    use crate::words::groups;

    #[test]
    fn rows_begin_in_order_and_show_how_much() {
        let part = |cause, ns| Part { cause, subject: None, class: None, on_behalf: None, ns, times: 1 };
        let step = |from_ns, to_ns, shares| Step {
            from_ns,
            to_ns,
            thread: "a".to_owned(),
            tid: 7,
            cpu: None,
            khz: None,
            shares,
        };
        let explanation = Explanation {
            thread: "a".to_owned(),
            tid: 7,
            process: 7,
            from_ns: 1000,
            to_ns: 1600,
            parts: vec![part(Cause::Sleeping, 300), part(Cause::FullSpeed, 150), part(Cause::Frequency, 150)],
            path: vec![step(1000, 1300, vec![(1, 150), (2, 150)]), step(1300, 1600, vec![(0, 300)])],
            waits: BTreeMap::new(),
        };
        let groups = groups(&explanation);
        for (width, columns) in [(None, 60), (Some(120), 60), (Some(80), 44), (Some(60), 24), (Some(10), 20)] {
            let text = draw(&explanation, &groups, width);
            let rows: Vec<&str> = text.lines().collect();
            let (half, none) = ("\u{2592}".repeat(columns / 2), " ".repeat(columns / 2));
            assert_eq!(rows[0].chars().count(), TITLE + GAP + columns, "{text}");
            assert_eq!(rows[1], format!("{:TITLE$}  {half}", "running at full speed"));
            assert_eq!(rows[2], format!("{:TITLE$}  {half}", "running slowed by frequency"));
            assert!(rows[3].starts_with("sleeping "), "{text}");
            assert!(rows[3].ends_with(&format!("  {none}{}", "\u{2588}".repeat(columns / 2))), "{text}");
        }
    }
}
