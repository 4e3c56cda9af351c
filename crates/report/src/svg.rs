//! Primitives of plots in SVG: a canvas that escapes, scales with round ticks, and text that is measured before it is
//! placed, so that it never overlaps.
//!
//! Colours are classes and CSS variables ([`STYLE`]), so that one drawing serves light and dark.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthChar as _;

/// Number of distinct colours; further arms reuse them. Rows are labelled, so colour only helps.
pub const SERIES_COLOURS: usize = 7;

/// The size of labels, in user units.
pub const LABEL_SIZE: f64 = 13.0;

/// The size of tick labels and legends.
pub const SMALL_SIZE: f64 = 11.5;

/// The style of drawings: text, strokes, and the colours of series (after Okabe and Ito, safe for the colour-blind).
pub const STYLE: &str = include_str!("../templates/plot.css");

/// The part of a text that its position refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// The left end.
    Start,
    /// The middle.
    Middle,
    /// The right end.
    End,
}

/// A drawing's description for screen readers.
#[derive(Debug, Clone, Copy)]
pub struct Caption<'a> {
    /// An identifier that is unique in the page; letters, digits and hyphens.
    pub id: &'a str,
    /// Its name.
    pub title: &'a str,
    /// What it shows.
    pub description: &'a str,
}

/// A drawing that grows downwards.
#[derive(Debug, Clone)]
pub struct Canvas {
    width: f64,
    body: String,
}

impl Canvas {
    /// Begins a drawing `width` user units wide.
    pub fn new(width: f64) -> Self {
        Self { width, body: String::new() }
    }

    /// A straight line.
    pub fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let ((x1, y1), (x2, y2)) = ((round(from.0), round(from.1)), (round(to.0), round(to.1)));
        self.put(format_args!(r#"<line class="{}" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>"#, escape(class)));
    }

    /// A rectangle with round corners, at least half a unit wide so that it is visible.
    pub fn rectangle(&mut self, class: &str, corner: (f64, f64), size: (f64, f64), radius: f64) {
        let (x, y, width, height) = (round(corner.0), round(corner.1), round(size.0.max(0.5)), round(size.1.max(0.5)));
        let class = escape(class);
        self.put(format_args!(
            r#"<rect class="{class}" x="{x}" y="{y}" width="{width}" height="{height}" rx="{radius}"/>"#
        ));
    }

    /// Round dots, in one element.
    pub fn dots(&mut self, class: &str, centres: impl IntoIterator<Item = (f64, f64)>) {
        let mut path = String::new();
        for (x, y) in centres {
            let _ = write!(path, "M{} {}h0", round(x), round(y));
        }
        if !path.is_empty() {
            self.put(format_args!(r#"<path class="{}" d="{path}"/>"#, escape(class)));
        }
    }

    /// A diamond around `centre`.
    pub fn diamond(&mut self, class: &str, centre: (f64, f64), radius: f64) {
        let (x, y, r) = (round(centre.0), round(centre.1), round(radius));
        self.put(format_args!(r#"<path class="{}" d="M{x} {y}m0 -{r}l{r} {r}l-{r} {r}l-{r} -{r}z"/>"#, escape(class)));
    }

    /// A line of text with its baseline at `at`.
    pub fn text(&mut self, class: &str, anchor: Anchor, at: (f64, f64), text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let (class, x, y, text) = (escape(class), round(at.0), round(at.1), escape(text));
        self.put(format_args!(r#"<text class="{class}" text-anchor="{anchor}" x="{x}" y="{y}">{text}</text>"#));
    }

    /// Draws what `draw` does as a group with a tooltip.
    pub fn group(&mut self, class: &str, tooltip: &str, draw: impl FnOnce(&mut Self)) {
        self.put(format_args!(r#"<g class="{}">"#, escape(class)));
        if !tooltip.is_empty() {
            self.put(format_args!("<title>{}</title>", escape(tooltip)));
        }
        draw(self);
        self.body.push_str("</g>\n");
    }

    /// The drawing as an element for an HTML page that holds [`STYLE`].
    pub fn inline(&self, class: &str, height: f64, caption: Caption<'_>) -> String {
        let Caption { id, title, description } = caption;
        let (width, height, class, id) = (round(self.width), round(height), escape(class), escape(id));
        format!(
            "<svg class=\"plot {class}\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
             role=\"img\" aria-labelledby=\"{id}-title {id}-description\">\
             <title id=\"{id}-title\">{}</title><desc id=\"{id}-description\">{}</desc>\n{}</svg>",
            escape(title),
            escape(description),
            self.body
        )
    }

    /// The drawing as an element that screen readers skip, because the page says the same in words.
    pub fn decoration(&self, class: &str, height: f64) -> String {
        let (width, height, class) = (round(self.width), round(height), escape(class));
        let body = &self.body;
        format!(
            "<svg class=\"plot {class}\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
             aria-hidden=\"true\" focusable=\"false\">\n{body}</svg>"
        )
    }

    /// Draws `other` over this.
    pub fn append(&mut self, other: &Self) {
        self.body.push_str(&other.body);
    }

    /// The drawing as a file of its own.
    pub fn standalone(&self, height: f64, caption: Caption<'_>) -> String {
        let element = self.inline("standalone", height, caption);
        let element = element.replacen("<svg ", "<svg xmlns=\"http://www.w3.org/2000/svg\" ", 1);
        element.replacen("</desc>\n", &format!("</desc>\n<style>{STYLE}</style>\n"), 1)
    }

    fn put(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.body, "{element}");
    }
}

/// A tenth of a unit is finer than any screen; what is not finite is drawn at the origin rather than breaking the file.
fn round(value: f64) -> f64 {
    if value.is_finite() { (value.clamp(-1e6, 1e6) * 10.0).round() / 10.0 + 0.0 } else { 0.0 }
}

/// Escapes text for elements and quoted attributes, and drops what XML cannot hold.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\t' | '\n' => escaped.push(' '),
            control if control.is_control() || matches!(control, '\u{fffe}' | '\u{ffff}') => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}

/// The middle of a text that is to be at `x`, moved so that the text is inside a drawing of this width.
pub fn middle_inside(x: f64, text: &str, size: f64, width: f64) -> f64 {
    let half = text_width(text, size) / 2.0;
    x.clamp(half, (width - half).max(half))
}

/// The width of `text` at `size`, judged by the widest of the common sans-serif fonts.
pub fn text_width(text: &str, size: f64) -> f64 {
    let em: f64 = text
        .chars()
        .map(|character| match character {
            'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | ' ' | '\u{a0}' => 0.34,
            'f' | 't' | 'r' | 'I' | '(' | ')' | '[' | ']' | '/' | '-' | '"' => 0.42,
            'm' | 'w' | 'M' | 'W' | '%' | '@' => 0.99,
            '+' | '\u{2212}' | '=' | '<' | '>' | '\u{2192}' => 0.84,
            upper if upper.is_ascii_uppercase() => 0.74,
            ascii if ascii.is_ascii() => 0.64,
            other => 0.85 * other.width().unwrap_or(1).max(1) as f64,
        })
        .sum();
    em * size
}

/// `text`, or as much of its beginning as fits into `width` with an ellipsis.
pub fn fit(text: &str, size: f64, width: f64) -> String {
    if text_width(text, size) <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    for character in text.chars() {
        kept.push(character);
        if text_width(&kept, size) + text_width("\u{2026}", size) > width {
            kept.pop();
            break;
        }
    }
    kept.truncate(kept.trim_end().len());
    kept.push('\u{2026}');
    kept
}

/// `text` in at most two lines of `width`, broken between words where there are any, cut where it is still too long.
pub fn wrap(text: &str, size: f64, width: f64) -> Vec<String> {
    if text_width(text, size) <= width {
        return vec![text.to_owned()];
    }
    let fits = |at: &usize| text_width(text[..*at].trim_end(), size) <= width;
    let breaks = text.char_indices().filter(|(_, c)| matches!(c, ' ' | '-' | '_' | '/'));
    let best = breaks.map(|(at, c)| at + c.len_utf8()).rfind(fits);
    match best {
        Some(at) => vec![text[..at].trim_end().to_owned(), fit(text[at..].trim_start(), size, width)],
        None => vec![fit(text, size, width)],
    }
}

/// Maps values to user units.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    /// The values at the two ends, lower first, apart.
    pub domain: (f64, f64),
    /// The positions of the two ends.
    pub range: (f64, f64),
}

impl Scale {
    /// A scale that holds all finite `values`, with a little room at both ends.
    pub fn containing(values: impl IntoIterator<Item = f64>, range: (f64, f64)) -> Self {
        let (low, high) = values
            .into_iter()
            .filter(|value| value.is_finite())
            .map(|value| value.clamp(-1e300, 1e300))
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        let (low, high) = if low > high { (0.0, 1.0) } else { (low, high) };
        // Identical values still need a width, wide enough that their ticks differ.
        let least = (low.abs().max(high.abs()) * 1e-3).max(f64::MIN_POSITIVE * 1e6);
        let room = ((high - low) * 0.05).max(if high - low < least { least } else { 0.0 });
        Self { domain: (low - room, high + room), range }
    }

    /// The position of `value`, clamped to the range.
    pub fn position(&self, value: f64) -> f64 {
        let share = (value - self.domain.0) / (self.domain.1 - self.domain.0);
        let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
        self.range.0 + share * (self.range.1 - self.range.0)
    }

    /// Round values inside the domain with their labels, as many as fit side by side.
    pub fn ticks(&self, size: f64) -> Vec<(f64, String)> {
        let mut ticks = Vec::new();
        for most in (2..=7).rev() {
            ticks = labelled_ticks(self.domain, most);
            let widest = ticks.iter().map(|(_, label)| text_width(label, size)).fold(0.0, f64::max);
            let fits = |pair: &[(f64, String)]| self.position(pair[1].0) - self.position(pair[0].0) >= widest + size;
            if ticks.windows(2).all(fits) {
                break;
            }
        }
        ticks
    }
}

fn labelled_ticks((low, high): (f64, f64), most: usize) -> Vec<(f64, String)> {
    let rough = (high - low) / most as f64;
    if !rough.is_finite() || rough <= 0.0 {
        return Vec::new();
    }
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].iter().map(|times| times * power).find(|step| *step >= rough);
    let step = step.unwrap_or(10.0 * power);
    // A step of 2.5 needs one decimal more than its magnitude.
    let decimals = (0..12).find(|digits| {
        let scaled = step * 10f64.powi(*digits);
        (scaled - scaled.round()).abs() < 1e-6 * scaled
    });
    let decimals = usize::try_from(decimals.unwrap_or(12)).unwrap_or(0);
    let first = (low / step).ceil();
    (0..=most)
        .map(|index| (first + index as f64) * step)
        .take_while(|value| *value <= high + step * 1e-9)
        .map(|value| (value, super::figure::fixed(value, decimals)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        let table = [
            ((0.0, 10.0), 5, vec!["0", "2", "4", "6", "8", "10"]),
            ((312.3, 351.9), 4, vec!["320", "330", "340", "350"]),
            ((-0.3, 0.3), 3, vec!["\u{2212}0.2", "0.0", "0.2"]),
            ((0.0, 1.0), 4, vec!["0.00", "0.25", "0.50", "0.75", "1.00"]),
        ];
        for (domain, most, expected) in table {
            let labels: Vec<String> = labelled_ticks(domain, most).into_iter().map(|(_, label)| label).collect();
            assert_eq!(labels, expected, "{domain:?}");
        }
    }

    #[test]
    fn a_scale_holds_any_values() {
        for values in [
            vec![],
            vec![5.0],
            vec![0.0, 0.0],
            vec![f64::NAN, f64::INFINITY, 3.0],
            vec![f64::MAX, f64::MIN],
            vec![f64::MIN_POSITIVE],
        ] {
            let scale = Scale::containing(values.iter().copied(), (10.0, 110.0));
            for value in &values {
                let position = scale.position(*value);
                assert!((10.0..=110.0).contains(&position), "{values:?} {position}");
            }
            assert!(scale.ticks(12.0).len() < 12);
        }
    }

    #[test]
    fn tick_labels_keep_apart() {
        for width in [40.0, 120.0, 300.0, 700.0] {
            for (low, high) in [(0.0, 1.0), (123_456.0, 123_457.0), (-1e8, 1e8), (1e-3, 2e-3)] {
                let scale = Scale { domain: (low, high), range: (0.0, width) };
                let ticks = scale.ticks(SMALL_SIZE);
                let spread = ticks.windows(2).all(|pair| {
                    let apart = scale.position(pair[1].0) - scale.position(pair[0].0);
                    apart >= (text_width(&pair[0].1, SMALL_SIZE) + text_width(&pair[1].1, SMALL_SIZE)) / 2.0
                });
                assert!(spread || ticks.len() <= 3, "{width} {low} {high} {ticks:?}");
            }
        }
    }

    #[test]
    fn text_is_cut_to_fit() {
        assert_eq!(fit("stock", 13.0, 100.0), "stock");
        let long = "a rather long name of an arm that does not fit on a label";
        let cut = fit(long, 13.0, 100.0);
        assert!(cut.ends_with('\u{2026}') && text_width(&cut, 13.0) <= 100.0, "{cut}");
        let lines = wrap(long, 13.0, 120.0);
        assert_eq!(lines.len(), 2);
        assert!(lines.iter().all(|line| text_width(line, 13.0) <= 120.0), "{lines:?}");
        assert_eq!(wrap("unbreakable\u{4e2d}\u{4e2d}\u{4e2d}\u{4e2d}\u{4e2d}\u{4e2d}\u{4e2d}", 13.0, 90.0).len(), 1);
        assert_eq!(fit("", 13.0, 0.0), "");
    }

    #[test]
    fn everything_is_escaped() {
        let mut canvas = Canvas::new(100.0);
        canvas.text("a\"b", Anchor::Start, (0.0, f64::NAN), "<script>&\u{1}</script>");
        canvas.group("c", "'<t>'", |canvas| canvas.line("d", (0.0, 0.0), (1.0, 1.0)));
        let text = canvas.standalone(10.0, Caption { id: "x\"y", title: "<b>", description: "&" });
        assert!(!text.contains("<script") && !text.contains("<b>") && !text.contains('\u{1}'), "{text}");
        assert!(text.contains("&#39;&lt;t&gt;&#39;") && text.contains("xmlns="));
    }
}
