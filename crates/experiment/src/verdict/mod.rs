//! From samples to verdicts: a claim is shown when its whole 95 % interval meets the requirement, and refuted when its whole
//! 99.9 % interval misses it. A report judges about a hundred claims, so it refutes a true one by chance in one of ten reports.

use std::slice;

use brisk_base::toml_text::Located;

use super::claim::{Centre, Claim, Measure, PointSelector, Requirement, VerdictBasis};
use super::point::Point;
use super::samples::{Samples, pick};
use super::spec::Experiment;
#[cfg(feature = "lab")]
use super::spec::is_named;
use super::statistics::{
    cliffs_delta, interval_99_9, mean, median, permutation_p, quantile, standard_deviation, stratified_bootstrap,
};
use brisk_report::proof::{ClaimResult, Verdict};

/// The significance level of the permutation test.
const SIGNIFICANCE_LEVEL: f64 = 0.05;

/// The outcome of every claim of `experiment`, in the order of its file.
pub fn judge(experiment: &Experiment, quick: bool, samples: &Samples) -> Vec<ClaimResult> {
    judge_devices(experiment, quick, slice::from_ref(samples))
}

/// The outcome of every claim from several `devices` that measured the same experiment. Each device is a stratum: its blocks are
/// resampled among themselves, and the figure is the mean of the devices' figures, with equal weights, however many blocks each
/// has (Davison and Hinkley, "Bootstrap Methods and their Application", 1997, section 3.2: several samples). The interval is
/// about the mean of these devices; it says nothing about others. A claim about the worst figure is that of the worst device.
pub fn judge_devices(experiment: &Experiment, quick: bool, devices: &[Samples]) -> Vec<ClaimResult> {
    experiment.claims.iter().flat_map(|claim| judge_claim(experiment, claim, quick, devices)).collect()
}

/// The outcome of one claim, at each of its points.
pub fn judge_claim(experiment: &Experiment, claim: &Claim, quick: bool, devices: &[Samples]) -> Vec<ClaimResult> {
    let groups = point_groups(&claim.at, devices.first().map_or(&[], Samples::points));
    let count = groups.len();
    let judged = |(label, points): (String, Vec<usize>)| {
        let evaluate = |samples| ClaimEvaluation::new(experiment, claim, samples, &points);
        if claim.measure == Measure::Worst {
            let results = devices.iter().map(|samples| evaluate(samples).result(quick, label.clone(), count));
            return results.max_by(|one, other| one.measured.total_cmp(&other.measured));
        }
        let points = devices.iter().flat_map(|samples| evaluate(samples).points).collect();
        Some(ClaimEvaluation { claim, points }.result(quick, label, count))
    };
    groups.into_iter().filter_map(judged).collect()
}

/// True when the half-width of `ci` is at most `limit`; false for an unknown interval.
pub fn is_precise([low, high]: [f64; 2], limit: f64) -> bool {
    (high - low) / 2.0 <= limit
}

/// Takes the place of a requirement when there is none.
pub const REPORTED: &str = "reported";

/// The verdict of the interval `ci` on `requirement`.
fn verdict(requirement: Requirement, [low, high]: [f64; 2]) -> Verdict {
    let (shown, missed) = match requirement {
        Requirement::AtLeast(bound) => (low >= bound, high < bound),
        Requirement::AtMost(bound) => (high <= bound, low > bound),
        Requirement::Within(bound) => (low >= -bound && high <= bound, low > bound || high < -bound),
    };
    match (shown, missed) {
        (true, _) => Verdict::Shown,
        (_, true) => Verdict::NotShown,
        _ => Verdict::Inconclusive,
    }
}

/// The groups of points that give one result each, with their label. Points that this form does not run are left out.
fn point_groups(at: &PointSelector, points: &[Point]) -> Vec<(String, Vec<usize>)> {
    let wanted = |point: &Point| match (at, point) {
        (PointSelector::Idle, point) => matches!(point, Point::Idle(_)),
        (PointSelector::Each | PointSelector::Mean, point) => !matches!(point, Point::Idle(_)),
        (PointSelector::Work(list), Point::Work(work_ms)) => list.contains(work_ms),
        #[cfg(feature = "lab")]
        (PointSelector::Named(names), Point::Combination(point)) => names.iter().any(|name| is_named(point, name)),
        _ => false,
    };
    let chosen = points.iter().enumerate().filter(|(_, point)| wanted(point));
    if *at == PointSelector::Mean {
        return vec![(String::new(), chosen.map(|(index, _)| index).collect())];
    }
    chosen.map(|(index, point)| (point.to_string(), vec![index])).collect()
}

/// A claim's figure with its 95 and its 99.9 % interval.
struct Figures {
    measured: f64,
    ci: [f64; 2],
    ci_99_9: [f64; 2],
}

impl Figures {
    /// The verdict of the intervals on `requirement`.
    fn by_interval(&self, requirement: Requirement) -> Verdict {
        match verdict(requirement, self.ci) {
            Verdict::NotShown if verdict(requirement, self.ci_99_9) != Verdict::NotShown => Verdict::Inconclusive,
            verdict => verdict,
        }
    }
}

/// One claim with its samples, point by point.
struct ClaimEvaluation<'a> {
    claim: &'a Claim,
    points: Vec<PairedSamples>,
}

/// The figures at one point: for each role, those of the blocks that have them for all roles.
struct PairedSamples {
    arm: Vec<f64>,
    against: Vec<f64>,
    toward: Vec<f64>,
    /// The single events of each block, for measures of single events.
    events: Vec<Vec<f64>>,
}

impl PairedSamples {
    /// The figure of `claim` from the blocks `drawn`.
    fn figure(&self, claim: &Claim, drawn: &[usize]) -> f64 {
        let centre: fn(&[f64]) -> f64 = match claim.centre {
            Centre::Median => median,
            Centre::Mean => mean,
        };
        let of = |role: &[f64]| centre(&pick(role, drawn));
        if let Some(share) = claim.measure.event_quantile() {
            let mut events: Vec<f64> = drawn.iter().flat_map(|&block| self.events[block].iter().copied()).collect();
            events.sort_unstable_by(f64::total_cmp);
            return quantile(&events, share);
        }
        if claim.paired {
            let drawn = [&self.arm, &self.against, &self.toward].map(|role| pick_known(role, drawn));
            return paired_figure(claim.measure, &drawn, centre);
        }
        match claim.measure {
            Measure::Gain => 100.0 * (1.0 - of(&self.arm) / of(&self.against)),
            Measure::OffPrediction => 100.0 * (of(&self.arm) - of(&self.against)) / of(&self.toward),
            Measure::OffEstimate => 100.0 * (of(&self.toward) / (of(&self.against) - of(&self.arm)) - 1.0),
            Measure::GapClosed | Measure::OfBound => {
                let start = of(&self.against);
                100.0 * (start - of(&self.arm)) / (start - of(&self.toward))
            }
            Measure::Level | Measure::P95 | Measure::P99 => of(&self.arm),
            Measure::Worst => pick(&self.arm, drawn).into_iter().fold(f64::NEG_INFINITY, f64::max),
            Measure::Loss => of(&self.arm) - of(&self.toward),
            Measure::Spread => standard_deviation(&pick(&self.arm, drawn)),
            Measure::StaysOff => {
                let still = drawn.iter().filter(|&&block| self.arm[block] == 0.0).count();
                100.0 * still as f64 / drawn.len() as f64
            }
        }
    }

    /// The other side of the comparison, where the measure has one.
    fn other(&self, measure: Measure) -> Option<&[f64]> {
        match measure {
            Measure::Gain | Measure::GapClosed | Measure::OfBound | Measure::OffPrediction => Some(&self.against),
            Measure::Loss => Some(&self.toward),
            _ => None,
        }
    }
}

/// The values at the `drawn` indices; none where this role has no values.
fn pick_known(values: &[f64], drawn: &[usize]) -> Vec<f64> {
    if values.is_empty() { Vec::new() } else { pick(values, drawn) }
}

/// The figure of `measure` when arm, against and toward are compared block by block. A gain is the centre of the logarithms of
/// the ratios, so that twice and half as long have the same weight; NaN where a block has none.
fn paired_figure(measure: Measure, [arm, against, toward]: &[Vec<f64>; 3], centre: fn(&[f64]) -> f64) -> f64 {
    let of = |ours: &[f64], theirs: &[f64], compare: fn(f64, f64) -> f64| {
        let each: Vec<f64> = ours.iter().zip(theirs).map(|(&our, &their)| compare(our, their)).collect();
        if each.iter().any(|figure| figure.is_nan()) { f64::NAN } else { centre(&each) }
    };
    let difference = |our: f64, their: f64| our - their;
    match measure {
        Measure::Gain => 100.0 * (1.0 - of(arm, against, |our, their| (our / their).ln()).exp()),
        Measure::GapClosed => 100.0 * of(against, arm, difference) / of(against, toward, difference),
        Measure::Loss => of(arm, toward, difference),
        _ => f64::NAN,
    }
}

impl<'a> ClaimEvaluation<'a> {
    fn new(experiment: &Experiment, claim: &'a Claim, samples: &Samples, points: &[usize]) -> Self {
        let index = |name: &Located<String>| experiment.arm(&name.value);
        let alone = !claim.measure.compares();
        let arm = index(&claim.arm);
        // A loss is the difference from `toward`; the baseline may lack its metric.
        let has_baseline = !alone && claim.measure != Measure::Loss;
        let against = claim.against.as_ref().map_or(Some(experiment.baseline()), index).filter(|_| has_baseline);
        let toward = match claim.measure {
            Measure::OfBound | Measure::OffPrediction => against,
            _ => claim.toward.as_ref().and_then(index),
        };
        let paired = |&point: &usize| {
            let roles = claim.metrics().into_iter().zip([arm, against, toward]);
            let series: Vec<_> = roles.filter_map(|(metric, arm)| Some((metric, (arm?, point)))).collect();
            let mut columns = samples.paired_by_metric(&series).into_iter();
            let [arm, against, toward] =
                [arm, against, toward].map(|role| role.and_then(|_| columns.next()).unwrap_or_default());
            let events = match (claim.measure.event_quantile(), index(&claim.arm)) {
                (Some(_), Some(arm)) => samples.events(claim.metric, (arm, point)),
                _ => Vec::new(),
            };
            let longest = |events: &Vec<f64>| events.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let arm = if claim.measure.event_quantile().is_some() { events.iter().map(longest).collect() } else { arm };
            PairedSamples { arm, against, toward, events }
        };
        Self { claim, points: points.iter().map(paired).collect() }
    }

    /// The claim's figure from the blocks `drawn` at each point, averaged over the points of all devices.
    fn figure(&self, drawn: &[Vec<usize>]) -> f64 {
        let figures = self.points.iter().zip(drawn).map(|(point, drawn)| point.figure(self.claim, drawn));
        mean(&figures.collect::<Vec<_>>())
    }

    /// The p of the hypothesis that the arm is as likely below the other side as above it. Each point has the same weight,
    /// however many blocks it has; where a gain is paired, so has each block.
    fn p(&self) -> Option<f64> {
        let mut differences = Vec::new();
        for point in &self.points {
            let other = point.other(self.claim.measure)?;
            let weight = 1.0 / point.arm.len() as f64;
            let is_ratio = self.claim.paired && self.claim.measure == Measure::Gain;
            let difference = |(ours, theirs): (&f64, &f64)| if is_ratio { (ours / theirs).ln() } else { ours - theirs };
            differences.extend(point.arm.iter().zip(other).map(|pair| weight * difference(pair)));
        }
        Some(permutation_p(&differences)).filter(|p| p.is_finite())
    }

    fn effect(&self) -> Option<f64> {
        let delta = |point: &PairedSamples| Some(cliffs_delta(&point.arm, point.other(self.claim.measure)?));
        let deltas: Vec<f64> = self.points.iter().map(delta).collect::<Option<_>>()?;
        Some(mean(&deltas)).filter(|delta| delta.is_finite())
    }

    /// The claim's text, with the number of events where it is about events.
    fn text(&self) -> String {
        match self.claim.measure.event_quantile() {
            Some(_) => {
                let count: usize = self.points.iter().flat_map(|point| &point.events).map(Vec::len).sum();
                format!("{} (n = {count})", self.claim.text)
            }
            None => self.claim.text.clone(),
        }
    }

    /// The verdict of the estimate and the test on `requirement`; `count` results are tested at the same time. An estimate
    /// refutes alone where it is as precise as the claim asks for: not in a quick form, whose replicates are few.
    fn by_estimate(&self, requirement: Requirement, figures: &Figures, quick: bool, count: usize) -> Verdict {
        let is_worse = figures.measured < 0.0 && self.p().is_some_and(|p| p < SIGNIFICANCE_LEVEL / count as f64);
        match (is_worse, verdict(requirement, [figures.measured; 2])) {
            (true, _) => Verdict::NotShown,
            (_, Verdict::NotShown) if !quick && self.is_precise(figures.ci) => Verdict::NotShown,
            (_, Verdict::NotShown) => figures.by_interval(requirement),
            (_, verdict) => verdict,
        }
    }

    /// True when the claim asks for a precision and the interval has it.
    fn is_precise(&self, ci: [f64; 2]) -> bool {
        self.claim.precision.is_some_and(|limit| is_precise(ci, limit))
    }

    fn result(&self, quick: bool, point: String, count: usize) -> ClaimResult {
        let claim = self.claim;
        let blocks: Vec<usize> = self.points.iter().map(|point| point.arm.len()).collect();
        let all: Vec<Vec<usize>> = blocks.iter().map(|&blocks| (0..blocks).collect()).collect();
        let measured = if blocks.contains(&0) { f64::NAN } else { self.figure(&all) };
        let ci = stratified_bootstrap(&blocks, &mut |drawn| self.figure(drawn));
        let figures = Figures { measured, ci, ci_99_9: interval_99_9(measured, ci, &blocks) };
        let too_wide = !quick && claim.precision.is_some() && !self.is_precise(ci);
        let judged = match claim.required {
            Some(requirement) if claim.judged_by == VerdictBasis::Estimate => {
                self.by_estimate(requirement, &figures, quick, count)
            }
            Some(requirement) => figures.by_interval(requirement),
            None if ci.iter().all(|end| end.is_finite()) => Verdict::Shown,
            None => Verdict::Inconclusive,
        };
        let unit = if claim.measure.is_percentage() { "%" } else { claim.metric.unit() };
        ClaimResult {
            id: claim.id.clone(),
            text: self.text(),
            arm: Some(claim.arm.value.clone()),
            point,
            unit: unit.to_owned(),
            required: claim.required.map_or(REPORTED.to_owned(), |requirement| requirement.to_string()),
            measured,
            ci,
            p: self.p(),
            effect: self.effect(),
            paper: claim.paper.clone(),
            verdict: if too_wide && judged == Verdict::Shown { Verdict::Inconclusive } else { judged },
        }
    }
}

#[cfg(test)]
mod tests;
