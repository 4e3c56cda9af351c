//! The contents of a proof's reports, without their form: outcomes, rows, and sentences about each mechanism.
//!
//! The terminal's table and the HTML report both use these, so that they cannot disagree.

use super::figure;
use crate::proof::{ArmResult, ClaimResult, ExperimentResult, MedianChange, Proof, Verdict};

/// A change within this many percent either way counts as none: the baseline does as well.
pub const NEGLIGIBLE_PERCENT: f64 = 1.0;

/// How an arm's samples compare with its baseline's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArmOutcome {
    /// The whole interval is on the good side.
    Better,
    /// The whole interval is on the bad side.
    Worse,
    /// The whole interval is within [`NEGLIGIBLE_PERCENT`]: the baseline does as well.
    Same,
    /// The interval holds zero and more than a negligible change.
    Unclear,
}

impl ArmOutcome {
    /// A word or two for a table.
    pub fn word(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Same => "same",
            Self::Unclear => "unclear",
        }
    }
}

/// How an arm differs from its baseline: by the experiment's result, or else by the two medians.
pub fn change(arm: &ArmResult, arms: &[ArmResult]) -> Option<MedianChange> {
    if arm.baseline {
        return None;
    }
    arm.change.or_else(|| {
        let baseline = baseline(arm, arms)?;
        let percent = (arm.median / baseline.median - 1.0) * 100.0;
        percent.is_finite().then_some(MedianChange { percent, ci: [f64::NAN; 2] })
    })
}

/// The gain of `arm` as it is printed: how much better its median is than its baseline's, in percent, with its
/// interval. Less is better for times and energies, so that a launch that is 10 % shorter gains 10 %.
pub fn gain(arm: &ArmResult, arms: &[ArmResult]) -> Option<MedianChange> {
    let change = change(arm, arms)?;
    let [low, high] = change.ci;
    Some(if arm.higher_is_better { change } else { MedianChange { percent: -change.percent, ci: [-high, -low] } })
}

/// The baseline of `arm`: the one at the same point in the same metric.
pub fn baseline<'a>(arm: &ArmResult, arms: &'a [ArmResult]) -> Option<&'a ArmResult> {
    arms.iter().find(|other| other.baseline && other.point == arm.point && other.metric == arm.metric)
}

/// What `change` means for `arm`; `None` where the interval is not known.
pub fn outcome(arm: &ArmResult, change: MedianChange) -> Option<ArmOutcome> {
    let [low, high] = change.ci;
    if !low.is_finite() || !high.is_finite() {
        return None;
    }
    let (good, bad) = if arm.higher_is_better { (low > 0.0, high < 0.0) } else { (high < 0.0, low > 0.0) };
    Some(if low.abs() <= NEGLIGIBLE_PERCENT && high.abs() <= NEGLIGIBLE_PERCENT {
        ArmOutcome::Same
    } else if good {
        ArmOutcome::Better
    } else if bad {
        ArmOutcome::Worse
    } else {
        ArmOutcome::Unclear
    })
}

/// True for a series that is a cost rather than a gain: energy and power.
pub fn is_energy(arm: &ArmResult) -> bool {
    let unit = arm.unit.trim_start_matches(['n', 'u', '\u{b5}', '\u{3bc}', 'm', 'k']);
    matches!(unit, "J" | "Wh" | "W") || arm.metric.contains("energy") || arm.metric.contains("power")
}

/// True for a series in a unit of time.
pub fn is_time(arm: &ArmResult) -> bool {
    matches!(arm.unit.as_str(), "ns" | "us" | "\u{b5}s" | "ms" | "s" | "min")
}

/// Distinct values in the order of their first appearance.
pub fn distinct<'a>(values: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for value in values {
        if !seen.contains(&value) {
            seen.push(value);
        }
    }
    seen
}

/// The mark on a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// A claim's verdict.
    Verdict(Verdict),
    /// A claim that only reports.
    Reported,
    /// No claim; the outcome of the samples.
    ArmOutcome(ArmOutcome),
    /// The baseline, or no outcome.
    Nothing,
}

impl Mark {
    /// A claim's mark.
    pub fn of(claim: &ClaimResult) -> Self {
        if is_reported(claim) { Self::Reported } else { Self::Verdict(claim.verdict) }
    }

    /// Its words in reports.
    pub fn words(self) -> &'static str {
        match self {
            Self::Verdict(Verdict::Shown) => "shown",
            Self::Verdict(Verdict::NotShown) => "not shown",
            Self::Verdict(Verdict::Inconclusive) => "inconclusive",
            Self::Reported => "reported",
            Self::ArmOutcome(outcome) => outcome.word(),
            Self::Nothing => "",
        }
    }

    /// A sign beside the words, so that colour is never the only difference.
    pub fn sign(self) -> &'static str {
        match self {
            Self::Verdict(Verdict::Shown) => "\u{2713}",
            Self::Verdict(Verdict::NotShown) => "\u{2717}",
            Self::Verdict(Verdict::Inconclusive) => "?",
            Self::Reported | Self::ArmOutcome(_) | Self::Nothing => "",
        }
    }
}

/// True for a claim that requires nothing.
pub fn is_reported(claim: &ClaimResult) -> bool {
    claim.required.trim() == "reported"
}

/// What a row is about.
#[derive(Debug, Clone, Copy)]
pub enum Subject<'a> {
    /// A series, and the claim whose figure is this gain, if there is one.
    Series(&'a ArmResult, Option<&'a ClaimResult>),
    /// A claim about another figure.
    Claim(&'a ClaimResult),
}

/// One row of the table, ready to print.
#[derive(Debug, Clone)]
pub struct Row<'a> {
    /// What it is about.
    pub subject: Subject<'a>,
    /// The median, or the figure that a claim measured.
    pub median: String,
    /// The gain over the baseline, or what a claim requires.
    pub gain: String,
    /// The interval of the gain, or of a claim's figure.
    pub interval: String,
    /// The verdict.
    pub mark: Mark,
    /// The paper's figure.
    pub paper: String,
}

/// The rows of one experiment: series by metric and point, then the claims that are not about one gain.
pub fn rows(experiment: &ExperimentResult) -> Vec<Row<'_>> {
    let mut used = vec![false; experiment.claims.len()];
    let mut rows: Vec<Row<'_>> = ordered(experiment)
        .into_iter()
        .map(|arm| {
            let gain = gain(arm, &experiment.arms);
            let claim = gain.and_then(|gain| {
                let at = experiment.claims.iter().position(|claim| is_about(claim, arm, gain))?;
                used[at] = true;
                Some(&experiment.claims[at])
            });
            series_row(experiment, arm, gain, claim)
        })
        .collect();
    rows.extend(experiment.claims.iter().zip(used).filter(|(_, used)| !used).map(|(claim, _)| claim_row(claim)));
    rows
}

/// The series by metric, then point, then arm, each in the order of first appearance.
pub fn ordered(experiment: &ExperimentResult) -> Vec<&ArmResult> {
    let metrics = distinct(experiment.arms.iter().map(|arm| arm.metric.as_str()));
    let points = distinct(experiment.arms.iter().map(|arm| arm.point.as_str()));
    let place = |arm: &ArmResult| {
        let metric = metrics.iter().position(|metric| *metric == arm.metric);
        (metric, points.iter().position(|point| *point == arm.point))
    };
    let mut arms: Vec<&ArmResult> = experiment.arms.iter().collect();
    arms.sort_by_key(|arm| place(arm));
    arms
}

/// True when the claim's figure is this gain: same arm, same point, and the same number.
fn is_about(claim: &ClaimResult, arm: &ArmResult, gain: MedianChange) -> bool {
    claim.arm.as_deref() == Some(arm.name.as_str())
        && claim.point == arm.point
        && claim.unit == "%"
        && (claim.measured - gain.percent).abs() < 1e-6
}

/// The claim whose figure is the gain of `arm`.
pub fn claim_of<'a>(experiment: &'a ExperimentResult, arm: &ArmResult) -> Option<&'a ClaimResult> {
    let gain = gain(arm, &experiment.arms)?;
    experiment.claims.iter().find(|claim| is_about(claim, arm, gain))
}

fn series_row<'a>(
    experiment: &ExperimentResult,
    arm: &'a ArmResult,
    gain: Option<MedianChange>,
    claim: Option<&'a ClaimResult>,
) -> Row<'a> {
    let change = change(arm, &experiment.arms);
    let outcome = change.and_then(|change| outcome(arm, change)).map_or(Mark::Nothing, Mark::ArmOutcome);
    // For a claim that only reports, the outcome of the samples is the mark.
    let judged = claim.filter(|claim| !is_reported(claim));
    Row {
        subject: Subject::Series(arm, claim),
        median: median(experiment, arm),
        gain: match gain {
            Some(gain) => figure::change(gain.percent, gain.ci),
            None if arm.baseline => "baseline".to_owned(),
            None => figure::UNAVAILABLE.to_owned(),
        },
        interval: gain.map_or_else(String::new, |gain| figure::interval(gain.percent, gain.ci, "%")),
        mark: judged.map_or(outcome, Mark::of),
        paper: claim.map(paper).unwrap_or_default(),
    }
}

/// The median of `arm` with its unit, with the decimals of the most precise arm at this point, so that they are easy to
/// compare; `no samples` where there are none.
pub fn median(experiment: &ExperimentResult, arm: &ArmResult) -> String {
    if arm.samples.is_empty() {
        return "no samples".to_owned();
    }
    let scaled = scaled(experiment, arm);
    let here = |other: &&ArmResult| other.metric == arm.metric && other.point == arm.point && other.unit == arm.unit;
    let decimals = experiment
        .arms
        .iter()
        .filter(here)
        .filter(|other| other.median.is_finite() && !other.samples.is_empty())
        .map(|other| figure::decimals(other.median * scaled.factor, other.ci.map(|end| end * scaled.factor)))
        .max();
    figure::join(&figure::fixed(arm.median * scaled.factor, decimals.unwrap_or(0)), &scaled.unit)
}

/// The unit in which every series of this metric is shown.
pub fn scaled(experiment: &ExperimentResult, arm: &ArmResult) -> figure::ScaledUnit {
    let largest = experiment
        .arms
        .iter()
        .filter(|other| other.metric == arm.metric && other.unit == arm.unit)
        .map(|other| other.median.abs())
        .fold(0.0, f64::max);
    figure::scale(&arm.unit, largest)
}

fn claim_row(claim: &ClaimResult) -> Row<'_> {
    Row {
        subject: Subject::Claim(claim),
        median: figure::with_unit(claim.measured, claim.ci, &claim.unit),
        gain: if is_reported(claim) { String::new() } else { figure::requirement_text(&claim.required, "") },
        interval: figure::interval(claim.measured, claim.ci, &claim.unit),
        mark: Mark::of(claim),
        paper: paper(claim),
    }
}

fn paper(claim: &ClaimResult) -> String {
    claim.paper.as_deref().map(figure::printed).unwrap_or_default()
}

/// The first line of why an experiment failed.
pub fn failure(experiment: &ExperimentResult) -> Option<&str> {
    let reason = &experiment.failure.as_ref()?.reason;
    Some(reason.lines().next().unwrap_or_default())
}

/// `72 of 76 claims shown, 4 inconclusive`, and how many experiments failed.
pub fn verdict_words<'a>(experiments: impl IntoIterator<Item = &'a ExperimentResult> + Clone) -> String {
    let words = Tally::of(experiments.clone()).words();
    match experiments.into_iter().filter(|experiment| experiment.failure.is_some()).count() {
        0 => words,
        1 => format!("{words}, 1 experiment failed"),
        failed => format!("{words}, {failed} experiments failed"),
    }
}

/// How many claims had which verdict; claims that only report are not counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Claims shown.
    pub shown: usize,
    /// Claims not shown.
    pub not_shown: usize,
    /// Claims left open.
    pub inconclusive: usize,
}

impl Tally {
    /// Counts the claims of `experiments`.
    pub fn of<'a>(experiments: impl IntoIterator<Item = &'a ExperimentResult>) -> Self {
        let mut tally = Self::default();
        for claim in experiments.into_iter().flat_map(|experiment| &experiment.claims) {
            match claim.verdict {
                _ if is_reported(claim) => {}
                Verdict::Shown => tally.shown += 1,
                Verdict::NotShown => tally.not_shown += 1,
                Verdict::Inconclusive => tally.inconclusive += 1,
            }
        }
        tally
    }

    /// The number of all of them.
    pub fn total(self) -> usize {
        self.shown + self.not_shown + self.inconclusive
    }

    /// One verdict for all of them; `None` where no claim was checked or they differ.
    pub fn verdict(self) -> Option<Verdict> {
        let total = self.total();
        match (total, self.shown == total, self.not_shown == total, self.inconclusive == total) {
            (0, ..) => None,
            (_, true, ..) => Some(Verdict::Shown),
            (_, _, true, _) => Some(Verdict::NotShown),
            (_, _, _, true) => Some(Verdict::Inconclusive),
            _ => None,
        }
    }

    /// `7 of 9 claims shown, 1 not shown, 1 inconclusive`.
    pub fn words(self) -> String {
        let total = self.total();
        if total == 0 {
            return "measured, without requirements".to_owned();
        }
        let mut words = format!("{} of {total} claim{} shown", self.shown, if total == 1 { "" } else { "s" });
        for (count, word) in [(self.not_shown, "not shown"), (self.inconclusive, "inconclusive")] {
            if count > 0 {
                words.push_str(&format!(", {count} {word}"));
            }
        }
        words
    }
}

/// How many replicates of an experiment were refused: by its list of reasons, or else by its arms, where each metric counts a
/// replicate once.
pub fn refused(experiment: &ExperimentResult) -> u64 {
    let listed: u64 = experiment.rejections.iter().map(|rejection| u64::from(rejection.count)).sum();
    let metrics = distinct(experiment.arms.iter().map(|arm| arm.metric.as_str()));
    let counted = |metric: &str| -> u64 {
        let arms = experiment.arms.iter().filter(|arm| arm.metric == metric);
        arms.map(|arm| u64::from(arm.rejected)).sum()
    };
    listed.max(metrics.into_iter().map(counted).max().unwrap_or(0))
}

/// The mechanisms of a proof in order, each with its experiments.
pub fn mechanisms(proof: &Proof) -> Vec<(&str, Vec<&ExperimentResult>)> {
    distinct(proof.experiments.iter().map(|experiment| experiment.mechanism.as_str()))
        .into_iter()
        .map(|name| (name, proof.experiments.iter().filter(|experiment| experiment.mechanism == name).collect()))
        .collect()
}
