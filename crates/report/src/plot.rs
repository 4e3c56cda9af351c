//! The two drawings of a report: a strip plot of every sample, arm by arm at each point of the workload, and a small
//! gauge of one claim's figure against what it requires.

use std::collections::BTreeSet;

use super::figure::{self, FigureRequirement};
use super::finding;
use super::summary::{self, ArmOutcome};
use super::svg::{self, Anchor, Canvas, Caption, LABEL_SIZE, SERIES_COLOURS, SMALL_SIZE, Scale};
use crate::proof::{ArmResult, ClaimResult, ExperimentResult};

/// Space between things side by side.
const GAP: f64 = 12.0;

/// The height of a strip: samples above and below the middle, where the median is.
const STRIP_HEIGHT: f64 = 22.0;

/// The lanes over which samples are spread, so that equal samples stay visible.
const LANES: usize = 7;

/// The width of a drawing; each is drawn for its width, so that its text is never scaled too small.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// A phone held upright: labels above their strips.
    Narrow,
    /// Anything else: labels left, figures right.
    Wide,
}

impl Size {
    /// Its width, in user units.
    pub fn width(self) -> f64 {
        match self {
            Self::Narrow => 288.0,
            Self::Wide => 760.0,
        }
    }

    /// The class by which a page shows one of the two.
    pub fn class(self) -> &'static str {
        match self {
            Self::Narrow => "narrow",
            Self::Wide => "wide",
        }
    }

    /// What `draw` makes of each size, the wide one first, with an identifier that begins with `id`.
    pub fn both<T>(id: &str, draw: impl Fn(Self, &str) -> T) -> [T; 2] {
        [Self::Wide, Self::Narrow].map(|size| draw(size, &format!("{id}-{}", size.class())))
    }
}

/// The strip plot of one metric of an experiment, for a page; `id` must be unique there.
pub fn strips(experiment: &ExperimentResult, metric: &str, size: Size, id: &str) -> String {
    let (canvas, height) = draw(experiment, metric, size);
    let (title, description) = caption(experiment, metric);
    canvas.inline(size.class(), height, Caption { id, title: &title, description: &description })
}

/// The strip plot of an experiment's first metric as a file of its own, for a README or a paper.
pub fn standalone(experiment: &ExperimentResult) -> Option<String> {
    let metric = &experiment.arms.first()?.metric;
    let (canvas, height) = draw(experiment, metric, Size::Wide);
    let (title, description) = caption(experiment, metric);
    Some(canvas.standalone(height, Caption { id: "plot", title: &title, description: &description }))
}

fn caption(experiment: &ExperimentResult, metric: &str) -> (String, String) {
    let title = format!("{}: {metric}", experiment.title);
    let findings: Vec<String> = finding::findings(experiment)
        .into_iter()
        .filter(|finding| finding.metric == metric)
        .map(|finding| format!("{} against {}: {}.", finding.arm, finding.baseline, finding.text))
        .collect();
    let series = experiment.arms.iter().filter(|arm| arm.metric == metric).count();
    let description = format!(
        "{series} series of samples with their medians and 95 % intervals. {} The table below holds the figures.",
        findings.join(" ")
    );
    (title, description)
}

struct Layout<'a> {
    experiment: &'a ExperimentResult,
    names: Vec<&'a str>,
    size: Size,
    /// Where strips begin and end.
    strip: (f64, f64),
    scaled: figure::ScaledUnit,
}

fn draw(experiment: &ExperimentResult, metric: &str, size: Size) -> (Canvas, f64) {
    let arms: Vec<&ArmResult> = summary::ordered(experiment).into_iter().filter(|arm| arm.metric == metric).collect();
    let points = summary::distinct(arms.iter().map(|arm| arm.point.as_str()));
    let layout = Layout {
        experiment,
        names: summary::distinct(experiment.arms.iter().map(|arm| arm.name.as_str())),
        size,
        strip: match size {
            Size::Narrow => (6.0, size.width() - 6.0),
            Size::Wide => (184.0, size.width() - 168.0),
        },
        scaled: arms.first().map_or_else(|| figure::scale("", 0.0), |arm| summary::scaled(experiment, arm)),
    };
    let mut canvas = Canvas::new(size.width());
    let mut y = 4.0;
    let mut has_paper = false;
    for point in points {
        let here: Vec<&ArmResult> = arms.iter().copied().filter(|arm| arm.point == point).collect();
        has_paper |= here.iter().any(|arm| paper_range(&layout, arm).is_some());
        y = panel(&mut canvas, &layout, point, &here, y);
    }
    let height = legend(&mut canvas, size, has_paper, y);
    (canvas, height)
}

/// One point of the workload: a heading, a strip for each arm, an axis. Returns the top of the next.
fn panel(canvas: &mut Canvas, layout: &Layout<'_>, point: &str, arms: &[&ArmResult], top: f64) -> f64 {
    let width = layout.size.width();
    let mut y = top + 15.0;
    if !point.is_empty() {
        canvas.text("point", Anchor::Start, (0.0, y), &svg::fit(point, LABEL_SIZE * 1.06, width));
        y += 9.0;
    }
    let factor = layout.scaled.factor;
    let values = arms.iter().flat_map(|arm| {
        let paper = paper_range(layout, arm).into_iter().flatten();
        let drawn = arm.samples.iter().copied().chain(arm.ci).chain([arm.median]).chain(paper);
        drawn.map(|value| value * factor).collect::<Vec<f64>>()
    });
    let scale = Scale::containing(values, layout.strip);
    let strips_top = y;
    let mut rows = Canvas::new(width);
    for arm in arms {
        y = row(&mut rows, layout, arm, scale, y);
    }
    for (value, _) in scale.ticks(SMALL_SIZE) {
        let x = scale.position(value);
        canvas.line("rule", (x, strips_top), (x, y));
    }
    if let Some(baseline) = arms.iter().find(|arm| arm.baseline && arm.median.is_finite()) {
        let x = scale.position(baseline.median * factor);
        canvas.line("reference", (x, strips_top), (x, y));
    }
    canvas.append(&rows);
    axis(canvas, layout, scale, y) + 10.0
}

fn axis(canvas: &mut Canvas, layout: &Layout<'_>, scale: Scale, y: f64) -> f64 {
    let (left, right) = layout.strip;
    canvas.line("axis", (left, y), (right, y));
    let width = layout.size.width();
    let mut end: f64 = 0.0;
    for (value, label) in scale.ticks(SMALL_SIZE) {
        let x = scale.position(value);
        canvas.line("axis", (x, y), (x, y + 4.0));
        let middle = svg::middle_inside(x, &label, SMALL_SIZE, width);
        canvas.text("small", Anchor::Middle, (middle, y + 16.0), &label);
        end = middle + svg::text_width(&label, SMALL_SIZE) / 2.0;
    }
    // Narrow drawings have no room beside the axis: each figure has its unit there.
    if layout.size == Size::Wide {
        let left = end.max(right) + GAP;
        let unit = svg::fit(&layout.scaled.unit, SMALL_SIZE, width - left);
        canvas.text("small", Anchor::Start, (left, y + 16.0), &unit);
    }
    y + 18.0
}

/// One arm: its name, its strip, its median and gain. Returns the top of the next.
fn row(canvas: &mut Canvas, layout: &Layout<'_>, arm: &ArmResult, scale: Scale, top: f64) -> f64 {
    let change = summary::change(arm, &layout.experiment.arms);
    let median = summary::median(layout.experiment, arm);
    let gain = summary::gain(arm, &layout.experiment.arms);
    let gain = gain.map_or_else(String::new, |gain| figure::change(gain.percent, gain.ci));
    let gain_class = match change.and_then(|change| summary::outcome(arm, change)) {
        Some(ArmOutcome::Better) => "good",
        Some(ArmOutcome::Worse) => "bad",
        _ => "muted",
    };
    let width = layout.size.width();
    let series = if arm.baseline { 0 } else { series_number(layout, &arm.name) };
    let tooltip = tooltip(layout, arm, &median, &gain);
    let mut bottom = top;
    canvas.group(&format!("series-{series}"), &tooltip, |canvas| match layout.size {
        Size::Wide => {
            let lines = svg::wrap(&arm.name, LABEL_SIZE, layout.strip.0 - GAP);
            let height = if lines.len() > 1 { 38.0 } else { 28.0 };
            let middle = top + height / 2.0;
            let first = middle + 4.5 - 8.0 * (lines.len() as f64 - 1.0);
            for (index, line) in lines.iter().enumerate() {
                canvas.text("arm", Anchor::Start, (0.0, first + 16.0 * index as f64), line);
            }
            let gain = svg::fit(&gain, LABEL_SIZE * 1.06, 70.0);
            let room = width - layout.strip.1 - GAP - 76.0;
            canvas.text("", Anchor::End, (width - 76.0, middle + 4.5), &svg::fit(&median, LABEL_SIZE, room));
            canvas.text(gain_class, Anchor::End, (width, middle + 4.5), &gain);
            strip(canvas, layout, arm, scale, middle);
            bottom = top + height;
        }
        Size::Narrow => {
            let gain = svg::fit(&gain, LABEL_SIZE * 1.06, 70.0);
            let figures = if gain.is_empty() { 0.0 } else { 74.0 };
            let median = svg::fit(&median, LABEL_SIZE, 100.0);
            let left = width - figures - svg::text_width(&median, LABEL_SIZE);
            canvas.text("arm", Anchor::Start, (0.0, top + 16.0), &svg::fit(&arm.name, LABEL_SIZE, left - GAP));
            canvas.text("", Anchor::End, (width - figures, top + 16.0), &median);
            canvas.text(gain_class, Anchor::End, (width, top + 16.0), &gain);
            strip(canvas, layout, arm, scale, top + 35.0);
            bottom = top + 50.0;
        }
    });
    bottom
}

fn series_number(layout: &Layout<'_>, name: &str) -> usize {
    let is_baseline = |name: &&str| layout.experiment.arms.iter().any(|arm| arm.baseline && arm.name == *name);
    let position = layout.names.iter().filter(|name| !is_baseline(name)).position(|other| *other == name);
    position.unwrap_or(0) % SERIES_COLOURS + 1
}

fn tooltip(layout: &Layout<'_>, arm: &ArmResult, median: &str, gain: &str) -> String {
    let at = if arm.point.is_empty() { String::new() } else { format!(" at {}", arm.point) };
    let ci = arm.ci.map(|end| end * layout.scaled.factor);
    let interval = figure::interval(arm.median * layout.scaled.factor, ci, &layout.scaled.unit);
    let gain = if gain.is_empty() { String::new() } else { format!(", gain {gain}") };
    format!("{}{at}: median {median} {interval}{gain}; {} samples", arm.name, arm.samples.len())
}

/// The strip itself: interval, samples, median, and the paper's figure where it has one.
fn strip(canvas: &mut Canvas, layout: &Layout<'_>, arm: &ArmResult, scale: Scale, middle: f64) {
    let factor = layout.scaled.factor;
    let half = STRIP_HEIGHT / 2.0;
    if arm.ci.iter().all(|end| end.is_finite()) && !arm.samples.is_empty() {
        let ends = arm.ci.map(|end| scale.position(end * factor));
        canvas.rectangle("interval", (ends[0], middle - half), (ends[1] - ends[0], STRIP_HEIGHT), 2.0);
    }
    let mut dots = BTreeSet::new();
    for (index, sample) in arm.samples.iter().enumerate().filter(|(_, sample)| sample.is_finite()) {
        // The step shares no factor with the lanes, so consecutive samples land apart.
        let lane = (index * 3) % LANES;
        dots.insert(((scale.position(sample * factor) * 2.0).round() as i64, lane));
    }
    let lane_height = (STRIP_HEIGHT - 6.0) / (LANES - 1) as f64;
    let top = middle - (STRIP_HEIGHT - 6.0) / 2.0;
    canvas.dots("sample", dots.into_iter().map(|(x, lane)| (x as f64 / 2.0, top + lane as f64 * lane_height)));
    if arm.median.is_finite() && !arm.samples.is_empty() {
        let x = scale.position(arm.median * factor);
        canvas.line("median", (x, middle - half), (x, middle + half));
    }
    if let Some([low, high]) = paper_range(layout, arm) {
        let ends = [scale.position(low * factor), scale.position(high * factor)];
        canvas.line("paper-range", (ends[0], middle), (ends[1], middle));
        for x in if low < high { &ends[..] } else { &ends[..1] } {
            canvas.diamond("paper", (*x, middle), 5.0);
        }
    }
}

/// The paper's gain applied to this baseline, in the unit of the samples.
fn paper_range(layout: &Layout<'_>, arm: &ArmResult) -> Option<[f64; 2]> {
    let claim = summary::claim_of(layout.experiment, arm)?;
    let percents = figure::printed_range(claim.paper.as_deref()?, "%")?;
    let baseline = summary::baseline(arm, &layout.experiment.arms)?.median;
    let less = if arm.higher_is_better { -1.0 } else { 1.0 };
    let mut range = percents.map(|percent| baseline * (1.0 - less * percent / 100.0));
    range.sort_by(f64::total_cmp);
    range.iter().all(|end| end.is_finite()).then_some(range)
}

/// The legend, in as many lines as the width needs. Returns the height of the whole drawing.
fn legend(canvas: &mut Canvas, size: Size, has_paper: bool, top: f64) -> f64 {
    let mut entries = vec!["one sample", "median", "its 95 % interval", "baseline's median"];
    if has_paper {
        entries.push("the paper's figure");
    }
    let (mut x, mut y) = (0.0, top + 12.0);
    canvas.group("series-1", "", |canvas| {
        for (index, entry) in entries.iter().enumerate() {
            let width = 22.0 + svg::text_width(entry, SMALL_SIZE) + 16.0;
            if x > 0.0 && x + width > size.width() + 16.0 {
                (x, y) = (0.0, y + 20.0);
            }
            let middle = y - 4.0;
            match index {
                0 => canvas.dots("sample", [(x + 8.0, middle)]),
                1 => canvas.line("median", (x + 8.0, middle - 7.0), (x + 8.0, middle + 7.0)),
                2 => canvas.rectangle("interval", (x + 1.0, middle - 7.0), (14.0, 14.0), 2.0),
                3 => canvas.line("reference", (x + 8.0, middle - 8.0), (x + 8.0, middle + 8.0)),
                _ => canvas.diamond("paper", (x + 8.0, middle), 5.0),
            }
            canvas.text("small", Anchor::Start, (x + 22.0, y), entry);
            x += width;
        }
    });
    y + 8.0
}

/// A small gauge of a claim: its figure and interval against the requirement and the paper's figure.
///
/// It has no text and is hidden from screen readers: the page says the same in words beside it.
pub fn gauge(claim: &ClaimResult) -> Option<String> {
    if !claim.measured.is_finite() {
        return None;
    }
    let (width, height) = (220.0, 26.0);
    let middle = height / 2.0;
    let requirement = figure::requirement(&claim.required);
    let paper = claim.paper.as_deref().and_then(|paper| figure::printed_range(paper, &claim.unit));
    let bounds = requirement.map_or([None, None], FigureRequirement::bounds);
    let values = [claim.measured].into_iter().chain(claim.ci);
    let values = values.chain(bounds.into_iter().flatten()).chain(paper.into_iter().flatten());
    let scale = Scale::containing(values, (7.0, width - 7.0));
    let mut canvas = Canvas::new(width);
    if requirement.is_some() {
        let [from, to] =
            [bounds[0].map_or(0.0, |low| scale.position(low)), bounds[1].map_or(width, |high| scale.position(high))];
        canvas.rectangle("meets", (from, 2.0), (to - from, height - 4.0), 2.0);
        for x in bounds.into_iter().flatten().map(|bound| scale.position(bound)) {
            canvas.line("threshold", (x, 2.0), (x, height - 2.0));
        }
    }
    canvas.line("rule", (0.0, middle), (width, middle));
    canvas.group("series-1", "", |canvas| {
        if claim.ci.iter().all(|end| end.is_finite()) {
            let ends = claim.ci.map(|end| scale.position(end));
            canvas.rectangle("interval", (ends[0], middle - 6.0), (ends[1] - ends[0], 12.0), 2.0);
        }
        let x = scale.position(claim.measured);
        canvas.line("median", (x, middle - 7.0), (x, middle + 7.0));
    });
    if let Some(ends) = paper {
        let ends = ends.map(|end| scale.position(end));
        canvas.line("paper-range", (ends[0], middle), (ends[1], middle));
        canvas.diamond("paper", (ends[0], middle), 4.5);
        if ends[1] > ends[0] {
            canvas.diamond("paper", (ends[1], middle), 4.5);
        }
    }
    Some(canvas.decoration("gauge", height))
}
