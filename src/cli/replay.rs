//! `brisk replay`: what this brisk would decide for a daemon's recording, also with another configuration.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;

use super::output;
use brisk_config::Layers;
use brisk_daemon::executor::describe;
use brisk_daemon::replay::{Difference, Replayed, replay};

/// How many differences the text shows.
const SHOWN_DIFFERENCES: usize = 40;

/// Arguments of `brisk replay`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Neither reads nor changes this device. With another configuration, every decision is assumed to succeed,
and only the events that the recorded configuration subscribed to are available.

Exit code 0 when the decisions are the recorded ones, 1 when they differ.

Examples:
  sudo brisk daemon --record day.jsonl         record a day; SIGINT ends it
  brisk replay day.jsonl                       does this brisk decide the same?
  brisk replay day.jsonl --config other.toml   what would differ?")]
pub struct Arguments {
    /// The file that `brisk daemon --record` wrote
    pub recording: PathBuf,
    /// Use FILE over the defaults, instead of the recorded configuration
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print everything as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Replays and prints.
///
/// # Errors
/// A recording or a configuration that cannot be read or is invalid.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let path = &arguments.recording;
    let config = arguments.config.as_deref().map(Layers::read_only).transpose()?;
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let tree = tempfile::tempdir().context("cannot make a temporary folder")?;
    let config = config.map(|layers| layers.config);
    let replayed = replay(BufReader::new(file), config.as_ref(), tree.path())
        .with_context(|| format!("cannot replay {}", path.display()))?;
    output::print(&replayed, arguments.json, |replayed| text(replayed, config.is_some()))?;
    Ok(ExitCode::from(u8::from(!replayed.differences.is_empty())))
}

fn text(replayed: &Replayed, is_other: bool) -> String {
    let mut text = format!(
        "brisk {} on Linux {}: {} events in {:.1} s{}\n",
        replayed.brisk,
        if replayed.kernel.is_empty() { "?" } else { &replayed.kernel },
        replayed.events,
        replayed.seconds,
        if replayed.is_full { ", then the recording was full" } else { "" }
    );
    let width = replayed.mechanisms.iter().map(|count| count.mechanism.len()).max().unwrap_or_default();
    for count in &replayed.mechanisms {
        let of_mechanism = |difference: &&Difference| difference.mechanism == count.mechanism;
        let differ = replayed.differences.iter().filter(of_mechanism).count();
        let decisions = match (count.recorded, count.replayed, differ) {
            (0, 0, _) => "no decision".to_owned(),
            (recorded, _, 0) => format!("{recorded} decisions, all as recorded"),
            (recorded, replayed, _) => format!("{recorded} decisions recorded, {replayed} now"),
        };
        let _ = writeln!(text, "  {:width$}  {decisions}", count.mechanism);
        let _ = writeln!(text, "  {:width$}  {}", "", count.support.reason);
    }
    if is_other && !replayed.missing_events.is_empty() {
        let names: Vec<_> = BTreeSet::iter(&replayed.missing_events).copied().collect();
        let _ = writeln!(
            text,
            "\nThe recording has no {}: none occurred, or the recorded configuration did not subscribe to them.",
            names.join(", no ")
        );
    }
    if !replayed.differences.is_empty() {
        text += "\n  - recorded, + now\n";
    }
    for difference in replayed.differences.iter().take(SHOWN_DIFFERENCES) {
        let Difference { at_ms, mechanism, is_recorded, lasts_ms, decision } = difference;
        let sign = if *is_recorded { '-' } else { '+' };
        let action = describe(&decision.action);
        let lasts = lasts_ms.map(|lasts_ms| format!(" for {lasts_ms:.0} ms at most")).unwrap_or_default();
        let _ = writeln!(text, "  {sign} {:10.3} s  {mechanism}: {action}{lasts}: {}", at_ms / 1e3, decision.reason);
    }
    if let Some(more @ 1..) = replayed.differences.len().checked_sub(SHOWN_DIFFERENCES) {
        let _ = writeln!(text, "  and {more} more; --json has all");
    }
    text
}
