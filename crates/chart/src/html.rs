//! The chart as one HTML page with zoom, hover, search and fold. It is self-contained and makes no network requests.

use askama::Template;

use super::diagnose;
use super::model::Boot;
use super::summary::{self, seconds};
use super::{json, svg};

/// The approximate number of rows of the process tree before anything is unfolded.
const MAX_ROWS: usize = 140;

#[derive(Template)]
#[template(path = "boot-chart.html")]
struct Page<'a> {
    colours: &'static str,
    style: &'static str,
    script: &'static str,
    title: String,
    facts: String,
    system: Vec<(&'a str, &'a str)>,
    phases: Vec<PhaseLine>,
    findings: Vec<FindingLine>,
    nothing: &'static str,
    left_out: Vec<String>,
    recorded_by: &'static str,
    version: &'static str,
    data: String,
}

struct PhaseLine {
    class: &'static str,
    limit: &'static str,
    from: String,
    to: String,
    takes: String,
    cpus: String,
    waiting: String,
    in_no_process: String,
    speed: String,
}

struct FindingLine {
    gain: String,
    what: &'static str,
    from_ms: u32,
    to_ms: u32,
    from: String,
    to: String,
    advice: String,
    bounds: String,
    who: String,
}

/// Draws `boot`.
pub fn render(boot: &Boot) -> String {
    let diagnosis = diagnose::diagnose(boot);
    let phases = diagnosis.phases.iter().map(|phase| PhaseLine {
        class: phase.limit.class(),
        limit: phase.limit.words(),
        from: seconds(phase.span.start_ms),
        to: seconds(phase.span.end_ms),
        takes: seconds(phase.span.length_ms()),
        cpus: format!("{:.1}", phase.busy_cpus),
        waiting: format!("{:.1}", phase.waiting_cpus),
        in_no_process: phase.in_no_process.map_or_else(String::new, |share| format!("{:.0} %", share * 100.0)),
        speed: phase.speed.map_or_else(String::new, |speed| format!("{:.0} %", speed * 100.0)),
    });
    let findings = diagnosis.findings.iter().map(|finding| FindingLine {
        gain: seconds(finding.gain_ms),
        what: summary::opportunity(finding.opportunity),
        from_ms: finding.span.start_ms,
        to_ms: finding.span.end_ms,
        from: seconds(finding.span.start_ms),
        to: seconds(finding.span.end_ms),
        advice: finding.advice.clone(),
        bounds: summary::bounds(finding),
        who: summary::who(boot, finding),
    });
    let known = [
        ("system.release", "System"),
        ("system.uname", "Kernel"),
        ("system.cpu", "Processor"),
        ("system.kernel.options", "Kernel options"),
    ];
    let page = Page {
        colours: svg::STYLE,
        style: include_str!("../templates/boot-chart.css"),
        script: include_str!("../templates/boot-chart.js"),
        title: summary::title(boot),
        facts: summary::facts(boot, &diagnosis).join(" \u{b7} "),
        system: known.iter().filter_map(|(key, name)| boot.header_value(key).map(|value| (*name, value))).collect(),
        phases: phases.collect(),
        findings: findings.collect(),
        nothing: summary::no_gain_text(&diagnosis),
        left_out: boot.omissions.iter().map(ToString::to_string).collect(),
        recorded_by: boot.format.words(),
        version: env!("CARGO_PKG_VERSION"),
        data: json::page_data(boot, &diagnosis, MAX_ROWS),
    };
    // The template writes to a String from plain data alone, which cannot fail.
    page.render().unwrap_or_default()
}
