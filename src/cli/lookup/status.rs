//! `brisk lookup status`: the state of the binder driver's cache.

use std::fmt::Write as _;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use serde::Serialize;

use crate::cli::output;
use brisk_mechanism::{Support, SupportState, lookup};
use brisk_sys::Root;
use brisk_sys::binder::cache::{self, CacheEntry, CacheStatus};

/// The number of the JSON schema.
const SCHEMA: u32 = 1;

/// Arguments of `brisk lookup status`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit code 0 when the driver answers lookups of a context, 1 when it does not.

The cached answers are listed in debugfs, which only root may read.

Examples:
  brisk lookup status              text
  sudo brisk lookup status --json  everything, with the cached answers")]
pub struct Arguments {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    schema: u32,
    #[serde(flatten)]
    support: Support,
    contexts: Vec<Context>,
}

#[derive(Debug, Serialize)]
struct Context {
    #[serde(flatten)]
    status: CacheStatus,
    /// Hits divided by hits and misses; `None` while both are zero.
    hit_ratio: Option<f64>,
    /// The cached answers; `None` where debugfs cannot be read.
    kept: Option<Vec<CacheEntry>>,
}

/// Prints the state of every context.
///
/// # Errors
/// When standard output cannot be written.
pub fn run(arguments: &Arguments, root: &Root) -> anyhow::Result<ExitCode> {
    let contexts = cache::status(root).unwrap_or_default();
    let context = |status: CacheStatus| Context {
        hit_ratio: status.hit_ratio(),
        kept: cache::entries(root, &status.context).ok(),
        status,
    };
    let report = Report {
        schema: SCHEMA,
        support: lookup::support(root),
        contexts: contexts.into_iter().map(context).collect(),
    };
    output::print(&report, arguments.json, text)?;
    Ok(ExitCode::from(u8::from(report.support.state != SupportState::Active)))
}

const BOLD: Style = Style::new().bold();
const FAINT: Style = Style::new().dimmed();

fn text(report: &Report) -> String {
    let (word, style) = match report.support.state {
        SupportState::Unsupported => ("unsupported", FAINT),
        SupportState::Available => ("available", AnsiColor::Yellow.on_default()),
        SupportState::Active => ("active", AnsiColor::Green.on_default()),
    };
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{style}{word}{style:#}: {}", report.support.reason);
    if !report.support.advice.is_empty() {
        let _ = writeln!(text, "-> {}", report.support.advice);
    }
    for Context { status, hit_ratio, kept } in &report.contexts {
        let _ = writeln!(text, "\n{BOLD}{}{BOLD:#}  {}, {}", status.context, status.mode, status.state);
        let unknown = if status.counters.is_empty() { "only root may read it" } else { "no lookups yet" };
        let ratio = hit_ratio.map_or_else(|| unknown.to_owned(), |ratio| format!("{:.1} %", ratio * 100.0));
        let _ = writeln!(text, "  {:<18}{ratio}", "hit ratio");
        let _ = writeln!(text, "  {:<18}{}, room for {}", "policy", status.policy, status.capacity);
        for (name, value) in &status.counters {
            let line = format!("  {:<18}{value}", name.replace('_', " "));
            // Counters at zero are dimmed.
            let style = if *value == 0 { FAINT } else { Style::new() };
            let _ = writeln!(text, "{style}{line}{style:#}");
        }
        for entry in kept.iter().flatten() {
            let _ = writeln!(
                text,
                "  {:>8} hits  {:<28} {} of uid {}, code {}",
                entry.hits, entry.name, entry.scope, entry.uid, entry.code
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    // Verifies LOOKUP-8.
    #[test]
    fn a_context_is_shown_with_its_counters() {
        let counters = cache::parse_counters("hits 75\nmisses 25\nrefused_lsm 0\n").unwrap();
        let status = CacheStatus {
            context: "binder".into(),
            mode: "cooperative".into(),
            state: "active".into(),
            policy: "lru".into(),
            capacity: 2048,
            counters,
        };
        let support = Support { state: SupportState::Active, reason: "it answers".into(), advice: String::new() };
        let kept = cache::parse_entries("75 any 0 1 3 activity\n");
        let context = Context { hit_ratio: status.hit_ratio(), status, kept };
        let text = text(&Report { schema: SCHEMA, support, contexts: vec![context] });
        let text = anstream::adapter::strip_str(&text).to_string();
        for line in [
            "active: it answers",
            "binder  cooperative, active",
            "  hit ratio         75.0 %",
            "  policy            lru, room for 2048",
            "  refused lsm       0",
            "        75 hits  activity                     any of uid 0, code 3",
        ] {
            assert!(text.lines().any(|found| found == line), "{line:?} is not in\n{text}");
        }
    }
}
