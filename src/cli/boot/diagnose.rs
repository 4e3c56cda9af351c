//! `brisk boot diagnose`: the phases of a recorded boot and the possible gains, in seconds.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};

use crate::cli::output;
use brisk_chart::Boot;
use brisk_chart::diagnose::{self, Diagnosis, Finding, Limit};
use brisk_chart::json::DiagnosisReport;
use brisk_chart::summary::{self, seconds};

/// Arguments of `brisk boot diagnose`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Every gain is an upper bound: the time saved if all of a phase's work were parallel (Amdahl, for this
device's CPUs and for 2, 4 and 8), every read were cached, nothing had to wait, the first named process
did nothing, or every CPU ran at its highest frequency. Gains of one phase do not add up.

Exit code 0 when the recording holds CPU samples, 1 when it does not.

Examples:
  brisk boot diagnose bootchart.tgz
  brisk boot diagnose /data/bootchart --json")]
pub struct Arguments {
    /// The recording: an archive, or a folder of logs
    #[arg(value_name = "ARCHIVE-OR-FOLDER")]
    recording: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Diagnoses the recording and prints the result.
///
/// # Errors
/// When the recording cannot be read.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let boot = super::open(&arguments.recording)?;
    let diagnosis = diagnose::diagnose(&boot);
    output::print(&DiagnosisReport::of(&boot, &diagnosis), arguments.json, |_| text(&boot, &diagnosis))?;
    Ok(if diagnosis.phases.is_empty() { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

const BOLD: Style = Style::new().bold();
const FAINT: Style = Style::new().dimmed();

fn text(boot: &Boot, diagnosis: &Diagnosis) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{BOLD}{}{BOLD:#}\n{}", summary::title(boot), summary::facts(boot, diagnosis).join(", "));
    if diagnosis.phases.is_empty() {
        text.push_str("\nThe recording holds no CPU samples, so no phase can be diagnosed.\n");
        return text;
    }
    let _ = writeln!(
        text,
        "\n{BOLD}{:>9}  {:>9}  {:>9}  {:13} {:>4}  {:>7}{BOLD:#}",
        "from", "to", "takes", "limit", "CPUs", "waiting"
    );
    for phase in &diagnosis.phases {
        let style = colour(phase.limit);
        let _ = write!(
            text,
            "{:>9}  {:>9}  {:>9}  {style}{:13}{style:#} {:>4.1}  {:>7.1}",
            seconds(phase.span.start_ms),
            seconds(phase.span.end_ms),
            seconds(phase.span.length_ms()),
            phase.limit.words(),
            phase.busy_cpus,
            phase.waiting_cpus
        );
        let _ = match phase.speed {
            Some(speed) => writeln!(text, "  {FAINT}at {:.0} % of the highest frequency{FAINT:#}", speed * 100.0),
            None => writeln!(text),
        };
    }
    let _ = writeln!(text, "\n{BOLD}Possible gains (upper bounds){BOLD:#}");
    for finding in &diagnosis.findings {
        describe(&mut text, boot, finding);
    }
    if diagnosis.findings.is_empty() {
        let _ = writeln!(text, "  {}", summary::no_gain_text(diagnosis));
    }
    text
}

fn describe(text: &mut String, boot: &Boot, finding: &Finding) {
    let (gain, what) = (seconds(finding.gain_ms), summary::opportunity(finding.opportunity));
    let (from, to) = (seconds(finding.span.start_ms), seconds(finding.span.end_ms));
    let _ = writeln!(text, "{BOLD}{gain:>9}{BOLD:#}  {what}, {from} to {to}");
    let _ = writeln!(text, "           {}", finding.advice);
    if !finding.bounds.is_empty() {
        let _ = writeln!(text, "           {FAINT}Amdahl's bound: {}{FAINT:#}", summary::bounds(finding));
    }
    if !finding.who.is_empty() {
        let _ = writeln!(text, "           {FAINT}processes: {}{FAINT:#}", summary::who(boot, finding));
    }
}

fn colour(limit: Limit) -> Style {
    match limit {
        Limit::OneCpu | Limit::Disk => AnsiColor::Yellow.on_default(),
        Limit::Waiting | Limit::PartlyBusy => AnsiColor::Red.on_default(),
        Limit::Idle => FAINT,
        Limit::SeveralCpus | Limit::EveryCpu => AnsiColor::Green.on_default(),
    }
}
