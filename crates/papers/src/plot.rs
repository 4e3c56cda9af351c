//! Bars of a table or a figure: the paper's figure, its method here, and brisk, row by row.

use brisk_report::figure::{self, ScaledUnit};
use brisk_report::plot::Size;
use brisk_report::svg::{self, Anchor, Canvas, Caption, LABEL_SIZE, SMALL_SIZE, Scale};

use crate::comparison::{ComparedPart, ComparedRow};
use crate::results::Figure;

/// The style of what only these drawings have.
pub const STYLE: &str = include_str!("../templates/papers-plot.css");

const BAR: f64 = 13.0;
const BAR_STEP: f64 = 17.0;
/// Between two rows.
const GAP: f64 = 12.0;
/// The room right of the longest bar, for its figure.
const FIGURE_ROOM: f64 = 150.0;
/// The room left of the bars in a wide drawing, for the row's name.
const NAME_ROOM: f64 = 200.0;
/// Some letters begin left of their position.
const NAME_LEFT: f64 = 2.0;

/// A longer unit is a word.
const LONGEST_UNIT: usize = 5;

/// The classes of the two measured bars, with the colours of series.
const METHOD: &str = "series-2";
const BRISK: &str = "series-1";

/// The bars of `part`, for a page; `id` must be unique there. `None` where no row has a measured figure in the paper's unit.
pub fn bars(part: &ComparedPart, size: Size, id: &str) -> Option<String> {
    let rows: Vec<&ComparedRow> = part.rows.iter().filter(|row| is_measured(row)).collect();
    let unit = &rows.first()?.unit;
    let rows: Vec<&ComparedRow> = rows.into_iter().filter(|row| row.unit == *unit).collect();
    let layout = Layout::of(&rows, unit, size);
    let mut canvas = Canvas::new(size.width());
    let top = legend(&mut canvas, size);
    let mut marks = Canvas::new(size.width());
    let mut y = top;
    for row in &rows {
        y = layout.row(&mut marks, row, y) + GAP;
    }
    let bottom = y - GAP / 2.0;
    for (value, label) in layout.scale.ticks(SMALL_SIZE) {
        let x = layout.scale.position(value);
        canvas.line(if value == 0.0 { "axis" } else { "rule" }, (x, top), (x, bottom));
        let middle = svg::middle_inside(x, &label, SMALL_SIZE, size.width());
        canvas.text("small", Anchor::Middle, (middle, bottom + 15.0), &label);
    }
    canvas.append(&marks);
    canvas.text("small", Anchor::End, (size.width(), bottom + 15.0), &layout.scaled.unit);
    let title = format!("{}: {}", part.label, part.title);
    let description = rows.iter().map(|row| described(row)).collect::<String>();
    Some(canvas.inline(size.class(), bottom + 22.0, Caption { id, title: &title, description: description.trim() }))
}

/// Whether a figure of `row` can stand beside the paper's.
fn is_measured(row: &ComparedRow) -> bool {
    [&row.method, &row.brisk].into_iter().flatten().any(|figure| figure.unit == row.unit)
}

fn described(row: &ComparedRow) -> String {
    format!(
        "{}: paper {}, its method here {}, brisk {}. ",
        row.what,
        row.paper_cell(),
        row.method_cell(),
        row.brisk_cell()
    )
}

struct Layout {
    size: Size,
    scaled: ScaledUnit,
    scale: Scale,
}

impl Layout {
    fn of(rows: &[&ComparedRow], unit: &str, size: Size) -> Self {
        let values = || {
            let measured = rows.iter().flat_map(|row| [&row.method, &row.brisk]).flatten().filter(|it| it.unit == unit);
            let ends = measured
                .flat_map(|figure| figure.interval.unwrap_or([figure.value; 2]).into_iter().chain([figure.value]));
            ends.chain(rows.iter().filter_map(|row| row.value).flatten()).filter(|value| value.is_finite())
        };
        let scaled = figure::scale(unit, values().map(f64::abs).fold(0.0, f64::max));
        let range = match size {
            Size::Wide => (NAME_ROOM, size.width() - FIGURE_ROOM),
            Size::Narrow => (6.0, size.width() - FIGURE_ROOM * 0.75),
        };
        let scale = Scale::containing(values().map(|value| value * scaled.factor).chain([0.0]), range);
        Self { size, scaled, scale }
    }

    /// One row: its name, and up to three bars. Returns the bottom of the last.
    fn row(&self, canvas: &mut Canvas, row: &ComparedRow, top: f64) -> f64 {
        let mut y = top;
        let lines = match self.size {
            Size::Wide => svg::wrap(&row.what, LABEL_SIZE, NAME_ROOM - NAME_LEFT - 12.0),
            Size::Narrow => svg::wrap(&row.what, LABEL_SIZE, self.size.width() - NAME_LEFT),
        };
        for (index, line) in lines.iter().enumerate() {
            canvas.text("arm", Anchor::Start, (NAME_LEFT, top + 12.0 + 16.0 * index as f64), line);
        }
        let name_bottom = top + 16.0 * lines.len() as f64;
        if self.size == Size::Narrow {
            y = name_bottom + 3.0;
        }
        if let Some(value) = row.value {
            self.paper(canvas, value, &row.paper_cell(), y);
            y += BAR_STEP;
        }
        for (figure, class) in [(&row.method, METHOD), (&row.brisk, BRISK)] {
            if let Some(figure) = figure.as_ref().filter(|figure| figure.unit == row.unit) {
                canvas.group(class, "", |canvas| self.measured(canvas, figure, y));
                y += BAR_STEP;
            }
        }
        y.max(name_bottom)
    }

    /// The paper's bar; a range has a bar to its upper end, and a line at its lower one.
    fn paper(&self, canvas: &mut Canvas, value: [f64; 2], printed: &str, y: f64) {
        let [low, high] = value.map(|value| value * self.scaled.factor);
        let far = if high.abs() >= low.abs() { high } else { low };
        let end = self.bar(canvas, "paper-bar", far, y);
        if low < high {
            let x = self.scale.position(if far == high { low } else { high });
            canvas.line("paper-range", (x, y), (x, y + BAR));
        }
        let room = self.size.width() - end - 8.0;
        canvas.text("small", Anchor::Start, (end + 6.0, y + 10.5), &svg::fit(printed, SMALL_SIZE, room));
    }

    fn measured(&self, canvas: &mut Canvas, figure: &Figure, y: f64) {
        let factor = self.scaled.factor;
        let value = figure.value * factor;
        let mut end = self.bar(canvas, "bar", value, y);
        let interval = figure.interval.map(|interval| interval.map(|end| end * factor));
        if let Some(interval) = interval {
            let [low, high] = interval.map(|end| self.scale.position(end));
            canvas.line("whisker", (low, y + BAR / 2.0), (high, y + BAR / 2.0));
            [low, high].into_iter().for_each(|x| canvas.line("whisker", (x, y + 3.0), (x, y + BAR - 3.0)));
            end = end.max(high);
        }
        // A unit that is a word stands at the axis alone: a narrow drawing has no room for it.
        let unit =
            Some(self.scaled.unit.as_str()).filter(|unit| unit.chars().count() <= LONGEST_UNIT).unwrap_or_default();
        let text = figure::with_unit(value, interval.unwrap_or([f64::NAN; 2]), unit);
        canvas.text("", Anchor::Start, (end + 6.0, y + 11.0), &text);
    }

    /// A bar from zero to `value`. Returns where its right end is.
    fn bar(&self, canvas: &mut Canvas, class: &str, value: f64, y: f64) -> f64 {
        let [zero, end] = [0.0, value].map(|value| self.scale.position(value));
        let (left, right) = (zero.min(end), zero.max(end));
        canvas.rectangle(class, (left, y), (right - left, BAR), 1.5);
        right
    }
}

/// What the three bars are. Returns the top of the rows.
fn legend(canvas: &mut Canvas, size: Size) -> f64 {
    let (mut x, mut y) = (0.0, 12.0);
    for (class, group, text) in [
        ("paper-bar", "", "the paper"),
        ("bar", METHOD, "its method here"),
        ("bar", BRISK, "brisk"),
        ("whisker", "", "95 % interval"),
    ] {
        let width = 20.0 + svg::text_width(text, SMALL_SIZE) + 16.0;
        if x > 0.0 && x + width > size.width() + 16.0 {
            (x, y) = (0.0, y + 19.0);
        }
        canvas.group(group, "", |canvas| {
            if class == "whisker" {
                canvas.line(class, (x, y - 4.0), (x + 13.0, y - 4.0));
            } else {
                canvas.rectangle(class, (x, y - 10.0), (13.0, 11.0), 1.5);
            }
        });
        canvas.text("small", Anchor::Start, (x + 20.0, y), text);
        x += width;
    }
    y + 14.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Verdict;

    fn figure(value: f64, interval: Option<[f64; 2]>, unit: &str) -> Option<Figure> {
        let (experiment, arm, unit) = ("e".to_owned(), "a".to_owned(), unit.to_owned());
        Some(Figure { value, interval, count: 9, unit, experiment, arm, quick: false })
    }

    fn row(what: &str, value: Option<[f64; 2]>, method: Option<Figure>, brisk: Option<Figure>) -> ComparedRow {
        ComparedRow {
            what: what.to_owned(),
            paper: "5 %".to_owned(),
            value,
            unit: "%".to_owned(),
            has_brisk: brisk.is_some(),
            method,
            brisk,
            difference: None,
            verdict: Verdict::Reproduced,
            reason: None,
        }
    }

    fn part(rows: Vec<ComparedRow>) -> ComparedPart {
        ComparedPart { label: "Table 1".to_owned(), title: "<T>".to_owned(), note: None, rows }
    }

    #[test]
    fn each_measured_row_has_its_bars() {
        let rows = vec![
            row("both", Some([2.0, 5.0]), figure(4.0, Some([3.0, 5.0]), "%"), figure(-9.0, None, "%")),
            row("words", None, figure(4.0, Some([3.0, 5.0]), "%"), None),
            row("other unit", Some([1.0, 1.0]), figure(4.0, None, "ms"), None),
            row("nothing", Some([1.0, 1.0]), None, None),
        ];
        for size in [Size::Wide, Size::Narrow] {
            let drawing = bars(&part(rows.clone()), size, "id").unwrap();
            // Each kind of bar has one more in the legend.
            assert_eq!(drawing.matches("class=\"paper-bar\"").count(), 1 + 1, "{drawing}");
            assert_eq!(drawing.matches("class=\"bar\"").count(), 2 + 3);
            assert!(drawing.contains("&lt;T&gt;") && !drawing.contains("NaN") && !drawing.contains("other unit"));
        }
        assert_eq!(bars(&part(rows[2..].to_vec()), Size::Wide, "id"), None);
        assert_eq!(bars(&part(Vec::new()), Size::Wide, "id"), None);
    }

    #[test]
    fn no_figure_breaks_the_drawing() {
        for value in [f64::NAN, f64::INFINITY, f64::MAX, f64::MIN_POSITIVE, 0.0] {
            let rows = vec![row("x", Some([value, value]), figure(value, Some([value, value]), "%"), None)];
            let drawing = bars(&part(rows), Size::Wide, "id").unwrap();
            assert!(!drawing.contains("NaN\"") && !drawing.contains("inf"), "{drawing}");
        }
    }
}
