//! From samples to verdicts: a claim is shown when its whole confidence interval meets the requirement.

use toml::Spanned;

use super::claim::{At, Centre, Claim, Judge, Measure, Requirement};
use super::point::Point;
use super::samples::{Samples, pick};
use super::spec::Experiment;
#[cfg(feature = "lab")]
use super::spec::is_named;
use super::statistics::{
    cliffs_delta, mean, median, permutation_p, quantile, standard_deviation, stratified_bootstrap,
};
use crate::report::proof::{ClaimResult, Verdict};

/// What may be shown by chance, once in so many.
const CHANCE: f64 = 0.05;

/// The outcome of every claim of `experiment`, in the order of its file.
pub fn judge(experiment: &Experiment, quick: bool, samples: &Samples) -> Vec<ClaimResult> {
    experiment.claims.iter().flat_map(|claim| judge_one(experiment, claim, quick, samples)).collect()
}

/// The outcome of one of them, at each of its points.
pub fn judge_one(experiment: &Experiment, claim: &Claim, quick: bool, samples: &Samples) -> Vec<ClaimResult> {
    let groups = points_of(&claim.at, samples.points());
    let count = groups.len();
    let judged = |(label, points): (String, Vec<usize>)| {
        Judged::new(experiment, claim, samples, &points).result(quick, label, count)
    };
    groups.into_iter().map(judged).collect()
}

/// True when the half-width of `ci` is at most `limit`; never of an interval that is not known.
pub fn is_precise([low, high]: [f64; 2], limit: f64) -> bool {
    (high - low) / 2.0 <= limit
}

/// What stands in the place of a requirement when there is none.
pub const REPORTED: &str = "reported";

/// What the interval `ci` says about `requirement`.
pub fn verdict(requirement: Requirement, [low, high]: [f64; 2]) -> Verdict {
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
fn points_of(at: &At, points: &[Point]) -> Vec<(String, Vec<usize>)> {
    let wanted = |point: &Point| match (at, point) {
        (At::Idle, point) => matches!(point, Point::Idle(_)),
        (At::Each | At::Mean, point) => !matches!(point, Point::Idle(_)),
        (At::Work(list), Point::Work(work_ms)) => list.contains(work_ms),
        #[cfg(feature = "lab")]
        (At::Named(names), Point::Combination(point)) => names.iter().any(|name| is_named(point, name)),
        _ => false,
    };
    let chosen = points.iter().enumerate().filter(|(_, point)| wanted(point));
    if *at == At::Mean {
        return vec![(String::new(), chosen.map(|(index, _)| index).collect())];
    }
    chosen.map(|(index, point)| (point.to_string(), vec![index])).collect()
}

/// One claim with the samples that it is about, point by point.
struct Judged<'a> {
    claim: &'a Claim,
    points: Vec<Paired>,
}

/// The figures at one point: for each role, those of the blocks that have them for all roles.
struct Paired {
    arm: Vec<f64>,
    against: Vec<f64>,
    toward: Vec<f64>,
    /// The single events of each block, for measures that are about those.
    events: Vec<Vec<f64>>,
}

impl Paired {
    /// The figure of `claim` from the blocks `drawn`.
    fn figure(&self, claim: &Claim, drawn: &[usize]) -> f64 {
        let centre = match claim.centre {
            Centre::Median => median,
            Centre::Mean => mean,
        };
        let of = |role: &[f64]| centre(&pick(role, drawn));
        if let Some(share) = claim.measure.share_of_events() {
            let mut events: Vec<f64> = drawn.iter().flat_map(|&block| self.events[block].iter().copied()).collect();
            events.sort_unstable_by(f64::total_cmp);
            return quantile(&events, share);
        }
        match claim.measure {
            Measure::Gain => 100.0 * (1.0 - of(&self.arm) / of(&self.against)),
            Measure::OffPrediction => 100.0 * (of(&self.arm) - of(&self.against)) / of(&self.toward),
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

impl<'a> Judged<'a> {
    fn new(experiment: &Experiment, claim: &'a Claim, samples: &Samples, points: &[usize]) -> Self {
        let index = |name: &Spanned<String>| experiment.arm(name.get_ref());
        let compared = [Measure::Gain, Measure::GapClosed, Measure::Loss, Measure::OfBound, Measure::OffPrediction];
        let alone = !compared.contains(&claim.measure);
        let arm = index(&claim.arm);
        let against = claim.against.as_ref().map_or(Some(experiment.baseline()), index).filter(|_| !alone);
        let toward = match claim.measure {
            Measure::OfBound | Measure::OffPrediction => against,
            _ => claim.toward.as_ref().and_then(index),
        };
        let paired = |&point: &usize| {
            let roles = claim.metrics().into_iter().zip([arm, against, toward]);
            let series: Vec<_> = roles.filter_map(|(metric, arm)| Some((metric, (arm?, point)))).collect();
            let mut columns = samples.paired_of(&series).into_iter();
            let [arm, against, toward] =
                [arm, against, toward].map(|role| role.and_then(|_| columns.next()).unwrap_or_default());
            let events = match (claim.measure.share_of_events(), index(&claim.arm)) {
                (Some(_), Some(arm)) => samples.events(claim.metric, (arm, point)),
                _ => Vec::new(),
            };
            let longest = |events: &Vec<f64>| events.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let arm =
                if claim.measure.share_of_events().is_some() { events.iter().map(longest).collect() } else { arm };
            Paired { arm, against, toward, events }
        };
        Self { claim, points: points.iter().map(paired).collect() }
    }

    /// The claim's figure from the blocks `drawn` at each point, averaged over the points.
    fn figure(&self, drawn: &[Vec<usize>]) -> f64 {
        let figures = self.points.iter().zip(drawn).map(|(point, drawn)| point.figure(self.claim, drawn));
        mean(&figures.collect::<Vec<_>>())
    }

    /// Of the hypothesis that the arm is as likely below the other side as above it. Each point has the same weight,
    /// however many blocks it has.
    fn p(&self) -> Option<f64> {
        let mut differences = Vec::new();
        for point in &self.points {
            let other = point.other(self.claim.measure)?;
            let weight = 1.0 / point.arm.len() as f64;
            differences.extend(point.arm.iter().zip(other).map(|(ours, theirs)| weight * (ours - theirs)));
        }
        Some(permutation_p(&differences)).filter(|p| p.is_finite())
    }

    fn effect(&self) -> Option<f64> {
        let delta = |point: &Paired| Some(cliffs_delta(&point.arm, point.other(self.claim.measure)?));
        let deltas: Vec<f64> = self.points.iter().map(delta).collect::<Option<_>>()?;
        Some(mean(&deltas)).filter(|delta| delta.is_finite())
    }

    /// The claim's words, with the number of events where it is about those.
    fn text(&self) -> String {
        match self.claim.measure.share_of_events() {
            Some(_) => {
                let count: usize = self.points.iter().flat_map(|point| &point.events).map(Vec::len).sum();
                format!("{} (n = {count})", self.claim.text)
            }
            None => self.claim.text.clone(),
        }
    }

    /// What the estimate and the test say about `requirement`; `count` results are tested at the same time.
    fn by_estimate(&self, requirement: Requirement, measured: f64, ci: [f64; 2], count: usize) -> Verdict {
        let is_worse = measured < 0.0 && self.p().is_some_and(|p| p < CHANCE / count as f64);
        match (is_worse, verdict(requirement, [measured; 2])) {
            (true, _) => Verdict::NotShown,
            (_, Verdict::NotShown) if !self.is_wide(ci) => Verdict::NotShown,
            (_, Verdict::NotShown) => verdict(requirement, ci),
            (_, verdict) => verdict,
        }
    }

    /// Less precise than the claim asks for.
    fn is_wide(&self, ci: [f64; 2]) -> bool {
        self.claim.precision.is_some_and(|limit| !is_precise(ci, limit))
    }

    fn result(&self, quick: bool, point: String, count: usize) -> ClaimResult {
        let claim = self.claim;
        let blocks: Vec<usize> = self.points.iter().map(|point| point.arm.len()).collect();
        let all: Vec<Vec<usize>> = blocks.iter().map(|&blocks| (0..blocks).collect()).collect();
        let measured = if blocks.contains(&0) { f64::NAN } else { self.figure(&all) };
        let ci = stratified_bootstrap(&blocks, &mut |drawn| self.figure(drawn));
        let too_wide = !quick && self.is_wide(ci);
        let judged = match claim.required {
            Some(requirement) if claim.judged_by == Judge::Estimate => {
                self.by_estimate(requirement, measured, ci, count)
            }
            Some(requirement) => verdict(requirement, ci),
            None if ci.iter().all(|end| end.is_finite()) => Verdict::Shown,
            None => Verdict::Inconclusive,
        };
        let unit = match claim.measure {
            Measure::Gain | Measure::GapClosed | Measure::StaysOff | Measure::OfBound | Measure::OffPrediction => "%",
            _ => claim.metric.unit(),
        };
        ClaimResult {
            id: claim.id.clone(),
            text: self.text(),
            arm: Some(claim.arm.get_ref().clone()),
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
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::experiment::plan::{Measured, Replicate};

    const HEAD: &str = r#"name = "x"
title = "x"
description = "x"
mechanism = "launch"
mode = "deterministic"
scenario = "x"
workload = { program = "load", work_ms = [100, 200], settle_ms = [1, 2], window_beyond_work_ms = 500 }
replicates = { quick = 4, full = 9 }
arm = [
  { name = "slow", title = "", baseline = true },
  { name = "ours", title = "" },
  { name = "best", title = "" },
]
"#;

    /// Slow takes 120 and 220 ms, best 100 and 200; `ours` is given. Blocks shift all arms alike.
    fn judged(ours: [f64; 2], shifts: &[f64], quick: bool, claim: &str) -> Vec<ClaimResult> {
        let text = format!("{HEAD}[[claim]]\nid = \"x.y\"\ntext = \"\"\narm = \"ours\"\n{claim}");
        let experiment = Experiment::parse("x", &text).unwrap();
        let mut measured = Vec::new();
        for (block, shift) in (0u32..).zip(shifts) {
            for (arm, base) in [[120.0, 220.0], ours, [100.0, 200.0]].into_iter().enumerate() {
                for (point, figure) in base.into_iter().enumerate() {
                    let replicate = Replicate { id: 0, block, arm, point, settle_us: 0, seed: 0, warm_up: false };
                    let actions = f64::from(u8::from(figure > 150.0));
                    let metrics = [("launch_ms", figure + shift), ("actions", actions)];
                    measured.push((replicate, line(&metrics, None)));
                }
            }
        }
        let pairs = measured.iter().map(|(replicate, line)| (replicate, line));
        judge(&experiment, quick, &Samples::new(3, &experiment.points(quick), pairs))
    }

    fn line(metrics: &[(&str, f64)], rejected: Option<&str>) -> Measured {
        let metrics: BTreeMap<_, _> = metrics.iter().map(|&(key, figure)| (key.to_owned(), figure)).collect();
        Measured {
            replicate: 0,
            arm: String::new(),
            point: String::new(),
            metrics,
            events: BTreeMap::new(),
            courses: BTreeMap::new(),
            rejected: rejected.map(Into::into),
        }
    }

    #[test]
    fn verdicts_follow_from_the_whole_interval() {
        use Verdict::{Inconclusive, NotShown, Shown};
        for (requirement, ci, expected) in [
            (">= 90", [90.0, 95.0], Shown),
            (">= 90", [89.9, 95.0], Inconclusive),
            (">= 90", [80.0, 89.9], NotShown),
            ("<= 8", [2.0, 8.0], Shown),
            ("<= 8", [7.0, 9.0], Inconclusive),
            ("<= 8", [8.1, 9.0], NotShown),
            ("within 1", [-0.9, 1.0], Shown),
            ("within 1", [-1.1, 0.5], Inconclusive),
            ("within 1", [1.1, 1.5], NotShown),
            ("within 1", [-3.0, -2.0], NotShown),
            (">= 90", [f64::NAN, f64::NAN], Inconclusive),
        ] {
            assert_eq!(verdict(requirement.parse().unwrap(), ci), expected, "{requirement} {ci:?}");
        }
    }

    #[test]
    fn each_measure_computes_what_it_says() {
        let still = [0.0; 4];
        for (claim, expected) in [
            ("measure = \"gain\"", vec![("work 100 ms", 15.0), ("work 200 ms", 100.0 * 18.0 / 220.0)]),
            ("measure = \"gain\"\nat = \"mean\"", vec![("", (15.0 + 100.0 * 18.0 / 220.0) / 2.0)]),
            ("measure = \"gain\"\nat = [200]\nagainst = \"best\"", vec![("work 200 ms", -1.0)]),
            ("measure = \"gap-closed\"\ntoward = \"best\"", vec![("work 100 ms", 90.0), ("work 200 ms", 90.0)]),
            ("measure = \"loss\"\ntoward = \"best\"\nat = \"mean\"", vec![("", 2.0)]),
            ("measure = \"level\"\nat = [100]", vec![("work 100 ms", 102.0)]),
            ("measure = \"worst\"\nat = [200]", vec![("work 200 ms", 202.0)]),
            ("measure = \"spread\"\nat = [100]", vec![("work 100 ms", 0.0)]),
            ("measure = \"stays-off\"\nmetric = \"actions\"", vec![("work 100 ms", 100.0), ("work 200 ms", 0.0)]),
        ] {
            let found = judged([102.0, 202.0], &still, true, claim);
            assert_eq!(found.len(), expected.len(), "{claim}");
            for (found, (point, figure)) in found.iter().zip(expected) {
                assert_eq!(found.point, point);
                assert!((found.measured - figure).abs() < 1e-9, "{claim}: {}", found.measured);
                assert!(found.ci.iter().all(|end| (end - figure).abs() < 1e-9), "{claim}: {:?}", found.ci);
            }
        }
    }

    #[test]
    fn an_estimate_is_judged_by_itself_unless_the_arm_is_shown_worse() {
        use Verdict::{Inconclusive, NotShown, Shown};
        let claim = "measure = \"gain\"\njudged_by = \"estimate\"\nrequired = \">= -2\"\nprecision = 3\nat = [100]";
        // Slow takes 120 ms: a hundredth is 1.2.
        for (case, ours, spread, blocks, expected) in [
            ("no difference", 120.0, 1.0, 8, Shown),
            ("a little worse, by chance", 121.0, 30.0, 4, Shown),
            ("a little worse, surely", 121.0, 0.0, 8, NotShown),
            ("better, surely", 110.0, 0.0, 8, Shown),
            ("too much, but hardly known", 126.0, 60.0, 4, Inconclusive),
            ("too much, and known", 124.0, 0.5, 3, NotShown),
        ] {
            let text = format!("{HEAD}[[claim]]\nid = \"x.y\"\ntext = \"\"\narm = \"ours\"\n{claim}");
            let experiment = Experiment::parse("x", &text).unwrap();
            let lines: Vec<_> = (0..blocks)
                .flat_map(|block| {
                    let scatter = if block % 2 == 0 { spread } else { -spread };
                    [(0, 120.0), (1, ours + scatter), (2, 100.0)].map(|(arm, figure)| {
                        let replicate =
                            Replicate { id: 0, block, arm, point: 0, settle_us: 0, seed: 0, warm_up: false };
                        (replicate, line(&[("launch_ms", figure)], None))
                    })
                })
                .collect();
            let pairs = lines.iter().map(|(replicate, line)| (replicate, line));
            let found = judge(&experiment, true, &Samples::new(3, &experiment.points(true), pairs));
            assert_eq!(found[0].verdict, expected, "{case}: {} {:?} {:?}", found[0].measured, found[0].ci, found[0].p);
        }
    }

    #[test]
    fn a_boot_is_judged_by_its_own_bound_and_its_own_prediction() {
        let head = r#"name = "x"
title = "x"
description = "x"
mechanism = "boot"
mode = "parallel"
scenario = "x"
replicates = { quick = 2, full = 2, warm_up = 0 }
arm = [{ name = "stock", title = "", baseline = true }, { name = "plan", title = "", preload = "plan" }]
[boots]
classes = 1
services_ms = 1
system_server_ms = 1
application_ms = 1
bursts = { work_ms = 1, wait_ms = 1 }
turns_per_ms = 1
"#;
        let figure = |claim: &str| {
            let text = format!("{head}[[claim]]\nid = \"x.y\"\ntext = \"\"\narm = \"plan\"\n{claim}");
            let experiment = Experiment::parse("x", &text).unwrap();
            let mut lines = Vec::new();
            for block in 0..4 {
                let stock = [
                    ("boot_ms", 1000.0),
                    ("boot_bound_ms", 900.0),
                    ("boot_on_2_ms", 910.0),
                    ("preload_ms", 200.0),
                    ("preload_bound_ms", 100.0),
                    ("preload_on_2_ms", 110.0),
                ];
                for (arm, metrics) in [(0, &stock[..]), (1, &[("boot_ms", 920.0), ("preload_ms", 130.0)])] {
                    let replicate = Replicate { id: 0, block, arm, point: 0, settle_us: 0, seed: 0, warm_up: false };
                    lines.push((replicate, line(metrics, None)));
                }
            }
            let lines = lines.iter().map(|(replicate, line)| (replicate, line));
            let found = judge(&experiment, true, &Samples::new(2, &experiment.points(true), lines)).remove(0);
            assert_eq!((found.unit.as_str(), found.point.as_str()), ("%", "boot"));
            found.measured
        };
        for (metric, measure, expected) in [
            ("boot", "of-bound", 80.0),
            ("preload", "of-bound", 70.0),
            ("boot", "off-prediction", 100.0 * (920.0 / 910.0 - 1.0)),
            // 20 ms of a boot of 1000.
            ("preload", "off-prediction", 2.0),
        ] {
            let found = figure(&format!("metric = \"{metric}\"\nmeasure = \"{measure}\""));
            assert!((found - expected).abs() < 1e-9, "{measure} of {metric}: {found}");
        }
    }

    #[test]
    fn percentiles_are_of_all_single_events_together() {
        let text = format!(
            "{HEAD}[[claim]]\nid = \"x.y\"\ntext = \"short\"\narm = \"ours\"\nmeasure = \"p95\"\nat = [100]\nrequired = \"<= 20\""
        );
        let experiment = Experiment::parse("x", &text).unwrap();
        let mut lines = Vec::new();
        // 0 to 100 in ten blocks of unlike size; one block has none.
        for block in 0..11 {
            let replicate = Replicate { id: 0, block, arm: 1, point: 0, settle_us: 0, seed: 0, warm_up: false };
            let mut measured = line(&[("launch_ms", 1.0)], None);
            let events: Vec<f64> = (0..=100).filter(|event| event % 10 == block).map(f64::from).collect();
            if block < 10 {
                measured.events.insert("launch_ms".to_owned(), events);
            }
            lines.push((replicate, measured));
        }
        let lines = lines.iter().map(|(replicate, line)| (replicate, line));
        let found = &judge(&experiment, false, &Samples::new(3, &experiment.points(false), lines))[0];
        assert!((found.measured - 95.0).abs() < 1e-9, "{}", found.measured);
        assert_eq!((found.text.as_str(), found.unit.as_str()), ("short (n = 101)", "ms"));
        assert!(found.ci[0] > 80.0 && found.ci[1] <= 100.0, "{:?}", found.ci);
        assert_eq!((found.verdict, found.p), (Verdict::NotShown, None));
    }

    #[test]
    fn what_blocks_share_does_not_widen_a_paired_interval() {
        let shifts = [-30.0, 10.0, 25.0, -5.0, 0.0, 15.0, -20.0, 40.0];
        let found = judged([102.0, 202.0], &shifts, true, "measure = \"gap-closed\"\ntoward = \"best\"");
        assert!(found[0].ci.iter().all(|end| (end - 90.0).abs() < 1e-6), "{:?}", found[0].ci);
        assert_eq!(found[0].p, Some(2.0 / 256.0), "all eight pairs differ to the same side");
        assert!(found[0].effect.unwrap() < 0.0);
    }

    #[test]
    fn a_wide_interval_is_inconclusive_where_precision_is_asked() {
        let shifts = [-30.0, 10.0, 25.0, -5.0, 0.0, 15.0, -20.0, 40.0];
        let claim = "measure = \"gain\"\nat = [100]\nrequired = \">= 5\"\nprecision = 0.3";
        assert_eq!(judged([102.0, 202.0], &shifts, true, claim)[0].verdict, Verdict::Shown);
        assert_eq!(judged([102.0, 202.0], &shifts, false, claim)[0].verdict, Verdict::Inconclusive);
    }

    #[test]
    fn without_samples_nothing_is_shown() {
        for shifts in [&[][..], &[0.0]] {
            for claim in ["measure = \"gain\"\nrequired = \">= 0\"", "measure = \"spread\"", "measure = \"gain\""] {
                let found = judged([102.0, 202.0], shifts, true, claim);
                assert!(found.iter().all(|claim| claim.verdict == Verdict::Inconclusive), "{claim}");
            }
        }
    }

    #[test]
    fn a_point_with_fewer_blocks_weighs_as_much_as_the_others() {
        let text =
            format!("{HEAD}[[claim]]\nid = \"x.y\"\ntext = \"\"\narm = \"ours\"\nmeasure = \"gain\"\nat = \"mean\"");
        let experiment = Experiment::parse("x", &text).unwrap();
        let mut lines = Vec::new();
        for (point, blocks, ours) in [(0, 9u32, 90.0), (1, 3, 70.0)] {
            for block in 0..blocks {
                for (arm, figure) in [(0, 100.0), (1, ours)] {
                    let replicate = Replicate { id: 0, block, arm, point, settle_us: 0, seed: 0, warm_up: false };
                    lines.push((replicate, line(&[("launch_ms", figure)], None)));
                }
            }
        }
        let lines = lines.iter().map(|(replicate, line)| (replicate, line));
        let found = &judge(&experiment, false, &Samples::new(3, &experiment.points(false), lines))[0];
        assert!((found.measured - 20.0).abs() < 1e-9, "{}", found.measured);
        assert_eq!(found.p, Some(2.0 / 4096.0), "all twelve pairs differ to the same side");
    }

    #[test]
    fn rejected_replicates_are_counted_and_their_block_is_left_out_of_pairs() {
        let replicate = |block, arm| Replicate { id: 0, block, arm, point: 0, settle_us: 0, seed: 0, warm_up: false };
        let lines = [
            (replicate(0, 0), line(&[("launch_ms", 10.0)], None)),
            (replicate(0, 1), line(&[("launch_ms", 9.0)], Some("the host was busy"))),
            (replicate(1, 0), line(&[("launch_ms", 20.0)], None)),
            (replicate(1, 1), line(&[("launch_ms", 18.0)], None)),
        ];
        let samples = Samples::new(2, &[Point::Work(1)], lines.iter().map(|(replicate, line)| (replicate, line)));
        let pairs = samples.paired(super::super::metric::Metric::Launch, &[(0, 0), (1, 0)]);
        assert_eq!(pairs, [vec![20.0], vec![18.0]]);
        let experiment = Experiment::parse("x", HEAD).unwrap();
        let refused = samples.rejections(&experiment);
        assert_eq!((refused.len(), refused[0].arm.as_str(), refused[0].count), (1, "ours", 1));
    }
}
