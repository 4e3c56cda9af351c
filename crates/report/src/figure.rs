//! Formats figures: digits that the interval warrants, units, signs; and parses printed figures.

/// Stands for a figure that is not available.
pub const UNAVAILABLE: &str = "\u{2013}";

/// A space that keeps a figure and its unit on one line.
pub const NO_BREAK_SPACE: char = '\u{a0}';

const MINUS: char = '\u{2212}';

/// Writes `value` with `decimals` digits after the point, a true minus sign and no negative zero.
pub fn fixed(value: f64, decimals: usize) -> String {
    if !value.is_finite() {
        return UNAVAILABLE.to_owned();
    }
    if value != 0.0 && (value.abs() >= 1e9 || value.abs() < 1e-4) {
        return format!("{value:.1e}").replace('-', "\u{2212}");
    }
    let text = format!("{:.decimals$}", value.abs());
    if value < 0.0 && text.bytes().any(|byte| byte.is_ascii_digit() && byte != b'0') {
        format!("{MINUS}{text}")
    } else {
        text
    }
}

/// The decimals of `value`: about three or four digits, one more where its interval is narrower than that.
pub fn decimals(value: f64, interval: [f64; 2]) -> usize {
    let decimals = match value.abs() {
        large if large >= 1000.0 => 0,
        large if large >= 10.0 => 1,
        medium if medium >= 1.0 => 2,
        small if small >= 0.1 => 3,
        small if small > 0.0 => 4,
        _ => 1,
    };
    refine_decimals(decimals, interval)
}

fn refine_decimals(decimals: usize, interval: [f64; 2]) -> usize {
    let half_width = (interval[1] - interval[0]) / 2.0;
    let digit = 10f64.powi(-i32::try_from(decimals).unwrap_or(0));
    if half_width > 0.0 && half_width < digit / 2.0 { decimals + 1 } else { decimals }
}

/// `value` with its unit, in the precision that its interval warrants.
pub fn with_unit(value: f64, interval: [f64; 2], unit: &str) -> String {
    join(&fixed(value, decimals_in(value, interval, unit)), unit)
}

/// `[low, high]` in the precision of `value`, without a unit.
pub fn interval(value: f64, interval: [f64; 2], unit: &str) -> String {
    if !interval.iter().all(|end| end.is_finite()) {
        return UNAVAILABLE.to_owned();
    }
    let decimals = decimals_in(value, interval, unit);
    format!("[{},{NO_BREAK_SPACE}{}]", fixed(interval[0], decimals), fixed(interval[1], decimals))
}

/// A gain in percent, with its sign.
pub fn change(percent: f64, interval: [f64; 2]) -> String {
    if !percent.is_finite() {
        return UNAVAILABLE.to_owned();
    }
    let text = fixed(percent, decimals_in(percent, interval, "%"));
    let rises = percent > 0.0 && text.bytes().any(|byte| matches!(byte, b'1'..=b'9'));
    format!("{}{text}{NO_BREAK_SPACE}%", if rises { "+" } else { "" })
}

fn decimals_in(value: f64, interval: [f64; 2], unit: &str) -> usize {
    match unit {
        "%" if value.abs() < 1000.0 => refine_decimals(1, interval),
        "%" => 0,
        _ => decimals(value, interval),
    }
}

/// The longest abbreviation of a unit (`KiB/s`); a longer unit is a word.
const LONGEST_ABBREVIATION: usize = 5;

/// A figure and its unit, kept on one line unless the unit is a word (`15.0 applications`).
pub fn join(figure: &str, unit: &str) -> String {
    if unit.is_empty() || figure == UNAVAILABLE {
        return figure.to_owned();
    }
    let is_word = unit.chars().count() > LONGEST_ABBREVIATION;
    format!("{figure}{}{unit}", if is_word { ' ' } else { NO_BREAK_SPACE })
}

/// A unit to show figures in, and what to multiply them by.
#[derive(Debug, Clone, PartialEq)]
pub struct ScaledUnit {
    pub unit: String,
    /// A figure in the original unit times this is one in `unit`.
    pub factor: f64,
}

/// The unit in which `largest` has at most four digits before the point, where there is such a larger unit.
pub fn scale(unit: &str, largest: f64) -> ScaledUnit {
    const LADDERS: [&[(&str, f64)]; 4] = [
        &[("ns", 1e3), ("us", 1e3), ("ms", 1e3), ("s", 1.0)],
        &[("nJ", 1e3), ("uJ", 1e3), ("mJ", 1e3), ("J", 1.0)],
        &[("uW", 1e3), ("mW", 1e3), ("W", 1.0)],
        &[("KiB", 1024.0), ("MiB", 1024.0), ("GiB", 1.0)],
    ];
    let ascii = unit.replace(['\u{b5}', '\u{3bc}'], "u");
    let mut scaled = ScaledUnit { unit: ascii.clone(), factor: 1.0 };
    if let Some((ladder, at)) =
        LADDERS.iter().find_map(|ladder| Some((ladder, ladder.iter().position(|rung| rung.0 == ascii)?)))
    {
        for pair in ladder[at..].windows(2) {
            let large = largest.is_finite() && largest.abs() * scaled.factor >= 10_000.0;
            if !large {
                break;
            }
            scaled = ScaledUnit { unit: pair[1].0.to_owned(), factor: scaled.factor / pair[0].1 };
        }
        scaled.unit = scaled.unit.replace('u', "\u{b5}");
    } else {
        unit.clone_into(&mut scaled.unit);
    }
    scaled
}

/// Parses a printed figure or range in `unit` (`8.1 %`, `2 to 5 %`, `0.5 % less`): its ends, lower first. Less, shorter and
/// faster are gains, which are positive; more, longer and slower are negative.
///
/// `None` where the text holds no figure, more than a range, or another unit: then it is shown, not drawn.
pub fn printed_range(text: &str, unit: &str) -> Option<[f64; 2]> {
    let text = text.trim();
    if let Some(loss) = ["more", "longer", "slower"].iter().find_map(|word| text.strip_suffix(word)) {
        return printed_range(loss, unit).map(|[low, high]| [-high, -low]);
    }
    let gain = ["less", "shorter", "faster"].iter().find_map(|word| text.strip_suffix(word)).unwrap_or(text);
    let rest = gain.trim_end().strip_suffix(unit)?.trim_end();
    let (first, after) = leading_number(rest)?;
    let after = after.trim().trim_start_matches(unit).trim();
    if after.is_empty() {
        return Some([first, first]);
    }
    let second = ["to", "..", "\u{2026}", "\u{2013}"].iter().find_map(|word| after.strip_prefix(word))?;
    let (second, end) = leading_number(second.trim())?;
    end.trim().is_empty().then_some([first.min(second), first.max(second)])
}

fn leading_number(text: &str) -> Option<(f64, &str)> {
    let (sign, digits) = match text.strip_prefix(['-', MINUS]) {
        Some(digits) => (-1.0, digits),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    // Two points in a row are a range (`2..5`), not a number.
    let mut end = digits.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(digits.len());
    end = digits.find("..").map_or(end, |range| range.min(end));
    let value: f64 = digits[..end].parse().ok()?;
    value.is_finite().then_some((sign * value, &digits[end..]))
}

/// A paper's figure in this report's typography: true minus signs, and no break before a short unit.
pub fn printed(text: &str) -> String {
    let mut pretty = String::with_capacity(text.len());
    let mut characters = text.trim().chars().peekable();
    let mut before = ' ';
    while let Some(character) = characters.next() {
        let next_is_digit = characters.peek().is_some_and(char::is_ascii_digit);
        pretty.push(match character {
            '-' if next_is_digit && matches!(before, ' ' | '[' | '(') => MINUS,
            ' ' if before.is_ascii_digit() && characters.peek() == Some(&'%') => NO_BREAK_SPACE,
            other => other,
        });
        before = character;
    }
    pretty
}

/// A requirement on a claim's figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FigureRequirement {
    /// At least this.
    AtLeast(f64),
    /// At most this.
    AtMost(f64),
    /// At most this far from zero, either way.
    Within(f64),
}

impl FigureRequirement {
    /// The lower and the upper bound of figures that meet it.
    pub fn bounds(self) -> [Option<f64>; 2] {
        match self {
            Self::AtLeast(bound) => [Some(bound), None],
            Self::AtMost(bound) => [None, Some(bound)],
            Self::Within(bound) => [Some(-bound.abs()), Some(bound.abs())],
        }
    }
}

/// Reads a requirement as claims write it (`>= 90`, `< 1`, `within 1`); `None` for anything else, such as `reported`.
pub fn requirement(text: &str) -> Option<FigureRequirement> {
    let text = text.trim();
    let (requirement, rest): (fn(f64) -> FigureRequirement, &str) =
        if let Some(rest) = text.strip_prefix(['>', '\u{2265}']) {
            (FigureRequirement::AtLeast, rest)
        } else if let Some(rest) = text.strip_prefix(['<', '\u{2264}']) {
            (FigureRequirement::AtMost, rest)
        } else {
            (FigureRequirement::Within, text.strip_prefix("within ")?)
        };
    let (value, end) = leading_number(rest.trim_start_matches('=').trim())?;
    // A unit may follow; another condition may not.
    (!end.contains(['<', '>', '='])).then(|| requirement(value))
}

/// A requirement as printed: typographic signs and its unit.
pub fn requirement_text(text: &str, unit: &str) -> String {
    let pretty = text.trim().replace(">=", "\u{2265}").replace("<=", "\u{2264}").replace(" -", " \u{2212}");
    let bare = requirement(text).is_some() && !unit.is_empty() && !pretty.ends_with(unit);
    if bare { format!("{pretty}{NO_BREAK_SPACE}{unit}") } else { pretty }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_the_digits_that_their_interval_warrants() {
        let table = [
            (312.44, [311.9, 312.8], "ms", "312.4\u{a0}ms"),
            (312.44, [312.43, 312.45], "ms", "312.44\u{a0}ms"),
            (1234.5, [1200.0, 1300.0], "ms", "1234\u{a0}ms"),
            (52.123, [51.0, 53.0], "ms", "52.1\u{a0}ms"),
            (0.0, [0.0, 0.0], "", "0.0"),
            (-8.13, [-8.4, -7.9], "%", "\u{2212}8.1\u{a0}%"),
            (-1563.94, [-1981.5, -1507.8], "%", "\u{2212}1564\u{a0}%"),
            (15.0, [15.0, 15.0], "applications", "15.0 applications"),
            (f64::NAN, [f64::NAN; 2], "ms", UNAVAILABLE),
            (f64::INFINITY, [0.0; 2], "ms", UNAVAILABLE),
            (-1e-9, [0.0; 2], "s", "\u{2212}1.0e\u{2212}9\u{a0}s"),
            (f64::MAX, [0.0; 2], "", "1.8e308"),
        ];
        for (value, interval, unit, expected) in table {
            assert_eq!(with_unit(value, interval, unit), expected, "{value} {interval:?}");
        }
        assert_eq!(fixed(-0.04, 1), "0.0", "no negative zero");
        assert_eq!(change(0.04, [-1.0, 1.0]), "0.0\u{a0}%");
        assert_eq!(change(2.0, [1.0, 3.0]), "+2.0\u{a0}%");
        assert_eq!(interval(f64::NAN, [1.0, f64::NAN], "ms"), UNAVAILABLE);
    }

    #[test]
    fn reads_printed_figures() {
        let table = [
            ("-8.1 %", "%", Some([-8.1, -8.1])),
            ("\u{2212}8.1\u{a0}%", "%", Some([-8.1, -8.1])),
            ("+3 %", "%", Some([3.0, 3.0])),
            ("-2 to -5 %", "%", Some([-5.0, -2.0])),
            ("2\u{2013}5 %", "%", Some([2.0, 5.0])),
            ("2..5 %", "%", Some([2.0, 5.0])),
            ("-2 % to -5 %", "%", Some([-5.0, -2.0])),
            ("0.53 % less", "%", Some([0.53, 0.53])),
            ("2 to 3 % more", "%", Some([-3.0, -2.0])),
            ("16.041 mWh", "mWh", Some([16.041, 16.041])),
            ("-8.1 %", "ms", None),
            ("-10.6/-8.1 %", "%", None),
            ("", "%", None),
            ("%", "%", None),
            ("about half", "", None),
            ("1.2.3", "", None),
        ];
        for (text, unit, expected) in table {
            assert_eq!(printed_range(text, unit), expected, "{text:?}");
        }
    }

    #[test]
    fn a_papers_figures_get_the_reports_typography() {
        assert_eq!(printed("-2 to -5 %"), "\u{2212}2 to \u{2212}5\u{a0}%");
        assert_eq!(printed("not-measured, A4-5"), "not-measured, A4-5");
    }

    #[test]
    fn reads_requirements() {
        let table = [
            (">= 90", Some(FigureRequirement::AtLeast(90.0))),
            ("> 1 %", Some(FigureRequirement::AtLeast(1.0))),
            ("<= -8", Some(FigureRequirement::AtMost(-8.0))),
            ("\u{2264} 8 ms", Some(FigureRequirement::AtMost(8.0))),
            ("within 1", Some(FigureRequirement::Within(1.0))),
            ("reported", None),
            ("", None),
            (">= 1 and <= 2", None),
        ];
        for (text, expected) in table {
            assert_eq!(requirement(text), expected, "{text:?}");
        }
        assert_eq!(requirement_text(">= 90", "%"), "\u{2265} 90\u{a0}%");
        assert_eq!(requirement_text("reported", "%"), "reported");
    }

    #[test]
    fn units_grow_with_their_figures() {
        assert_eq!(scale("ms", 800.0), ScaledUnit { unit: "ms".into(), factor: 1.0 });
        assert_eq!(scale("uJ", 123_456.0), ScaledUnit { unit: "mJ".into(), factor: 1e-3 });
        assert_eq!(scale("\u{b5}J", 12.0), ScaledUnit { unit: "\u{b5}J".into(), factor: 1.0 });
        assert_eq!(scale("us", 2e10).unit, "s");
        assert_eq!(scale("us", 2e30).unit, "s");
        assert_eq!(scale("furlong", 1e12), ScaledUnit { unit: "furlong".into(), factor: 1.0 });
        assert_eq!(scale("ms", f64::NAN).unit, "ms");
    }
}
