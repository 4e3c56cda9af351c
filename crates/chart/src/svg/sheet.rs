//! The drawing surface: elements in two layers, so that time lines lie below everything.

use std::fmt::Write as _;

use crate::columns::{TimeScale, runs};
use brisk_report::svg::{Anchor, escape};

/// A chart being drawn.
pub struct Sheet {
    /// Maps times to x coordinates.
    pub scale: TimeScale,
    /// The lower layer.
    pub under: String,
    /// The upper layer.
    pub over: String,
}

impl Sheet {
    /// An empty sheet.
    pub fn new(scale: TimeScale) -> Self {
        Self { scale, under: String::new(), over: String::with_capacity(256 * 1024) }
    }

    /// A line of text with its baseline at `at`.
    pub fn text(&mut self, class: &str, anchor: Anchor, at: (f64, f64), text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        let (x, y) = at;
        let _ = writeln!(self.over, "<text{class}{anchor} x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escape(text));
    }

    /// A rectangle, with a tooltip where one is given.
    pub fn rectangle(&mut self, class: &str, corner: (f64, f64), size: (f64, f64), tooltip: &str) {
        let ((x, y), (width, height)) = (corner, size);
        let _ = write!(
            self.over,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{height:.1}\"",
            width.max(0.8)
        );
        self.over.push_str(&if tooltip.is_empty() {
            "/>\n".to_owned()
        } else {
            format!("><title>{}</title></rect>\n", escape(tooltip))
        });
    }

    /// A path of the given data, in the upper layer.
    pub fn path(&mut self, class: &str, data: &str) {
        if !data.is_empty() {
            let _ = writeln!(self.over, "<path class=\"{class}\" d=\"{data}\"/>");
        }
    }

    /// Fills the area between two series of heights above `base`, column by column; heights are shares of `height`.
    pub fn area(&mut self, class: &str, base: f64, height: f64, low: &[f32], high: &[f32]) {
        let level = |share: f32| (f64::from(share.clamp(0.0, 1.0)) * height * 2.0).round() as i64;
        let left = self.scale.left;
        let mut data = String::new();
        for (start, end, (bottom, top)) in runs(low.iter().zip(high).map(|(&low, &high)| (level(low), level(high)))) {
            if top > bottom {
                let (x, y) = (left + start as f64, base - top as f64 / 2.0);
                let (width, tall) = (end - start, (top - bottom) as f64 / 2.0);
                let _ = write!(data, "M{x} {y}h{width}v{tall}h-{width}z");
            }
        }
        self.path(class, &data);
    }

    /// A line through shares of `height` above `base`, column by column; `None` is a gap.
    pub fn steps(&mut self, class: &str, base: f64, height: f64, values: &[Option<f32>]) {
        let level = |share: f32| (f64::from(share.clamp(0.0, 1.0)) * height * 2.0).round() as i64;
        let left = self.scale.left;
        let (mut data, mut pen_is_down) = (String::new(), false);
        for (start, end, value) in runs(values.iter().map(|value| value.map(level))) {
            let Some(level) = value else {
                pen_is_down = false;
                continue;
            };
            let (x, y, end) = (left + start as f64, base - level as f64 / 2.0, left + end as f64);
            let _ = if pen_is_down { write!(data, "V{y}H{end}") } else { write!(data, "M{x} {y}H{end}") };
            pen_is_down = true;
        }
        self.path(class, &data);
    }

    /// Times at the top and the bottom, with lines between them, and the line at which the work ended.
    pub fn grid(&mut self, top: f64, bottom: f64, done_ms: u32) {
        let mut lines = String::new();
        for (ms, label) in self.scale.ticks(75.0) {
            let x = self.scale.x_of(ms).round() + 0.5;
            let _ = write!(lines, "M{x} {top:.0}V{bottom:.0}");
            let unit = if label.contains(':') { "" } else { " s" };
            self.text("small", Anchor::Middle, (x, top - 4.0), &label);
            self.text("small", Anchor::Middle, (x, bottom + 14.0), &format!("{label}{unit}"));
        }
        let _ = writeln!(self.under, "<path class=\"rule\" d=\"{lines}\"/>");
        if done_ms > self.scale.span.start_ms
            && self.scale.span.end_ms.saturating_sub(done_ms) > self.scale.span.length_ms() / 50
        {
            let x = self.scale.x_of(done_ms).round() + 0.5;
            self.path("done", &format!("M{x} {top:.0}V{bottom:.0}"));
        }
    }
}
