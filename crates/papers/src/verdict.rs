//! Decides what a row shows: a pure function of the paper's figure, its tolerance, and the interval of the figure here.
//!
//! The rule: *reproduced* if the 95 % interval reaches the paper's figure, widened by the tolerance (a tenth of the figure unless
//! the row states another), and, for a difference, excludes zero on the paper's side. If it excludes zero on the paper's side
//! alone, only the direction is reproduced. If it holds both the paper's figure and zero, more runs may decide, and so for a level
//! if it holds the paper's figure, half of it and twice it. Otherwise the row is not reproduced.

use serde::Serialize;

use crate::paper::{Expectation, PaperValue, Row, Standing};
use crate::results::Figure;

/// What a row shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The paper's figure, within the tolerance.
    Reproduced,
    /// The paper's direction, another size.
    DirectionOnly,
    /// Another direction, no difference, or another level.
    NotReproduced,
    /// The interval is too wide to tell.
    Undecided,
    /// There is a method here, but no measurement at hand.
    NotOnRecord,
    /// There is no method here yet.
    NotMeasuredYet,
    /// It cannot be measured here.
    CannotHere,
    /// There is nothing to measure.
    Described,
}

/// Whether brisk does better than the paper's method, in the same experiment and metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Difference {
    /// brisk's interval is wholly above.
    Above,
    /// It is wholly below.
    Below,
    /// The intervals overlap.
    Level,
}

impl Verdict {
    /// Every verdict, in the order of a legend.
    pub const ALL: [Self; 8] = [
        Self::Reproduced,
        Self::DirectionOnly,
        Self::NotReproduced,
        Self::Undecided,
        Self::NotOnRecord,
        Self::NotMeasuredYet,
        Self::CannotHere,
        Self::Described,
    ];

    /// The verdict in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::DirectionOnly => "reproduced in direction only",
            Self::NotReproduced => "not reproduced",
            Self::Undecided => "undecided",
            Self::NotOnRecord => "not on record",
            Self::NotMeasuredYet => "not measured yet",
            Self::CannotHere => "cannot be reproduced here",
            Self::Described => "described",
        }
    }

    /// What it means, for a legend.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Reproduced => {
                "The 95 % interval reaches the paper's figure within the tolerance and, for a difference, excludes zero."
            }
            Self::DirectionOnly => "The interval excludes zero on the paper's side, and does not reach its figure.",
            Self::NotReproduced => "The interval reaches neither the paper's figure nor its side of zero alone.",
            Self::Undecided => {
                "The interval holds the paper's figure and also no difference, or half and twice a level: more runs may decide."
            }
            Self::NotOnRecord => "An experiment measures it, but no result of it is at hand.",
            Self::NotMeasuredYet => "No experiment measures it.",
            Self::CannotHere => "It needs what a laboratory without that device does not have.",
            Self::Described => "The paper shows no number; the row says what does or measures the same here.",
        }
    }
}

/// What `row` shows, given the figure of its method.
pub fn verdict(row: &Row, method: Option<&Figure>) -> Verdict {
    match (row.standing(), method) {
        (Standing::CannotHere(_), _) => Verdict::CannotHere,
        (Standing::NotYet(_), _) => Verdict::NotMeasuredYet,
        (Standing::InTree(_), _) => Verdict::Described,
        (Standing::Measured(_), None) => Verdict::NotOnRecord,
        (Standing::Measured(_), Some(figure)) => measured(row, figure.interval),
    }
}

fn measured(row: &Row, interval: Option<[f64; 2]>) -> Verdict {
    if row.expects == Expectation::Unstated {
        return Verdict::Described;
    }
    let Some([low, high]) = interval else { return Verdict::Undecided };
    let tolerance = row.tolerance();
    let reaches = |value: PaperValue| low <= value.high + tolerance && high >= value.low - tolerance;
    let is_on_side = |is_positive: bool| if is_positive { low > 0.0 } else { high < 0.0 };
    match (row.expects, row.value) {
        (Expectation::Effect, Some(value)) => match (reaches(value), is_on_side(value.low > 0.0)) {
            (true, true) => Verdict::Reproduced,
            (true, false) => Verdict::Undecided,
            (false, true) => Verdict::DirectionOnly,
            (false, false) => Verdict::NotReproduced,
        },
        (Expectation::Level, Some(value)) if reaches(value) => {
            let is_wide = low <= value.low / 2.0 && high >= value.high * 2.0;
            if is_wide { Verdict::Undecided } else { Verdict::Reproduced }
        }
        (Expectation::NoEffect, _) if low >= -tolerance && high <= tolerance => Verdict::Reproduced,
        (Expectation::NoEffect, _) if low <= tolerance && high >= -tolerance => Verdict::Undecided,
        (Expectation::Positive | Expectation::Negative, _) => {
            let is_positive = row.expects == Expectation::Positive;
            let reaches_side = if is_positive { high > 0.0 } else { low < 0.0 };
            match (is_on_side(is_positive), reaches_side) {
                (true, _) => Verdict::Reproduced,
                (_, true) => Verdict::Undecided,
                _ => Verdict::NotReproduced,
            }
        }
        _ => Verdict::NotReproduced,
    }
}

/// How brisk's figure differs from that of the paper's method; `None` where the two cannot be compared: other experiments,
/// other units, no interval.
pub fn difference(method: &Figure, brisk: &Figure) -> Option<Difference> {
    if method.experiment != brisk.experiment || method.unit != brisk.unit || method.arm == brisk.arm {
        return None;
    }
    let ([method_low, method_high], [low, high]) = (method.interval?, brisk.interval?);
    Some(if low > method_high {
        Difference::Above
    } else if high < method_low {
        Difference::Below
    } else {
        Difference::Level
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper::Paper;

    fn row(keys: &str) -> Row {
        let text = format!(
            "name = \"x\"\ntitle = \"T\"\nauthors = []\nyear = 2013\nvenue = \"V\"\ndevice = \"D\"\nproposed = \"P\"\n\
             today = \"T\"\ninstead = \"I\"\n[[part]]\nlabel = \"L\"\ntitle = \"X\"\n[[part.row]]\nwhat = \"W\"\npaper = \"P\"\n{keys}"
        );
        Paper::parse("x", &text).unwrap().parts.remove(0).rows.remove(0)
    }

    fn figure(experiment: &str, arm: &str, interval: Option<[f64; 2]>) -> Figure {
        let [low, high] = interval.unwrap_or([0.0; 2]);
        Figure {
            value: f64::midpoint(low, high),
            interval,
            count: 10,
            unit: "%".to_owned(),
            experiment: experiment.to_owned(),
            arm: arm.to_owned(),
            quick: false,
        }
    }

    const METHOD: &str = "method = { experiment = \"e\", arm = \"a\", metric = \"m\" }";

    // Verifies PROVE-8.
    #[test]
    fn the_rule_decides_by_interval_value_and_tolerance() {
        use Verdict::{DirectionOnly, NotReproduced, Reproduced, Undecided};
        for (keys, interval, expected) in [
            ("value = 20", [19.0, 21.0], Reproduced),
            ("value = 20", [22.0, 25.0], Reproduced),
            ("value = 20", [22.1, 25.0], DirectionOnly),
            ("value = 20", [1.0, 17.9], DirectionOnly),
            ("value = 20", [-1.0, 17.9], NotReproduced),
            ("value = 20", [-9.0, -1.0], NotReproduced),
            ("value = 20", [-1.0, 18.0], Undecided),
            ("value = 20\ntolerance = 0", [20.1, 21.0], DirectionOnly),
            ("value = -4", [-4.5, -3.0], Reproduced),
            ("value = -4", [-9.0, -6.0], DirectionOnly),
            ("value = -4", [1.0, 6.0], NotReproduced),
            ("value = -4", [-4.0, 0.0], Undecided),
            ("value = [2, 5]", [5.4, 6.0], Reproduced),
            ("value = [2, 5]", [5.6, 6.0], DirectionOnly),
            ("value = [2, 5]", [0.5, 1.4], DirectionOnly),
            ("value = 20\nexpects = \"level\"", [21.0, 29.0], Reproduced),
            ("value = 20\nexpects = \"level\"", [22.5, 29.0], NotReproduced),
            ("value = 20\nexpects = \"level\"", [10.1, 60.0], Reproduced),
            ("value = 20\nexpects = \"level\"", [10.0, 40.0], Undecided),
            ("expects = \"no-effect\"\ntolerance = 1", [-0.9, 1.0], Reproduced),
            ("expects = \"no-effect\"\ntolerance = 1", [0.5, 1.5], Undecided),
            ("expects = \"no-effect\"\ntolerance = 1", [-2.0, 2.0], Undecided),
            ("expects = \"no-effect\"\ntolerance = 1", [1.5, 2.0], NotReproduced),
            ("expects = \"no-effect\"\ntolerance = 0", [0.0, 0.0], Reproduced),
            ("expects = \"positive\"", [0.1, 9.0], Reproduced),
            ("expects = \"positive\"", [0.0, 9.0], Undecided),
            ("expects = \"positive\"", [-9.0, -0.1], NotReproduced),
            ("expects = \"positive\"", [0.0, 0.0], NotReproduced),
            ("expects = \"negative\"", [-9.0, -0.1], Reproduced),
            ("expects = \"negative\"", [0.1, 9.0], NotReproduced),
            ("expects = \"negative\"", [-9.0, 0.0], Undecided),
            ("expects = \"unstated\"", [-9.0, 9.0], Verdict::Described),
        ] {
            let row = row(&format!("{keys}\n{METHOD}"));
            assert_eq!(verdict(&row, Some(&figure("e", "a", Some(interval)))), expected, "{keys} {interval:?}");
        }
    }

    #[test]
    fn rows_without_a_figure_say_so() {
        let any = figure("e", "a", Some([1.0, 2.0]));
        for (keys, figure, expected) in [
            (&*format!("value = 1\n{METHOD}"), None, Verdict::NotOnRecord),
            (&format!("value = 1\n{METHOD}"), Some(&figure("e", "a", None)), Verdict::Undecided),
            ("cannot = \"x\"", Some(&any), Verdict::CannotHere),
            ("not_yet = \"x\"", None, Verdict::NotMeasuredYet),
            ("in_tree = \"x\"", None, Verdict::Described),
        ] {
            assert_eq!(verdict(&row(keys), figure), expected, "{keys}");
        }
    }

    #[test]
    fn methods_are_compared_only_within_an_experiment() {
        let method = figure("e", "paper", Some([10.0, 12.0]));
        for (other, expected) in [
            (figure("e", "brisk", Some([13.0, 14.0])), Some(Difference::Above)),
            (figure("e", "brisk", Some([5.0, 9.0])), Some(Difference::Below)),
            (figure("e", "brisk", Some([9.0, 10.5])), Some(Difference::Level)),
            (figure("e", "brisk", None), None),
            (figure("f", "brisk", Some([13.0, 14.0])), None),
            (figure("e", "paper", Some([13.0, 14.0])), None),
            (Figure { unit: "ms".to_owned(), ..figure("e", "brisk", Some([13.0, 14.0])) }, None),
        ] {
            assert_eq!(difference(&method, &other), expected, "{other:?}");
        }
    }
}
