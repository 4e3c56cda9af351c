//! `brisk lookup record`: counts lookups by service or by process, depending on the sources that this kernel has.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use anstyle::Style;
use anyhow::{Context, bail};
use serde::Serialize;

use super::context::ContextArguments;
use super::probe;
use crate::cli::output;
use brisk_base::insertion_sort::insertion_sort;
use brisk_experiment::lookup::Client;
use brisk_mechanism::lookup::recording::top_quarter_share;
use brisk_recorder::RecordError;
use brisk_sys::Root;
use brisk_sys::binder::{Connection, abi, cache};
use brisk_sys::system::trace_events::{TraceEvent, TraceInstance};

/// The number of the JSON schema.
const SCHEMA: u32 = 1;
/// Enough for some twenty thousand calls on each CPU.
const BUFFER_KIB: u32 = 4096;

/// Arguments of `brisk lookup record`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
There are two sources; the first that the kernel has is used:
  cache  the driver's cache (kernel/binder-cache): names and their hits; without
         answers that are never cached or were evicted
  trace  the driver's trace events: every lookup, by process and function code,
         without names

With --output a kprobe in the driver records every lookup and registration in order, with the service's
name, the process and its user, for `brisk lookup simulate --replay FILE`. It needs CONFIG_KPROBE_EVENTS,
delays each binder call slightly while it records, and is removed afterwards.

Examples:
  sudo brisk lookup record                          ten seconds
  sudo brisk lookup record --seconds 60 --json      for a script
  sudo brisk lookup record --output lookups.jsonl   every lookup, for a replay")]
pub struct Arguments {
    #[command(flatten)]
    context: ContextArguments,
    /// Record for this many seconds
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// Use only this source
    #[arg(long)]
    source: Option<Source>,
    /// Record every lookup by a kprobe, and write them to FILE
    #[arg(long, value_name = "FILE", conflicts_with = "source")]
    output: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
enum Source {
    /// The driver's cache: names
    Cache,
    /// The driver's trace events: processes and function codes
    Trace,
    /// A kprobe in the driver: everything
    #[value(skip)]
    Probe,
}

/// The lookups, the most frequent first.
#[derive(Debug, PartialEq, Serialize)]
struct Report {
    schema: u32,
    source: Source,
    seconds: u64,
    lookups: u64,
    /// The most frequent quarter's share of all lookups; the paper found 80 %.
    top_quarter_share: Option<f64>,
    rows: Vec<Row>,
}

#[derive(Debug, PartialEq, Serialize)]
struct Row {
    /// A service's name, or a process and the function code.
    what: String,
    count: u64,
}

/// Records and prints.
///
/// # Errors
/// When no source can be read: without rights, or where the kernel has none of them.
pub fn run(arguments: &Arguments, root: &Root) -> anyhow::Result<ExitCode> {
    let device = &arguments.context.device;
    let context = device.file_name().context("the device has no name")?.to_string_lossy().into_owned();
    let (source, counts) = match (&arguments.output, arguments.source) {
        (Some(output), _) => (Source::Probe, record_calls(root, arguments, output)?),
        (None, Some(Source::Trace)) => (Source::Trace, record_trace(root, arguments)?),
        (None, None) if cache::entries(root, &context).is_err() => (Source::Trace, record_trace(root, arguments)?),
        (None, _) => (Source::Cache, record_cache(root, &context, arguments.seconds)?),
    };
    let report = Report::of(source, arguments.seconds, counts);
    output::print(&report, arguments.json, text)?;
    Ok(ExitCode::SUCCESS)
}

fn record_cache(root: &Root, context: &str, seconds: u64) -> anyhow::Result<BTreeMap<String, u64>> {
    let read = || -> anyhow::Result<BTreeMap<String, u64>> {
        let mut hits = BTreeMap::new();
        for entry in cache::entries(root, context).context("this needs root, and a driver with the cache")? {
            *hits.entry(entry.name).or_insert(0) += entry.hits;
        }
        Ok(hits)
    };
    let before = read()?;
    sleep(Duration::from_secs(seconds));
    Ok(hits_since(&before, read()?))
}

/// The hits since `before`. An entry that was evicted and cached again counts from zero.
fn hits_since(before: &BTreeMap<String, u64>, after: BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let since = |(name, hits): (String, u64)| {
        let earlier = before.get(&name).copied().unwrap_or(0);
        let count = hits.checked_sub(earlier).unwrap_or(hits);
        (count > 0).then_some((name, count))
    };
    after.into_iter().filter_map(since).collect()
}

fn record_trace(root: &Root, arguments: &Arguments) -> anyhow::Result<BTreeMap<String, u64>> {
    const MAP_BYTES: usize = 8192;
    let ContextArguments { device, format } = &arguments.context;
    let trace = TraceInstance::make(root, "brisk-record", &[], BUFFER_KIB)
        .map_err(|error| RecordError::of_instance(root, error))?;
    trace
        .enable("binder/binder_transaction", "reply == 0")
        .context("this needs a kernel with binder's trace events")?;
    // The driver's events identify nodes by number; our own ping shows the context manager's number.
    Client::new(Connection::open(device, MAP_BYTES)?, format).ping().context("no context manager answers")?;
    sleep(Duration::from_secs(arguments.seconds));
    let events = trace.finish()?;
    let own = std::process::id();
    let Some(node) = manager_node(&events, own) else {
        bail!("the kernel has not recorded brisk's own call: is another program stopping the trace?");
    };
    Ok(by_process(&events, node, own, &format.lookup_codes()))
}

fn record_calls(root: &Root, arguments: &Arguments, output: &Path) -> anyhow::Result<BTreeMap<String, u64>> {
    let duration = Duration::from_secs(arguments.seconds);
    let recording = probe::record(root, arguments.context.format, BUFFER_KIB, duration)?;
    std::fs::write(output, recording.to_text()).with_context(|| format!("cannot write {}", output.display()))?;
    Ok(recording.lookups())
}

fn manager_node(events: &[TraceEvent], own: u32) -> Option<u64> {
    let ping = events.iter().find(|event| event.tid == own && event.number("code") == Some(u64::from(abi::PING)))?;
    ping.number("dest_node")
}

fn by_process(events: &[TraceEvent], node: u64, own: u32, lookup: &[u32]) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for event in events.iter().filter(|event| event.tid != own && event.number("dest_node") == Some(node)) {
        if let Some(code) = event.number("code").and_then(|code| u32::try_from(code).ok())
            && lookup.contains(&code)
        {
            *counts.entry(format!("{} (code {code})", event.command)).or_insert(0) += 1;
        }
    }
    counts
}

impl Report {
    fn of(source: Source, seconds: u64, counts: BTreeMap<String, u64>) -> Self {
        let mut rows: Vec<Row> = counts.into_iter().map(|(what, count)| Row { what, count }).collect();
        // Stable: rows with equal counts stay in the order of their names.
        insertion_sort(&mut rows, |one, next| one.count < next.count);
        let lookups = rows.iter().map(|row| row.count).sum();
        let share = top_quarter_share(rows.iter().map(|row| row.count));
        let top_quarter_share = share.filter(|_| source != Source::Trace);
        Self { schema: SCHEMA, source, seconds, lookups, top_quarter_share, rows }
    }
}

fn text(report: &Report) -> String {
    const BOLD: Style = Style::new().bold();
    const BAR_WIDTH: f64 = 30.0;
    let seen = match report.source {
        Source::Cache => "answered by the driver's cache; others are not counted",
        Source::Trace => "by process, from the driver's trace events, which have no names",
        Source::Probe => "all recorded by a kprobe in the driver",
    };
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{BOLD}{} lookups in {} s{BOLD:#}, {seen}", report.lookups, report.seconds);
    if let Some(share) = report.top_quarter_share {
        let _ = writeln!(text, "the top quarter takes {:.0} %", share * 100.0);
    }
    let most = report.rows.first().map_or(1, |row| row.count).max(1);
    for Row { what, count } in &report.rows {
        let bar = "#".repeat((*count as f64 / most as f64 * BAR_WIDTH).ceil() as usize);
        let _ = writeln!(text, "{count:>8}  {what:<32} {bar}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use brisk_sys::system::trace_events::parse;

    fn counts(pairs: &[(&str, u64)]) -> BTreeMap<String, u64> {
        pairs.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }

    // Verifies LOOKUP-8.
    #[test]
    fn only_hits_since_the_first_reading_are_counted() {
        let (before, after) =
            (counts(&[("a", 5), ("b", 7), ("c", 2)]), counts(&[("a", 9), ("b", 3), ("c", 2), ("d", 1)]));
        assert_eq!(hits_since(&before, after), counts(&[("a", 4), ("b", 3), ("d", 1)]));
    }

    #[test]
    fn the_most_frequent_come_first_and_their_share_is_reported() {
        let report = Report::of(Source::Cache, 10, counts(&[("a", 1), ("b", 80), ("c", 9), ("d", 10)]));
        assert_eq!(report.rows.iter().map(|row| row.what.as_str()).collect::<Vec<_>>(), ["b", "d", "c", "a"]);
        assert_eq!((report.lookups, report.top_quarter_share), (100, Some(0.8)));
        assert!(text(&report).contains("      80  b "));
        assert_eq!(Report::of(Source::Trace, 1, counts(&[])).top_quarter_share, None);
    }

    #[test]
    fn lookups_are_recognised_by_node_and_function_code() {
        let lines = "app-7 [000] ..... 10: binder_transaction: transaction=1 dest_node=3 reply=0 flags=0x10 code=0x1
            brisk-9 [000] ..... 11: binder_transaction: transaction=2 dest_node=3 reply=0 flags=0x10 code=0x5f504e47
            app-7 [000] ..... 12: binder_transaction: transaction=3 dest_node=4 reply=0 flags=0x10 code=0x1
            app-7 [000] ..... 13: binder_transaction: transaction=4 dest_node=3 reply=0 flags=0x10 code=0x3
            app-8 [000] ..... 14: binder_transaction: transaction=5 dest_node=3 reply=0 flags=0x10 code=0x1";
        let events: Vec<TraceEvent> = lines.lines().filter_map(parse).collect();
        let node = manager_node(&events, 9).unwrap();
        assert_eq!(by_process(&events, node, 9, &[1, 2]), counts(&[("app (code 1)", 2)]));
        assert_eq!(manager_node(&events, 8), None);
    }
}
