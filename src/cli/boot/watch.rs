//! Arguments and report that `brisk boot record` and `brisk boot hold` share.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;

use crate::cli::output;
use brisk_daemon::boot::{HoldOptions, Report};
use brisk_mechanism::boot::{CompletionSign, RecordingEnd};
use brisk_sys::Root;

/// The number of the JSON schema.
const SCHEMA: u32 = 1;

/// When the command ends.
#[derive(Debug, clap::Args)]
pub struct UntilArguments {
    /// End at this sign, or at the first of several: systemd, file:/PATH, process:NAME or
    /// property:NAME=VALUE
    #[arg(long, value_name = "SIGN")]
    until: Vec<CompletionSign>,
    /// End after this many seconds at the latest
    #[arg(long, value_name = "S", default_value_t = 120, value_parser = clap::value_parser!(u32).range(1..=3600))]
    timeout_s: u32,
    /// Set this governor for policies that boot with performance
    #[arg(long, value_name = "GOVERNOR")]
    pub then: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// Run as the child of the first process
    #[arg(long, hide = true)]
    first_process: bool,
}

impl UntilArguments {
    /// Options that record nothing and hold nothing.
    pub fn options(&self, root: &Root) -> HoldOptions {
        HoldOptions {
            root: root.clone(),
            first_process: self.first_process,
            recording: None,
            hold: None,
            signs: self.until.clone(),
            timeout: Duration::from_secs(self.timeout_s.into()),
        }
    }
}

#[derive(Debug, Serialize)]
struct Answer<'a> {
    schema: u32,
    #[serde(flatten)]
    report: &'a Report,
}

/// Prints the result. The exit code is 2 when a fault prevented both recording and holding, otherwise 0.
///
/// # Errors
/// When standard output cannot be written.
pub fn report(report: &Report, json: bool) -> anyhow::Result<ExitCode> {
    for fault in &report.faults {
        tracing::error!("{fault}");
    }
    output::print(&Answer { schema: SCHEMA, report }, json, |answer| text(answer.report))?;
    let nothing = report.recording.is_none() && report.handed_back.as_ref().is_none_or(Vec::is_empty);
    Ok(if nothing && !report.faults.is_empty() { ExitCode::from(2) } else { ExitCode::SUCCESS })
}

fn text(report: &Report) -> String {
    let mut text = String::new();
    let length_s = report.ended_ms.saturating_sub(report.began_ms) as f64 / 1000.0;
    // Writing to a string cannot fail.
    let ended = if report.ended == RecordingEnd::TimedOut.to_string() { "the time-out" } else { &report.ended };
    let _ = writeln!(text, "ran for {length_s:.1} s, until {ended}");
    if let Some(recorded) = &report.recording {
        let _ = writeln!(
            text,
            "{}: {} KiB, {} samples; the recorder used {:.1} % of a CPU",
            recorded.file.display(),
            recorded.bytes.div_ceil(1024),
            recorded.samples,
            report.cpu_ms / length_s.max(0.001) / 10.0
        );
        if recorded.dropped > 0 {
            let _ = writeln!(text, "{} samples were dropped: raise --memory-kib", recorded.dropped);
        }
    }
    match &report.handed_back {
        Some(held) if held.is_empty() && report.faults.is_empty() => text.push_str("no governor had to be changed\n"),
        Some(held) if held.is_empty() => {}
        Some(held) => text.push_str(&format!("restored: {}\n", held.join(", "))),
        None => {}
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_an_error_nothing_is_said_of_governors() {
        for (held, faults, ended, expected) in [
            (vec![], vec![], "systemd", "ran for 2.0 s, until systemd\nno governor had to be changed\n"),
            (vec![], vec!["no governor is held: no right to it"], "timeout", "ran for 2.0 s, until the time-out\n"),
            (vec!["policy0"], vec![], "stopped", "ran for 2.0 s, until stopped\nrestored: policy0\n"),
        ] {
            let strings = |words: Vec<&str>| words.into_iter().map(str::to_owned).collect();
            let report = Report {
                ended: ended.to_owned(),
                began_ms: 1000,
                ended_ms: 3000,
                cpu_ms: 1.0,
                recording: None,
                handed_back: Some(strings(held)),
                faults: strings(faults),
            };
            assert_eq!(text(&report), expected);
        }
    }
}
