//! `brisk memory plan`: the planned settings with their reasons. It writes nothing.

use std::fmt::Write as _;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use serde::Serialize;

use crate::cli::output;
use brisk_mechanism::memory::{MemoryDevice, MemoryPlan, Setting, SettingOutcome, ZramPlan};
use brisk_sys::Root;

/// The number of the JSON schema.
const SCHEMA: u32 = 1;

/// Arguments of `brisk memory plan`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Writes nothing.

Examples:
  brisk memory plan                   brisk's settings, each with its reason
  brisk memory plan --variant paper   zram of 15 % of memory with lzo
  brisk memory plan --json            the same for programs")]
pub struct Arguments {
    /// Plan for this variant
    #[arg(long, alias = "arm", value_enum, default_value_t)]
    variant: ZramPlan,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    schema: u32,
    #[serde(flatten)]
    plan: MemoryPlan,
    /// Files that exist but could not be read.
    faults: Vec<String>,
}

/// Prints the plan.
///
/// # Errors
/// When standard output cannot be written.
pub fn run(arguments: &Arguments, root: &Root) -> anyhow::Result<ExitCode> {
    let facts = MemoryDevice::probe(root);
    let report = Report { schema: SCHEMA, plan: MemoryPlan::of(&facts, arguments.variant), faults: facts.faults };
    output::print(&report, arguments.json, text)?;
    Ok(ExitCode::SUCCESS)
}

const BOLD: Style = Style::new().bold();
const FAINT: Style = Style::new().dimmed();
const GOOD: Style = AnsiColor::Green.on_default();
const WARN: Style = AnsiColor::Yellow.on_default();

fn text(report: &Report) -> String {
    let mut text = String::new();
    for setting in &report.plan.settings {
        let (style, what) = what(setting);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{BOLD}{:<24}{BOLD:#}{style}{what}{style:#}", setting.name);
        let _ = writeln!(text, "    {}", setting.reason);
        if let (SettingOutcome::Change, Some(file)) = (setting.outcome, &setting.file) {
            let _ = writeln!(text, "    {FAINT}{file}{FAINT:#}");
        }
    }
    for fault in &report.faults {
        let _ = writeln!(text, "{WARN}fault{WARN:#}: {fault}");
    }
    text
}

fn what(setting: &Setting) -> (Style, String) {
    let now = setting.now.as_deref();
    match (setting.outcome, setting.planned.as_deref()) {
        (SettingOutcome::Change, planned) => {
            let planned = planned.unwrap_or_default();
            (GOOD, now.map_or_else(|| planned.to_owned(), |now| format!("{now} -> {planned}")))
        }
        (SettingOutcome::Keep, _) => (FAINT, format!("stays {}", now.unwrap_or("as it is"))),
        (SettingOutcome::LeaveAlone, _) => {
            (WARN, now.map_or_else(|| "left alone".to_owned(), |now| format!("{now}, left alone")))
        }
        (SettingOutcome::Unsupported, _) => (FAINT, "not supported".to_owned()),
    }
}
