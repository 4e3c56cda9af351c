//! The proof as one self-contained HTML file: no scripts, no external fonts or images, and a content security policy that
//! forbids any request.

use askama::Template;

use super::course_charts::{self, CourseChart};
use super::finding::{self, Finding};
use super::plot::Size;
use super::summary::{self, Mark, Row, Subject, Tally};
use super::{figure, plot, svg};
use crate::proof::{ArmResult, ClaimResult, ExperimentResult, Proof, Timekeeping, Verdict};

/// The style of a page, for other pages in the same form.
pub const STYLE: &str = include_str!("../templates/page.css");

/// An experiment with more rows than this is folded in the table; its claims and plots are not.
const UNFOLDED_ROWS: usize = 20;
/// A comparison with more metrics has a row for each: a page has room for this many columns of words.
const MAX_COLUMNS: usize = 6;

/// Writes the report. The same proof gives the same bytes.
pub fn render(proof: &Proof) -> String {
    let (headline, rest) = headline(proof);
    let page = Page {
        page_style: STYLE,
        plot_style: svg::STYLE,
        proof,
        headline,
        rest,
        date: date(&proof.started),
        device: device(proof),
        mechanisms: mechanisms(proof),
        experiments: proof.experiments.iter().enumerate().map(|(index, e)| Experiment::of(e, index)).collect(),
        modes: modes(proof),
        negligible: summary::NEGLIGIBLE_PERCENT,
        badges: [Verdict::Shown, Verdict::NotShown, Verdict::Inconclusive].map(|v| Badge::of(Mark::Verdict(v))),
    };
    // The template writes to a String from plain data, which cannot fail.
    page.render().unwrap_or_default()
}

/// Renders a proof that is given as JSON in every form, as a fuzz target does: no input may make it panic.
///
/// Returns `None` where the text is not a proof.
pub fn render_untrusted(json: &[u8]) -> Option<String> {
    let proof: Proof = serde_json::from_slice(json).ok()?;
    for (width, colour) in [(0, false), (80, true), (200, false)] {
        super::table::render(&proof, width, colour);
    }
    super::json::render(&proof);
    for experiment in &proof.experiments {
        plot::standalone(experiment);
    }
    Some(render(&proof))
}

#[derive(Template)]
#[template(path = "report.html")]
struct Page<'a> {
    page_style: &'static str,
    plot_style: &'static str,
    proof: &'a Proof,
    headline: String,
    rest: String,
    date: String,
    device: Vec<(&'static str, String)>,
    mechanisms: Vec<Mechanism<'a>>,
    experiments: Vec<Experiment<'a>>,
    modes: Vec<(&'static str, &'static str)>,
    negligible: f64,
    badges: [Badge; 3],
}

struct Mechanism<'a> {
    name: &'a str,
    badge: Badge,
    tally: String,
    experiments: Vec<Overview<'a>>,
    energy_measured: bool,
}

/// An experiment in the few lines below its mechanism's verdict.
struct Overview<'a> {
    anchor: String,
    title: &'a str,
    badge: Badge,
    /// The reason of its failure, in a line.
    failure: Option<&'a str>,
    sampling: String,
    comparisons: Vec<Comparison>,
    plain: Vec<String>,
}

/// The arms that share a baseline: a column for each metric and a row for each arm, or transposed.
struct Comparison {
    baseline: String,
    columns: Vec<String>,
    rows: Vec<(String, Vec<String>)>,
}

/// A verdict as a coloured word with a sign.
#[derive(Clone, Copy)]
struct Badge {
    class: &'static str,
    sign: &'static str,
    words: &'static str,
}

impl Badge {
    fn of(mark: Mark) -> Self {
        let class = match mark {
            Mark::Verdict(Verdict::Shown) => "shown",
            Mark::Verdict(Verdict::NotShown) => "not-shown",
            Mark::Verdict(Verdict::Inconclusive) => "inconclusive",
            Mark::Reported => "reported",
            Mark::ArmOutcome(summary::ArmOutcome::Better) => "outcome better",
            Mark::ArmOutcome(summary::ArmOutcome::Worse) => "outcome worse",
            Mark::ArmOutcome(_) | Mark::Nothing => "outcome",
        };
        Self { class, sign: mark.sign(), words: mark.words() }
    }

    fn of_all(experiments: &[&ExperimentResult]) -> Self {
        match experiments.iter().filter(|experiment| experiment.failure.is_some()).count() {
            0 => Self::of_tally(Tally::of(experiments.iter().copied())),
            failed if failed == experiments.len() => Self { class: "failed", sign: "!", words: "failed" },
            _ => Self { class: "failed", sign: "!", words: "failed in part" },
        }
    }

    fn of_tally(tally: Tally) -> Self {
        match tally.verdict() {
            Some(verdict) => Self::of(Mark::Verdict(verdict)),
            None if tally.total() == 0 => Self { class: "reported", sign: "", words: "no claim" },
            None if tally.shown > 0 => Self { class: "inconclusive", sign: "\u{25d0}", words: "shown in part" },
            None => Self { class: "not-shown", sign: "\u{2717}", words: "not shown" },
        }
    }
}

struct Experiment<'a> {
    anchor: String,
    result: &'a ExperimentResult,
    form: &'static str,
    groups: Vec<Group<'a>>,
    row_count: usize,
    claims: Vec<Claim<'a>>,
    plots: Vec<Plot<'a>>,
    courses: Vec<CourseChart<'a>>,
    processes: Vec<CourseChart<'a>>,
    samples: String,
    refused: u64,
    unexplained: bool,
}

/// The rows of one metric at one point, or those of the claims.
struct Group<'a> {
    heading: String,
    rows: Vec<TableRow<'a>>,
}

struct TableRow<'a> {
    label: &'a str,
    place: String,
    is_claim: bool,
    is_baseline: bool,
    row: Row<'a>,
    badge: Badge,
}

struct Claim<'a> {
    claim: &'a ClaimResult,
    badge: Badge,
    measured: String,
    interval: String,
    required: String,
    p: String,
    effect: String,
    paper: String,
    gauge: String,
}

struct Plot<'a> {
    metric: &'a str,
    unit: String,
    wide: String,
    narrow: String,
    series: Vec<Series<'a>>,
}

struct Series<'a> {
    arm: &'a ArmResult,
    count: usize,
    median: String,
    interval: String,
    deviation: String,
    gain: String,
    gain_interval: String,
}

/// The first part of the verdict as headline, and the rest for the next line.
fn headline(proof: &Proof) -> (String, String) {
    if proof.experiments.is_empty() {
        return ("No experiment was run".to_owned(), String::new());
    }
    let words = summary::verdict_words(&proof.experiments);
    let (first, rest) = words.split_once(", ").unwrap_or((&words, ""));
    let mut first = first.to_owned();
    if let Some(letter) = first.get_mut(..1) {
        letter.make_ascii_uppercase();
    }
    (first, rest.to_owned())
}

/// RFC 3339 in UTC, formatted for reading; anything else unchanged.
fn date(started: &str) -> String {
    match (started.get(..10), started.get(10..16), started.get(16..)) {
        (Some(day), Some(time), Some(rest)) if time.starts_with('T') && rest.ends_with('Z') => {
            format!("{day}{} UTC", time.replacen('T', " ", 1))
        }
        _ => started.to_owned(),
    }
}

fn device(proof: &Proof) -> Vec<(&'static str, String)> {
    let device = &proof.device;
    let place = match device.place.as_str() {
        "lab" => "the lab: a virtual device".to_owned(),
        "here" => "this device itself".to_owned(),
        other => other.to_owned(),
    };
    let energy = match device.energy_source.as_deref() {
        None => "not measured".to_owned(),
        Some("rapl") => "RAPL counters of the processor".to_owned(),
        Some("power-rail") => "a power rail's sensor".to_owned(),
        Some("battery") => "the battery's gauge".to_owned(),
        Some("model") => "a model (C V\u{b2} f + idle), not a sensor".to_owned(),
        Some(other) => other.to_owned(),
    };
    let known = |count: u64, text: String| if count == 0 { String::new() } else { text };
    let memory = figure::scale("KiB", device.memory_kib as f64);
    let memory = figure::with_unit(device.memory_kib as f64 * memory.factor, [f64::NAN; 2], &memory.unit);
    let facts = vec![
        ("Measured on", place),
        ("Kernel", device.kernel.clone()),
        ("Processor", device.processor.clone()),
        ("CPUs online", known(device.cpu_count.into(), device.cpu_count.to_string())),
        ("Memory", known(device.memory_kib, memory)),
        ("Energy from", energy),
        ("Begun", date(&proof.started)),
        ("brisk", proof.brisk.clone()),
    ];
    facts.into_iter().filter(|(_, value)| !value.is_empty()).collect()
}

fn mechanisms(proof: &Proof) -> Vec<Mechanism<'_>> {
    summary::mechanisms(proof)
        .into_iter()
        .map(|(name, experiments)| Mechanism {
            name,
            badge: Badge::of_all(&experiments),
            tally: summary::verdict_words(experiments.iter().copied()),
            energy_measured: experiments.iter().any(|e| e.arms.iter().any(summary::is_energy)),
            experiments: experiments.into_iter().map(|experiment| overview(proof, experiment)).collect(),
        })
        .collect()
}

fn overview<'a>(proof: &'a Proof, experiment: &'a ExperimentResult) -> Overview<'a> {
    let index = proof.experiments.iter().position(|other| std::ptr::eq(other, experiment));
    let found = finding::findings(experiment);
    let baselines = summary::distinct(found.iter().map(|finding| finding.baseline.as_str()));
    let comparisons = baselines.into_iter().map(|baseline| comparison(baseline, &found)).collect();
    let sentences = |finding: &Finding| [finding.same_sentence(), finding.worse_sentence()];
    let refused = match summary::refused(experiment) {
        0 => "no replicate refused".to_owned(),
        1 => "1 replicate refused".to_owned(),
        count => format!("{count} replicates refused"),
    };
    Overview {
        anchor: anchor(index.unwrap_or(0)),
        title: &experiment.title,
        badge: Badge::of_all(&[experiment]),
        failure: summary::failure(experiment),
        sampling: format!("{}; samples: {}; {refused}", experiment.mode.word(), samples(experiment)),
        plain: found.iter().filter(|finding| !finding.energy).flat_map(sentences).flatten().collect(),
        comparisons,
    }
}

fn comparison(baseline: &str, found: &[Finding]) -> Comparison {
    let found: Vec<&Finding> = found.iter().filter(|finding| finding.baseline == baseline).collect();
    let metrics = summary::distinct(found.iter().map(|finding| finding.metric.as_str()));
    let arms = summary::distinct(found.iter().map(|finding| finding.arm.as_str()));
    let text = |arm: &str, metric: &str| {
        let finding = found.iter().find(|finding| finding.arm == arm && finding.metric == metric);
        finding.map_or_else(|| figure::UNAVAILABLE.to_owned(), |finding| finding.text.clone())
    };
    let row_of_arm = |arm: &&str| ((*arm).to_owned(), metrics.iter().map(|metric| text(arm, metric)).collect());
    let row_of_metric = |metric: &&str| ((*metric).to_owned(), arms.iter().map(|arm| text(arm, metric)).collect());
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let (columns, rows) = if metrics.len() > MAX_COLUMNS && arms.len() < metrics.len() {
        (owned(&arms), metrics.iter().map(row_of_metric).collect())
    } else {
        (owned(&metrics), arms.iter().map(row_of_arm).collect())
    };
    Comparison { baseline: baseline.to_owned(), columns, rows }
}

/// Anchors come from the place in the proof, never from a name.
fn anchor(index: usize) -> String {
    format!("experiment-{}", index + 1)
}

impl<'a> Experiment<'a> {
    fn of(result: &'a ExperimentResult, index: usize) -> Self {
        let anchor = anchor(index);
        let metrics = summary::distinct(result.arms.iter().map(|arm| arm.metric.as_str()));
        let plots =
            metrics.into_iter().enumerate().map(|(at, metric)| Plot::of(result, metric, &format!("{anchor}-{at}")));
        let explained: u64 = result.rejections.iter().map(|rejection| u64::from(rejection.count)).sum();
        let refused = summary::refused(result);
        let rows = summary::rows(result);
        Self {
            form: if result.quick { "quick form" } else { "full form" },
            row_count: rows.len(),
            groups: groups(rows),
            claims: result.claims.iter().map(Claim::of).collect(),
            plots: plots.collect(),
            courses: course_charts::of_steps(result, &anchor),
            processes: course_charts::of_processes(result, &anchor),
            samples: samples(result),
            refused,
            unexplained: refused > explained,
            anchor,
            result,
        }
    }
}

fn samples(experiment: &ExperimentResult) -> String {
    let counts = experiment.arms.iter().map(|arm| arm.samples.len());
    match (counts.clone().min(), counts.max()) {
        (Some(least), Some(most)) if least == most => format!("{least} for each arm and point"),
        (Some(least), Some(most)) => format!("{least} to {most} for each arm and point"),
        _ => "none".to_owned(),
    }
}

/// The rows in groups that share a heading.
fn groups(rows: Vec<Row<'_>>) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for row in rows {
        let (heading, line) = TableRow::of(row);
        match groups.last_mut().filter(|group| group.heading == heading) {
            Some(group) => group.rows.push(line),
            None => groups.push(Group { heading, rows: vec![line] }),
        }
    }
    groups
}

impl<'a> TableRow<'a> {
    /// The heading that it belongs under, and the row.
    fn of(row: Row<'a>) -> (String, Self) {
        let badge = Badge::of(row.mark);
        match row.subject {
            Subject::Series(arm, _) => {
                let heading = join(&[&arm.metric, &arm.point]);
                let (label, is_baseline) = (arm.name.as_str(), arm.baseline);
                (heading, Self { label, place: String::new(), is_claim: false, is_baseline, row, badge })
            }
            Subject::Claim(claim) => {
                let place = join(&[claim.arm.as_deref().unwrap_or_default(), &claim.point]);
                let label = claim.text.as_str();
                ("Claims".to_owned(), Self { label, place, is_claim: true, is_baseline: false, row, badge })
            }
        }
    }
}

fn join(parts: &[&str]) -> String {
    parts.iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>().join(", ")
}

impl<'a> Claim<'a> {
    fn of(claim: &'a ClaimResult) -> Self {
        Self {
            claim,
            badge: Badge::of(Mark::of(claim)),
            measured: figure::with_unit(claim.measured, claim.ci, &claim.unit),
            interval: figure::interval(claim.measured, claim.ci, &claim.unit),
            required: figure::requirement_text(&claim.required, &claim.unit),
            p: claim.p.filter(|p| p.is_finite()).map_or_else(String::new, probability),
            effect: claim.effect.filter(|effect| effect.is_finite()).map_or_else(String::new, |e| figure::fixed(e, 2)),
            paper: claim.paper.as_deref().map(figure::printed).unwrap_or_default(),
            gauge: plot::gauge(claim).unwrap_or_default(),
        }
    }
}

fn probability(p: f64) -> String {
    if p < 0.001 { "p < 0.001".to_owned() } else { format!("p = {}", figure::fixed(p, 3)) }
}

impl<'a> Plot<'a> {
    fn of(experiment: &'a ExperimentResult, metric: &'a str, id: &str) -> Self {
        let arms: Vec<&ArmResult> =
            summary::ordered(experiment).into_iter().filter(|arm| arm.metric == metric).collect();
        let [wide, narrow] = Size::both(id, |size, id| plot::strips(experiment, metric, size, id));
        Self {
            metric,
            unit: arms.first().map_or_else(String::new, |arm| summary::scaled(experiment, arm).unit),
            wide,
            narrow,
            series: arms.into_iter().map(|arm| Series::of(experiment, arm)).collect(),
        }
    }
}

impl<'a> Series<'a> {
    fn of(experiment: &ExperimentResult, arm: &'a ArmResult) -> Self {
        let scaled = summary::scaled(experiment, arm);
        let (median, ci) = (arm.median * scaled.factor, arm.ci.map(|end| end * scaled.factor));
        let deviation = arm.standard_deviation * scaled.factor;
        let gain = summary::gain(arm, &experiment.arms);
        let empty = arm.samples.is_empty();
        let shown = |text: String| if empty { figure::UNAVAILABLE.to_owned() } else { text };
        Self {
            arm,
            count: arm.samples.len(),
            median: summary::median(experiment, arm),
            interval: shown(figure::interval(median, ci, &scaled.unit)),
            deviation: shown(figure::fixed(deviation, figure::decimals(deviation, [f64::NAN; 2]))),
            gain: gain.map_or_else(String::new, |gain| figure::change(gain.percent, gain.ci)),
            gain_interval: gain.map_or_else(String::new, |gain| figure::interval(gain.percent, gain.ci, "%")),
        }
    }
}

fn modes(proof: &Proof) -> Vec<(&'static str, &'static str)> {
    let known = [
        (
            Timekeeping::Deterministic,
            "A virtual device with one CPU whose time is counted in instructions. It repeats to a fraction of a percent \
             on a busy host, and sees neither cache nor TLB misses: its figures are instructions turned into time.",
        ),
        (
            Timekeeping::Parallel,
            "A virtual device whose CPUs run at the same time on the host. Only ratios of replicates side by side are valid; \
             a replicate whose CPUs waited for the host is refused.",
        ),
        (Timekeeping::Native, "The device itself, with its own kernel, governor and clock."),
    ];
    let used = |mode: &Timekeeping| proof.experiments.iter().any(|experiment| experiment.mode == *mode);
    known.into_iter().filter(|(mode, _)| used(mode)).map(|(mode, text)| (mode.word(), text)).collect()
}
