//! `brisk memory plan`: the planned settings with their reasons. It writes nothing.

use std::fmt::Write as _;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use serde::Serialize;

use crate::cli::output;
use brisk_config::Layers;
use brisk_mechanism::memory::{MemoryDevice, MemoryPlan, Setting, SettingOutcome, ZramPlan};
use brisk_sys::Root;

/// The number of the JSON schema.
const SCHEMA: u32 = 1;

/// Arguments of `brisk memory plan`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Writes nothing.

Examples:
  brisk memory plan                   the settings, each with its reason
  brisk memory plan --variant paper   zram of 15 % of memory with lzo
  brisk memory plan --json            the same for programs")]
pub struct Arguments {
    /// Plan for this variant [default: that of the configuration]
    #[arg(long, alias = "arm", value_enum)]
    variant: Option<ZramPlan>,
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
    let (config, configuration_fault) = Layers::read_or_default(root);
    let mut config = config.memory.zram;
    config.plan = arguments.variant.unwrap_or(config.plan);
    let mut facts = MemoryDevice::probe(root);
    facts.faults.extend(configuration_fault);
    let plan = MemoryPlan::from_config(&facts, &config);
    let report = Report { schema: SCHEMA, plan, faults: facts.faults };
    output::print(&report, arguments.json, text)?;
    Ok(ExitCode::SUCCESS)
}

const BOLD: Style = Style::new().bold();
const FAINT: Style = Style::new().dimmed();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default();
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
        (SettingOutcome::Refused, _) => (BAD, "refused".to_owned()),
    }
}
