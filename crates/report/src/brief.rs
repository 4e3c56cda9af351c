//! The proof on one screen: a line for each experiment, then what was not shown and what failed.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use unicode_width::UnicodeWidthStr;

use super::figure;
use super::summary::{self, Mark, Tally};
use super::table::{bold, dim, printable, style, wrap};
use crate::proof::{ClaimResult, ExperimentResult, Proof, Timekeeping, Verdict};

/// The most lines, with those that a caller adds below: a screen.
pub const MAX_LINES: usize = 38;
/// The narrowest screen; a narrower one breaks its lines.
const MIN_WIDTH: usize = 60;
/// The widest column of names.
const MAX_NAME_WIDTH: usize = 24;
/// The most items of a list that are named.
const MAX_LISTED: usize = 3;
const NOTE_INDENT: &str = "    ";

/// Writes the proof in at most [`MAX_LINES`] lines of `width` columns. With `colour` it holds ANSI escapes, else none.
pub fn render(proof: &Proof, width: usize, colour: bool) -> String {
    let mut out = Output { text: String::new(), lines: 0, width: width.max(MIN_WIDTH), colour };
    if proof.experiments.is_empty() {
        out.line(&[(Style::new(), "No experiment was run.")]);
        return out.text;
    }
    let form = if proof.experiments.iter().all(|experiment| experiment.quick) { "quick form" } else { "full form" };
    let words = format!("{}.", summary::verdict_words(&proof.experiments));
    out.line(&[(bold(), &words), (dim(), &format!("  {form}, {}", proof.device.kernel))]);
    let footer = Footer::of(proof);
    let room = MAX_LINES.saturating_sub(out.lines + footer.lines());
    let mechanisms = summary::mechanisms(proof);
    let (mechanism_count, count) = (mechanisms.len(), proof.experiments.len());
    // With blank lines between mechanisms, without, or without experiments: whichever fits.
    let (has_blank_lines, lists_experiments) = (count + 2 * mechanism_count <= room, count + mechanism_count <= room);
    for (name, experiments) in mechanisms.into_iter().take(room) {
        if has_blank_lines {
            out.line(&[]);
        }
        let words = summary::verdict_words(experiments.iter().copied());
        out.line(&[(bold(), name), (Style::new(), ": "), (Style::new(), &words)]);
        for experiment in experiments.iter().filter(|_| lists_experiments) {
            out.experiment(experiment, name_width(proof));
        }
    }
    let mut room = MAX_LINES.saturating_sub(out.lines + footer.lines());
    let width = out.width - NOTE_INDENT.len();
    // Notes about the user's own device are printed: readers do not expect them only in the report.
    for experiment in proof.experiments.iter().filter(|experiment| experiment.mode == Timekeeping::Native) {
        for line in experiment.notes.iter().flat_map(|note| wrap(&printable(note), width)).take(room) {
            out.line(&[(Style::new(), NOTE_INDENT), (Style::new(), &line)]);
            room -= 1;
        }
    }
    footer.write(&mut out);
    out.text
}

fn name_width(proof: &Proof) -> usize {
    column_width(proof.experiments.iter().map(|experiment| experiment.name.as_str()))
}

/// The width of a column that holds these names, in columns of the screen; a longer name is cut.
pub fn column_width<'a>(names: impl Iterator<Item = &'a str>) -> usize {
    names.map(|name| printable(name).width()).max().unwrap_or(0).min(MAX_NAME_WIDTH)
}

/// The line of one experiment as [`render`] writes it, without a line break; `name_width` is the result of [`column_width`].
pub fn line(experiment: &ExperimentResult, name_width: usize, width: usize, colour: bool) -> String {
    let mut out = Output { text: String::new(), lines: 0, width: width.max(MIN_WIDTH), colour };
    out.experiment(experiment, name_width);
    out.text.truncate(out.text.trim_end_matches('\n').len());
    out.text
}

/// The lines below the experiments.
struct Footer<'a> {
    refuted: Vec<(&'a ExperimentResult, &'a ClaimResult)>,
    open: Vec<(&'a ExperimentResult, &'a ClaimResult)>,
    failed: Vec<&'a ExperimentResult>,
    /// The number of rejected replicates in experiments with open claims, and the most frequent reason.
    rejected: Option<String>,
}

impl<'a> Footer<'a> {
    fn of(proof: &'a Proof) -> Self {
        let claims = |verdict| {
            let all = proof
                .experiments
                .iter()
                .flat_map(|experiment| experiment.claims.iter().map(move |it| (experiment, it)));
            all.filter(move |(_, claim)| Mark::of(claim) == Mark::Verdict(verdict)).collect()
        };
        let open: Vec<(&ExperimentResult, &ClaimResult)> = claims(Verdict::Inconclusive);
        Self {
            refuted: claims(Verdict::NotShown),
            rejected: rejected(proof, &open),
            open,
            failed: proof.experiments.iter().filter(|experiment| experiment.failure.is_some()).collect(),
        }
    }

    /// The number of its lines.
    fn lines(&self) -> usize {
        let list =
            |count: usize| if count == 0 { 0 } else { 2 + count.min(MAX_LISTED) + usize::from(count > MAX_LISTED) };
        let lists = list(self.refuted.len()) + list(self.open.len()) + list(self.failed.len());
        lists + usize::from(self.rejected.is_some()) + usize::from(self.is_empty()) * 2
    }

    fn is_empty(&self) -> bool {
        self.refuted.is_empty() && self.open.is_empty() && self.failed.is_empty()
    }

    fn write(&self, out: &mut Output) {
        if self.is_empty() {
            out.line(&[]);
            out.line(&[(Style::new(), "Everything that is required was shown.")]);
        }
        out.claims(
            "Refuted: the whole 99.9 % interval misses what is required, or a test shows harm.",
            Verdict::NotShown,
            &self.refuted,
        );
        let more = self.open.iter().any(|(experiment, _)| experiment.quick);
        let advice = if more { "; --full decides more" } else { "" };
        let heading = format!("Open: too few replicates, or too much scatter, to decide{advice}.");
        out.claims(&heading, Verdict::Inconclusive, &self.open);
        if let Some(rejected) = &self.rejected {
            out.line(&[(dim(), NOTE_INDENT), (dim(), rejected)]);
        }
        out.list("Failed; the others ran on. The same command tries again:", self.failed.len(), |out, index| {
            let experiment = self.failed[index];
            let reason = summary::failure(experiment).unwrap_or_default();
            out.line(&[
                (failed(), "  ! "),
                (Style::new(), &experiment.name),
                (Style::new(), ": "),
                (Style::new(), reason),
            ]);
        });
    }
}

/// How many replicates of the experiments with `open` claims were rejected, and the reason that most of them share.
fn rejected(proof: &Proof, open: &[(&ExperimentResult, &ClaimResult)]) -> Option<String> {
    let is_open = |experiment: &&ExperimentResult| open.iter().any(|(of, _)| std::ptr::eq(*of, *experiment));
    let mut by_reason: BTreeMap<&str, u32> = BTreeMap::new();
    for rejection in proof.experiments.iter().filter(is_open).flat_map(|experiment| &experiment.rejections) {
        let count = by_reason.entry(rejection.reason.as_str()).or_default();
        *count = count.saturating_add(rejection.count);
    }
    let total = by_reason.values().fold(0u32, |total, count| total.saturating_add(*count));
    let (reason, _) = by_reason.into_iter().max_by_key(|(_, count)| *count)?;
    let word = if total == 1 { "replicate was" } else { "replicates were" };
    Some(format!("{total} {word} rejected: {reason}"))
}

fn failed() -> Style {
    Style::new().bold().fg_color(Some(AnsiColor::Red.into()))
}

struct Output {
    text: String,
    lines: usize,
    width: usize,
    colour: bool,
}

impl Output {
    /// One line of these parts, cut where the screen ends.
    fn line(&mut self, parts: &[(Style, &str)]) {
        let mut left = self.width;
        for (style, text) in parts {
            let text = cut(&printable(text), left);
            left -= text.width();
            if self.colour && !text.is_empty() {
                // Writing to a String cannot fail.
                let _ = write!(self.text, "{style}{text}{style:#}");
            } else {
                self.text.push_str(&text);
            }
        }
        if !self.colour {
            self.text.truncate(self.text.trim_end_matches(' ').len());
        }
        self.text.push('\n');
        self.lines += 1;
    }

    fn experiment(&mut self, experiment: &ExperimentResult, name_width: usize) {
        let tally = Tally::of([experiment]);
        let mark = match (&experiment.failure, tally) {
            (Some(_), _) => ("!", failed()),
            (None, tally) if tally.not_shown > 0 => sign(Verdict::NotShown),
            (None, tally) if tally.inconclusive > 0 => sign(Verdict::Inconclusive),
            (None, tally) if tally.shown > 0 => sign(Verdict::Shown),
            _ => ("\u{b7}", dim()),
        };
        let name = padded(&cut(&printable(&experiment.name), name_width), name_width);
        let counts = if tally.total() == 0 { "-".to_owned() } else { format!("{}/{}", tally.shown, tally.total()) };
        let (figure, text) = key_figure(experiment);
        self.line(&[
            (mark.1, &format!("  {} ", mark.0)),
            (Style::new(), &name),
            (dim(), &format!(" {counts:>5}  ")),
            (bold(), &format!("{figure}  ")),
            (Style::new(), &text),
        ]);
    }

    fn claims(&mut self, heading: &str, verdict: Verdict, claims: &[(&ExperimentResult, &ClaimResult)]) {
        self.list(heading, claims.len(), |out, index| {
            let (sign, style) = sign(verdict);
            let (_, claim) = claims[index];
            let place = if claim.point.is_empty() { String::new() } else { format!(" ({})", claim.point) };
            let measured = figure::with_unit(claim.measured, claim.ci, &claim.unit);
            let interval = figure::interval(claim.measured, claim.ci, &claim.unit);
            let required = figure::requirement_text(&claim.required, &claim.unit);
            let figures = format!("{place}: {measured} {interval}, required {required}");
            out.line(&[(style, &format!("  {sign} ")), (Style::new(), &claim.id), (Style::new(), &figures)]);
        });
    }

    /// A heading and the first of `count` lines below it.
    fn list(&mut self, heading: &str, count: usize, mut line: impl FnMut(&mut Self, usize)) {
        if count == 0 {
            return;
        }
        self.line(&[]);
        self.line(&[(bold(), heading)]);
        (0..count.min(MAX_LISTED)).for_each(|index| line(self, index));
        if count > MAX_LISTED {
            self.line(&[(dim(), &format!("    and {} more (--verbose, or the report)", count - MAX_LISTED))]);
        }
    }
}

fn sign(verdict: Verdict) -> (&'static str, Style) {
    let mark = Mark::Verdict(verdict);
    (mark.sign(), style(mark))
}

/// The range of an experiment's first claim over its points, and the claim's text. A claim with a requirement is preferred;
/// without any claim, the title is the text.
fn key_figure(experiment: &ExperimentResult) -> (String, String) {
    let required = experiment.claims.iter().find(|claim| !summary::is_reported(claim));
    let Some(first) = required.or(experiment.claims.first()) else {
        return (figure::UNAVAILABLE.to_owned(), experiment.title.clone());
    };
    let same = || experiment.claims.iter().filter(|claim| claim.id == first.id && claim.measured.is_finite());
    let by_figure = |one: &&ClaimResult, other: &&ClaimResult| one.measured.total_cmp(&other.measured);
    let (least, most) = (same().min_by(by_figure).unwrap_or(first), same().max_by(by_figure).unwrap_or(first));
    let [low, high] = [least, most].map(|claim| figure::with_unit(claim.measured, claim.ci, &claim.unit));
    let low_alone = figure::with_unit(least.measured, least.ci, "");
    let figure = if low == high { high } else { format!("{low_alone} to {high}") };
    (figure, first.text.clone())
}

fn padded(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(text.width())))
}

/// At most `width` columns of `text`, with an ellipsis where something is missing.
fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    for character in text.chars() {
        let mut longer = kept.clone();
        longer.push(character);
        if longer.width() + 1 > width {
            break;
        }
        kept = longer;
    }
    if width > 0 {
        kept.push('\u{2026}');
    }
    kept
}
