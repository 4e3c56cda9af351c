//! Estimates with their intervals, one below the other.

use brisk_report::figure::{self, ScaledUnit};
use brisk_report::plot::Size;
use brisk_report::svg::{self, Anchor, Canvas, Caption, LABEL_SIZE, SMALL_SIZE, Scale};

/// A row of a drawing.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimate {
    /// What is estimated.
    pub label: String,
    pub value: f64,
    /// Its 95 % interval, where it has one.
    pub interval: Option<[f64; 2]>,
    /// Its colour: a series of the report's drawings.
    pub series: usize,
}

/// A drawing of estimates in one unit.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimates {
    pub title: String,
    pub unit: &'static str,
    pub rows: Vec<Estimate>,
}

/// More rows are left to the table.
pub const MOST_ROWS: usize = 40;
const ROW: f64 = 26.0;
const NAME_ROOM: f64 = 300.0;
const FIGURE_ROOM: f64 = 140.0;

impl Estimates {
    /// The drawing in both sizes, the wide one first; `id` must be unique in the page. `None` without rows.
    pub fn draw(&self, id: &str) -> Option<[String; 2]> {
        (!self.rows.is_empty()).then(|| Size::both(id, |size, id| self.draw_in(size, id)))
    }

    fn draw_in(&self, size: Size, id: &str) -> String {
        let rows = &self.rows[..self.rows.len().min(MOST_ROWS)];
        let ends = || rows.iter().flat_map(|row| row.interval.unwrap_or([row.value; 2]).into_iter().chain([row.value]));
        let scaled = figure::scale(self.unit, ends().map(f64::abs).fold(0.0, f64::max));
        let range = match size {
            Size::Wide => (NAME_ROOM, size.width() - FIGURE_ROOM),
            Size::Narrow => (6.0, size.width() - FIGURE_ROOM * 0.8),
        };
        let scale = Scale::containing(ends().map(|end| end * scaled.factor).chain([0.0]), range);
        let mut marks = Canvas::new(size.width());
        let mut y = 8.0;
        for row in rows {
            y = mark(&mut marks, row, (&scaled, &scale), size, y);
        }
        let mut canvas = Canvas::new(size.width());
        for (value, label) in scale.ticks(SMALL_SIZE) {
            let x = scale.position(value);
            canvas.line(if value == 0.0 { "axis" } else { "rule" }, (x, 4.0), (x, y));
            canvas.text("small", Anchor::Middle, (x, y + 15.0), &label);
        }
        canvas.append(&marks);
        canvas.text("small", Anchor::End, (size.width(), y + 15.0), &scaled.unit);
        let described = rows.iter().map(|row| format!("{}: {}. ", row.label, self.figure(row)));
        let description: String = described.collect();
        canvas.inline(size.class(), y + 22.0, Caption { id, title: &self.title, description: description.trim() })
    }

    fn figure(&self, row: &Estimate) -> String {
        let ends = row.interval.unwrap_or([f64::NAN; 2]);
        figure::with_unit(row.value, ends, self.unit) + " " + &figure::interval(row.value, ends, self.unit)
    }
}

/// Draws a row from `top`, and returns its bottom.
fn mark(canvas: &mut Canvas, row: &Estimate, (scaled, scale): (&ScaledUnit, &Scale), size: Size, top: f64) -> f64 {
    let (room, middle) = match size {
        Size::Wide => (NAME_ROOM - 14.0, top + ROW / 2.0),
        Size::Narrow => (size.width(), top + ROW * 0.6 + ROW / 2.0),
    };
    let label_y = if size == Size::Wide { middle + 4.5 } else { top + 12.0 };
    canvas.text("arm", Anchor::Start, (0.0, label_y), &svg::fit(&row.label, LABEL_SIZE, room));
    let value = row.value * scaled.factor;
    let ends = row.interval.map(|interval| interval.map(|end| end * scaled.factor));
    let mut right = scale.position(value);
    let class = format!("series-{}", row.series % svg::SERIES_COLOURS);
    canvas.group(&class, "", |canvas| {
        if let Some(ends) = ends {
            let [low, high] = ends.map(|end| scale.position(end));
            canvas.rectangle("interval", (low, middle - 5.0), (high - low, 10.0), 2.0);
            right = right.max(high);
        }
        let x = scale.position(value);
        canvas.line("median", (x, middle - 7.0), (x, middle + 7.0));
    });
    let figure = figure::with_unit(value, ends.unwrap_or([f64::NAN; 2]), &scaled.unit);
    canvas.text("", Anchor::Start, (right + 8.0, middle + 4.5), &figure);
    middle + ROW / 2.0 + if size == Size::Wide { 0.0 } else { 4.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_is_drawn_and_no_figure_breaks_it() {
        for value in [1.5, 0.0, -3.0, f64::NAN, f64::INFINITY, f64::MAX] {
            let row = |interval| Estimate { label: "<M>".to_owned(), value, interval, series: 9 };
            let rows = vec![row(Some([value, value])), row(None)];
            let drawing = Estimates { title: "T".to_owned(), unit: "ms", rows }.draw("id").unwrap();
            for text in drawing {
                assert_eq!(text.matches("class=\"median\"").count(), 2, "{text}");
                assert!(text.contains("&lt;M&gt;") && !text.contains("NaN") && !text.contains("inf\""), "{text}");
            }
        }
        assert_eq!(Estimates { title: String::new(), unit: "ms", rows: Vec::new() }.draw("id"), None);
    }
}
