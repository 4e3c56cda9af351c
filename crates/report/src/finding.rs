//! The findings of an experiment: a phrase for each arm and metric.

use super::figure;
use super::summary::{ArmOutcome, NEGLIGIBLE_PERCENT, baseline, change, is_energy, is_time, ordered, outcome};
use crate::proof::{ArmResult, ExperimentResult, MedianChange};

/// An arm against its baseline over all points, in one metric.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub arm: String,
    /// The arm that it is compared with.
    pub baseline: String,
    pub metric: String,
    /// True for energy and power, which are costs.
    pub energy: bool,
    /// The result as text (`4.2 to 35.1 % shorter`).
    pub text: String,
    /// Points of the workload at which the baseline does as well.
    pub same_at: Vec<String>,
    /// Points at which the baseline does better.
    pub worse_at: Vec<String>,
    /// How many points were compared.
    pub points: usize,
}

impl Finding {
    /// The sentence that says where the baseline does as well; `None` where it does not.
    pub fn same_sentence(&self) -> Option<String> {
        let metric = &self.metric;
        let what = if self.energy { "uses the same" } else { "does as well in" };
        (!self.same_at.is_empty())
            .then(|| format!("{} {what} {metric} as {}{}.", self.baseline, self.arm, self.places(&self.same_at)))
    }

    /// The sentence that says where the baseline does better; `None` where it does not.
    pub fn worse_sentence(&self) -> Option<String> {
        let metric = &self.metric;
        let what = if self.energy { "uses less" } else { "does better in" };
        (!self.worse_at.is_empty())
            .then(|| format!("{} {what} {metric} than {}{}.", self.baseline, self.arm, self.places(&self.worse_at)))
    }

    fn places(&self, points: &[String]) -> String {
        let named: Vec<&str> = points.iter().map(String::as_str).filter(|point| !point.is_empty()).collect();
        match named.split_last() {
            None => String::new(),
            Some(_) if points.len() == self.points && self.points > 1 => " at every point".to_owned(),
            Some((last, [])) => format!(" at {last}"),
            Some((last, rest)) => format!(" at {} and {last}", rest.join(", ")),
        }
    }
}

/// One [`Finding`] for each arm and metric of an experiment.
pub fn findings(experiment: &ExperimentResult) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    let compared = ordered(experiment);
    for first in &compared {
        if first.baseline || findings.iter().any(|done| done.arm == first.name && done.metric == first.metric) {
            continue;
        }
        let series: Vec<(&ArmResult, MedianChange)> = compared
            .iter()
            .filter(|arm| arm.name == first.name && arm.metric == first.metric)
            .filter_map(|arm| Some((*arm, change(arm, &experiment.arms)?)))
            .collect();
        let Some(baseline) = baseline(first, &experiment.arms) else { continue };
        if !series.is_empty() {
            findings.push(finding(first, baseline, &series));
        }
    }
    findings
}

fn finding(first: &ArmResult, baseline: &ArmResult, series: &[(&ArmResult, MedianChange)]) -> Finding {
    let at = |wanted: ArmOutcome| -> Vec<String> {
        let points = series.iter().filter(|(arm, change)| outcome(arm, *change) == Some(wanted));
        points.map(|(arm, _)| arm.point.clone()).collect()
    };
    let unclear = at(ArmOutcome::Unclear).len();
    let same = at(ArmOutcome::Same);
    let text = if same.len() == series.len() {
        format!("within {NEGLIGIBLE_PERCENT}{}% either way", figure::NO_BREAK_SPACE)
    } else if unclear + same.len() == series.len() {
        "no difference shown".to_owned()
    } else {
        let unknown = series.iter().filter(|(arm, change)| outcome(arm, *change).is_none()).count();
        let places = |what, points| match (points, series.len()) {
            (0, _) => String::new(),
            (points, all) if points == all => format!("; {what}"),
            (points, all) => format!("; {what} at {points} of {all} points"),
        };
        range_text(first, series)
            + &places("no difference", unclear + same.len())
            + &places("too few replicates to tell", unknown)
    };
    Finding {
        arm: first.name.clone(),
        baseline: baseline.name.clone(),
        metric: first.metric.clone(),
        energy: is_energy(first),
        text,
        same_at: same,
        worse_at: at(ArmOutcome::Worse),
        points: series.len(),
    }
}

fn range_text(first: &ArmResult, series: &[(&ArmResult, MedianChange)]) -> String {
    let percents = series.iter().map(|(_, change)| change.percent).filter(|percent| percent.is_finite());
    let (low, high) =
        percents.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), percent| (low.min(percent), high.max(percent)));
    if low > high {
        return "no figure".to_owned();
    }
    let (less, more) = if is_time(first) { ("shorter", "longer") } else { ("less", "more") };
    let digits = |percent: f64| figure::fixed(percent.abs(), 1);
    let word = |percent: f64| if percent < 0.0 { less } else { more };
    let space = figure::NO_BREAK_SPACE;
    let (near, far) = if low < 0.0 && high < 0.0 { (high, low) } else { (low, high) };
    if word(near) != word(far) {
        format!("{}{space}% {} to {}{space}% {}", digits(near), word(near), digits(far), word(far))
    } else if digits(near) == digits(far) {
        format!("{}{space}% {}", digits(far), word(far))
    } else {
        format!("{} to {}{space}% {}", digits(near), digits(far), word(far))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arm(percent: f64, ci: [f64; 2]) -> (ArmResult, MedianChange) {
        let change = MedianChange { percent, ci };
        let arm = ArmResult {
            name: "plan".to_owned(),
            point: "boot".to_owned(),
            metric: "boot".to_owned(),
            unit: "ms".to_owned(),
            samples: Vec::new(),
            median: 1.0,
            ci: [f64::NAN; 2],
            standard_deviation: f64::NAN,
            rejected: 0,
            baseline: false,
            change: Some(change),
            higher_is_better: false,
        };
        (arm, change)
    }

    // Verifies PROVE-1.
    #[test]
    fn a_difference_without_an_interval_is_reported_as_open() {
        let (shorter, longer, open) = ([-18.0, -16.0], [11.0, 13.0], [f64::NAN; 2]);
        for (series, expected) in [
            (&[(-17.0, shorter)][..], "17.0 % shorter"),
            (&[(-17.0, shorter), (12.0, longer)], "17.0 % shorter to 12.0 % longer"),
            (&[(-17.0, [-18.0, 1.0])], "no difference shown"),
            (&[(0.1, [-0.5, 0.5])], "within 1 % either way"),
            (&[(-17.0, shorter), (0.1, [-0.5, 0.5])], "17.0 % shorter to 0.1 % longer; no difference at 1 of 2 points"),
            (&[(-17.0, open)], "17.0 % shorter; too few replicates to tell"),
            (&[(-17.0, shorter), (-17.0, open)], "17.0 % shorter; too few replicates to tell at 1 of 2 points"),
            (
                &[(-17.0, open), (0.1, [-0.5, 0.5])],
                "17.0 % shorter to 0.1 % longer; no difference at 1 of 2 points; too few replicates to tell at 1 of 2 points",
            ),
        ] {
            let arms: Vec<(ArmResult, MedianChange)> = series.iter().map(|&(percent, ci)| arm(percent, ci)).collect();
            let series: Vec<(&ArmResult, MedianChange)> = arms.iter().map(|(arm, change)| (arm, *change)).collect();
            let text = finding(series[0].0, series[0].0, &series).text.replace(figure::NO_BREAK_SPACE, " ");
            assert_eq!(text, expected);
        }
    }
}
