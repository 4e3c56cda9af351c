//! The measured figures, sorted by arm, point, metric and block.

use std::collections::BTreeMap;

use super::metric::Metric;
use super::plan::{Measured, ProcessCourse, Replicate, StepMetric};
use super::point::Point;
use super::spec::Experiment;
use super::statistics::{bootstrap, median, standard_deviation};
use brisk_report::proof::{ArmResult, MedianChange, ProcessSeries, Rejection, StepSeries};

/// What was measured in an experiment so far.
#[derive(Debug, Clone)]
pub struct Samples {
    points: Vec<Point>,
    /// `[arm][point]`
    cells: Vec<Vec<Cell>>,
}

#[derive(Debug, Clone, Default)]
struct Cell {
    /// By metric, then by block.
    figures: BTreeMap<Metric, BTreeMap<u32, f64>>,
    /// The same for single events.
    events: BTreeMap<Metric, BTreeMap<u32, Vec<f64>>>,
    /// By block, step by step.
    courses: BTreeMap<StepMetric, BTreeMap<u32, Vec<f64>>>,
    /// By block, then by process.
    processes: BTreeMap<u32, BTreeMap<String, ProcessCourse>>,
    /// Counts by reason.
    rejected: BTreeMap<String, u32>,
}

impl Samples {
    /// Sorts `measured`; warm-ups are left out, rejected replicates are only counted.
    pub fn new<'a>(
        arms: usize,
        points: &[Point],
        measured: impl IntoIterator<Item = (&'a Replicate, &'a Measured)>,
    ) -> Self {
        let mut cells = vec![vec![Cell::default(); points.len()]; arms];
        for (replicate, measured) in measured.into_iter().filter(|(replicate, _)| !replicate.warm_up) {
            let cell = &mut cells[replicate.arm][replicate.point];
            if let Some(reason) = &measured.rejected {
                *cell.rejected.entry(reason.clone()).or_default() += 1;
                continue;
            }
            if !measured.processes.is_empty() {
                cell.processes.insert(replicate.block, measured.processes.clone());
            }
            for (course, figures) in &measured.courses {
                cell.courses.entry(*course).or_default().insert(replicate.block, figures.clone());
            }
            for metric in Metric::ALL {
                if let Some(&figure) = measured.metrics.get(metric.key()) {
                    cell.figures.entry(metric).or_default().insert(replicate.block, figure);
                }
                if let Some(events) = measured.events.get(metric.key()).filter(|events| !events.is_empty()) {
                    cell.events.entry(metric).or_default().insert(replicate.block, events.clone());
                }
            }
        }
        Self { points: points.to_vec(), cells }
    }

    /// The points of the workload.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// For each of `series` (an arm and a point) its figures in the blocks where all of them have one.
    pub fn paired(&self, metric: Metric, series: &[(usize, usize)]) -> Vec<Vec<f64>> {
        self.paired_by_metric(&series.iter().map(|&series| (metric, series)).collect::<Vec<_>>())
    }

    /// The same with a metric for each series.
    pub fn paired_by_metric(&self, series: &[(Metric, (usize, usize))]) -> Vec<Vec<f64>> {
        let empty = BTreeMap::new();
        let figures = |&(metric, (arm, point)): &(Metric, (usize, usize))| {
            self.cells[arm][point].figures.get(&metric).unwrap_or(&empty)
        };
        let maps: Vec<_> = series.iter().map(figures).collect();
        let Some(first) = maps.first() else { return Vec::new() };
        let complete: Vec<u32> =
            first.keys().copied().filter(|block| maps.iter().all(|map| map.contains_key(block))).collect();
        maps.iter().map(|map| complete.iter().map(|block| map[block]).collect()).collect()
    }

    /// The single events of an arm at a point, block by block; blocks without any are omitted.
    pub fn events(&self, metric: Metric, (arm, point): (usize, usize)) -> Vec<Vec<f64>> {
        self.cells[arm][point].events.get(&metric).map_or_else(Vec::new, |blocks| blocks.values().cloned().collect())
    }

    /// Every series for the result: each arm at each point in each of `metrics` that was measured there. An arm whose replicates
    /// were all rejected has series without samples, beside those of other arms.
    pub fn series(&self, experiment: &Experiment, metrics: &[Metric]) -> Vec<ArmResult> {
        let mut series = Vec::new();
        for &metric in metrics {
            for (point, label) in self.points.iter().enumerate() {
                for (index, arm) in experiment.arms.iter().enumerate() {
                    let cell = &self.cells[index][point];
                    let is_missing = !cell.rejected.is_empty() && self.is_expected(experiment, metric, point);
                    if !cell.figures.contains_key(&metric) && !is_missing {
                        continue;
                    }
                    let samples = self.paired(metric, &[(index, point)]).remove(0);
                    series.push(ArmResult {
                        name: arm.name.clone(),
                        point: label.to_string(),
                        metric: metric.name().to_owned(),
                        unit: metric.unit().to_owned(),
                        median: median(&samples),
                        ci: bootstrap(samples.len(), &mut |drawn| median(&pick(&samples, drawn))),
                        standard_deviation: standard_deviation(&samples),
                        samples,
                        rejected: cell.rejected.values().sum(),
                        baseline: arm.baseline,
                        change: self.change(metric, index, experiment.baseline(), point),
                        higher_is_better: metric.higher_is_better(),
                    });
                }
            }
        }
        series
    }

    /// True if another arm has `metric` at this point; where no arm has any figure, if a claim is about it.
    fn is_expected(&self, experiment: &Experiment, metric: Metric, point: usize) -> bool {
        let mut cells = self.cells.iter().map(|points| &points[point]);
        if cells.clone().all(|cell| cell.figures.is_empty()) {
            return experiment.claims.iter().any(|claim| claim.metric == metric);
        }
        cells.any(|cell| cell.figures.contains_key(&metric))
    }

    fn change(&self, metric: Metric, arm: usize, baseline: usize, point: usize) -> Option<MedianChange> {
        let pair = self.paired(metric, &[(arm, point), (baseline, point)]);
        if arm == baseline || pair[0].is_empty() {
            return None;
        }
        let percent = |ours: &[f64], theirs: &[f64]| 100.0 * (median(ours) / median(theirs) - 1.0);
        let ci = bootstrap(pair[0].len(), &mut |drawn| percent(&pick(&pair[0], drawn), &pick(&pair[1], drawn)));
        let percent = percent(&pair[0], &pair[1]);
        percent.is_finite().then_some(MedianChange { percent, ci })
    }

    /// The courses, arm by arm: at each step, the median over the blocks that reached it.
    pub fn courses(&self, experiment: &Experiment) -> Vec<StepSeries> {
        if !cfg!(feature = "lab") {
            return Vec::new();
        }
        let mut found = Vec::new();
        for course in StepMetric::ALL {
            for (arm, points) in experiment.arms.iter().zip(&self.cells) {
                for blocks in points.iter().filter_map(|cell| cell.courses.get(&course)) {
                    let steps = blocks.values().map(Vec::len).max().unwrap_or(0);
                    let at = |step: usize| blocks.values().filter_map(|figures| figures.get(step).copied()).collect();
                    let medians = (0..steps).map(|step| median(&at(step) as &Vec<f64>)).collect();
                    let (what, unit) = course.what();
                    found.push(StepSeries { arm: arm.name.clone(), what: what.into(), unit: unit.into(), medians });
                }
            }
        }
        found
    }

    /// The memory of each process, arm by arm, in the first block that every arm has: courses of two blocks differ.
    pub fn processes(&self, experiment: &Experiment) -> Vec<ProcessSeries> {
        if !cfg!(feature = "lab") {
            return Vec::new();
        }
        let cells: Vec<(&str, &Cell)> = experiment
            .arms
            .iter()
            .zip(&self.cells)
            .flat_map(|(arm, points)| points.iter().map(|it| (&*arm.name, it)))
            .collect();
        let recorded = || cells.iter().filter(|(_, cell)| !cell.processes.is_empty());
        let mut blocks = recorded().flat_map(|(_, cell)| cell.processes.keys());
        let Some(block) = blocks.find(|block| recorded().all(|(_, cell)| cell.processes.contains_key(block))) else {
            return Vec::new();
        };
        let of_arm = |&(arm, cell): &(&str, &Cell)| {
            let processes = cell.processes[block].iter();
            let series = processes.map(|(process, course)| ProcessSeries {
                arm: arm.to_owned(),
                process: process.clone(),
                resident_mib: course.resident_mib.clone(),
                swapped_mib: course.swapped_mib.clone(),
            });
            series.collect::<Vec<_>>()
        };
        recorded().flat_map(of_arm).collect()
    }

    /// What was refused, by arm, point and reason.
    pub fn rejections(&self, experiment: &Experiment) -> Vec<Rejection> {
        let mut rejections = Vec::new();
        for (arm, points) in experiment.arms.iter().zip(&self.cells) {
            for (point, cell) in self.points.iter().zip(points) {
                rejections.extend(cell.rejected.iter().map(|(reason, &count)| Rejection {
                    arm: arm.name.clone(),
                    point: point.to_string(),
                    reason: reason.clone(),
                    count,
                }));
            }
        }
        rejections
    }
}

/// The values at the `drawn` indices.
pub(super) fn pick(values: &[f64], drawn: &[usize]) -> Vec<f64> {
    drawn.iter().map(|&index| values[index]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rejected_arm_has_only_series_that_another_arm_has() {
        let text = r#"name = "x"
title = "x"
description = "x"
mechanism = "launch"
mode = "deterministic"
scenario = "x"
workload = { program = "load", work_ms = [50], settle_ms = [0, 0], window_beyond_work_ms = 1000 }
replicates = { quick = 2, full = 2 }
arm = [{ name = "stock", title = "", baseline = true }, { name = "brisk", title = "" }]
claim = [{ id = "x", promise = "P-1", text = "T", measure = "gain", arm = "brisk" }]
"#;
        let experiment = Experiment::parse("x", text).unwrap();
        let points = experiment.points(false);
        let replicate = |arm| Replicate { id: 0, block: 0, arm, point: 0, settle_us: 0, seed: 0, warm_up: false };
        let measured = |figures: &[Metric]| Measured {
            metrics: figures.iter().map(|metric| (metric.key().to_owned(), 1.0)).collect(),
            rejected: figures.is_empty().then(|| "busy".to_owned()),
            ..Measured::default()
        };
        let metrics = [Metric::Launch, Metric::Energy, Metric::Actions];
        for (stock, brisk, expected) in [
            (&[][..], &[Metric::Launch][..], &["launch of stock", "launch of brisk"][..]),
            (
                &[Metric::Launch, Metric::Energy],
                &[Metric::Launch],
                &["launch of stock", "launch of brisk", "energy of stock"],
            ),
            (&[], &[], &["launch of stock", "launch of brisk"]),
        ] {
            let lines = [(replicate(0), measured(stock)), (replicate(1), measured(brisk))];
            let samples = Samples::new(2, &points, lines.iter().map(|(replicate, line)| (replicate, line)));
            let series = samples.series(&experiment, &metrics);
            let found: Vec<String> = series.iter().map(|it| format!("{} of {}", it.metric, it.name)).collect();
            assert_eq!(found, expected, "{stock:?} {brisk:?}");
        }
    }

    // Verifies MEMORY-7.
    #[test]
    fn processes_are_those_of_the_first_block_that_all_arms_have() {
        let text = r#"name = "x"
title = "x"
description = "x"
mechanism = "memory"
mode = "deterministic"
scenario = "x"
applications = { count = 3, storage = "/dev/x", limit_ms = 1000 }
replicates = { quick = 2, full = 2 }
arm = [{ name = "none", title = "", baseline = true }, { name = "zram", title = "" }, { name = "refused", title = "" }]
"#;
        let experiment = Experiment::parse("x", text).unwrap();
        let replicate =
            |block: u32, arm: usize| Replicate { id: 0, block, arm, point: 0, settle_us: 0, seed: 0, warm_up: false };
        let course = |mib: f64| ProcessCourse { resident_mib: vec![mib; 3], swapped_mib: vec![0.0; 3] };
        let measured = |mib: Option<f64>, rejected: Option<&str>| Measured {
            processes: mib.map(|mib| ("game".to_owned(), course(mib))).into_iter().collect(),
            rejected: rejected.map(Into::into),
            ..Measured::default()
        };
        let lines = [
            (replicate(0, 0), measured(Some(1.0), None)),
            (replicate(0, 1), measured(Some(2.0), Some("too little memory"))),
            (replicate(1, 0), measured(Some(3.0), None)),
            (replicate(1, 1), measured(Some(4.0), None)),
            (replicate(1, 2), measured(None, None)),
        ];
        let samples =
            Samples::new(3, &experiment.points(false), lines.iter().map(|(replicate, line)| (replicate, line)));
        let found: Vec<(String, f64)> =
            samples.processes(&experiment).into_iter().map(|it| (it.arm, it.resident_mib[2])).collect();
        assert_eq!(found, [("none".to_owned(), 3.0), ("zram".to_owned(), 4.0)]);
        let first =
            Samples::new(3, &experiment.points(false), lines[..2].iter().map(|(replicate, line)| (replicate, line)));
        assert_eq!(first.processes(&experiment).len(), 1, "an arm without any has no say");
    }
}
