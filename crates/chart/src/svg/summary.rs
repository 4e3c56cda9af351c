//! The top of the chart: the boot, its limits and the possible gains; and its foot: what could not be shown.

use super::sheet::Sheet;
use super::{MARGIN, WIDTH};
use crate::diagnose::{Diagnosis, Limit};
use crate::model::Boot;
use crate::summary::{self as words, seconds};
use brisk_report::svg::{Anchor, fit, text_width};

/// Findings that the chart names; the page and `brisk boot diagnose` name all.
const NAMED: usize = 5;

/// Draws it below `top` and returns the y coordinate of the panels.
pub fn draw(sheet: &mut Sheet, boot: &Boot, diagnosis: &Diagnosis, top: f64) -> f64 {
    let room = WIDTH - 2.0 * MARGIN;
    let mut y = top + 18.0;
    sheet.text("title", Anchor::Start, (MARGIN, y), &fit(&words::title(boot), 20.0, room));
    y += 22.0;
    sheet.text("", Anchor::Start, (MARGIN, y), &words::facts(boot, diagnosis).join("  \u{b7}  "));
    let mut shown_values = String::new();
    for key in ["system.release", "system.uname", "system.cpu", "system.kernel.options"] {
        let Some(value) = boot.header_value(key) else { continue };
        // system.cpu repeats its line for each CPU.
        let value = value.lines().next().unwrap_or_default();
        let value = value.strip_prefix("model name").map_or(value, |value| value.trim_start_matches(['\t', ' ', ':']));
        // Android's system.cpu is the machine's name, which system.uname has.
        if shown_values.contains(value) {
            continue;
        }
        shown_values.push_str(value);
        y += 16.0;
        sheet.text("small", Anchor::Start, (MARGIN, y), &fit(value, 11.0, room));
    }
    y += 28.0;
    if !diagnosis.phases.is_empty() {
        y = phases(sheet, diagnosis, y);
        y = findings(sheet, diagnosis, y);
    }
    y + 22.0
}

fn phases(sheet: &mut Sheet, diagnosis: &Diagnosis, top: f64) -> f64 {
    sheet.text("head", Anchor::Start, (MARGIN, top), "What limited the boot");
    let mut x = sheet.scale.left;
    for limit in Limit::ALL {
        let in_limit = diagnosis.phases.iter().filter(|phase| phase.limit == limit);
        let sum_ms: u32 = in_limit.map(|phase| phase.span.length_ms()).sum();
        if sum_ms > 0 {
            let label = format!("{}: {}", limit.words(), seconds(sum_ms));
            sheet.rectangle(limit.class(), (x, top - 10.0), (11.0, 11.0), "");
            sheet.text("", Anchor::Start, (x + 16.0, top), &label);
            x += 16.0 + text_width(&label, 12.0) + 14.0;
        }
    }
    let y = top + 10.0;
    for phase in &diagnosis.phases {
        let (from, to) = (sheet.scale.x_of(phase.span.start_ms), sheet.scale.x_of(phase.span.end_ms));
        let tooltip = format!(
            "{} for {}, from {} to {}: {:.1} CPUs work, {:.1} wait for a disk",
            phase.limit.words(),
            seconds(phase.span.length_ms()),
            seconds(phase.span.start_ms),
            seconds(phase.span.end_ms),
            phase.busy_cpus,
            phase.waiting_cpus,
        );
        sheet.rectangle(phase.limit.class(), (from, y), (to - from - 1.0, 20.0), &tooltip);
    }
    y + 20.0
}

fn findings(sheet: &mut Sheet, diagnosis: &Diagnosis, top: f64) -> f64 {
    let mut y = top;
    let room = WIDTH - MARGIN - sheet.scale.left;
    for finding in diagnosis.findings.iter().take(NAMED) {
        y += 18.0;
        let at = (sheet.scale.left - 12.0, y);
        sheet.text("gain", Anchor::End, at, &format!("at most {} to win", seconds(finding.gain_ms)));
        let (from, to) = (seconds(finding.span.start_ms), seconds(finding.span.end_ms));
        let text = format!("{from} to {to}: {}", finding.advice);
        sheet.text("", Anchor::Start, (sheet.scale.left, y), &fit(&text, 12.0, room));
    }
    let more = diagnosis.findings.len().saturating_sub(NAMED);
    if more > 0 {
        y += 17.0;
        let text = format!("and {more} more: brisk boot diagnose");
        sheet.text("small", Anchor::Start, (sheet.scale.left, y), &text);
    } else if diagnosis.findings.is_empty() {
        y += 18.0;
        let text = format!("Possible gains: {}.", words::no_gain_text(diagnosis));
        sheet.text("muted", Anchor::Start, (sheet.scale.left, y), &text);
    }
    y
}

/// Lists what was left out. Returns the y coordinate of the chart's end.
pub fn footer(sheet: &mut Sheet, boot: &Boot, top: f64) -> f64 {
    const MAX_OMISSIONS: usize = 12;
    let mut y = top;
    if !boot.omissions.is_empty() {
        y += 12.0;
        sheet.text("head", Anchor::Start, (MARGIN, y), "Left out");
        for omission in boot.omissions.iter().take(MAX_OMISSIONS) {
            y += 15.0;
            let text = fit(&omission.to_string(), 11.0, WIDTH - 2.0 * MARGIN);
            sheet.text("small", Anchor::Start, (MARGIN, y), &text);
        }
        let more = boot.omissions.len().saturating_sub(MAX_OMISSIONS);
        if more > 0 {
            y += 15.0;
            sheet.text("small", Anchor::Start, (MARGIN, y), &format!("and {more} more"));
        }
        y += 8.0;
    }
    y += 12.0;
    let text = format!("Recorded by {}, drawn by brisk {}", boot.format.words(), env!("CARGO_PKG_VERSION"));
    sheet.text("small", Anchor::Start, (MARGIN, y), &text);
    y + MARGIN
}
