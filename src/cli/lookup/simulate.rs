//! `brisk lookup simulate`: hit ratios of replacement policies on modelled traces.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use anyhow::{Context, bail};
use clap::ValueEnum;
use serde::Serialize;

use crate::cli::output;
use brisk_base::random::Random;
use brisk_experiment::statistics;
use brisk_mechanism::lookup::recording::{Recording, RecordingHeader, top_quarter_share};
use brisk_mechanism::lookup::{Replacement, Scope, SimulatedCache, Tally, Trace, TraceEvent, Traces, simulation};

/// The number of the JSON schema.
const SCHEMA: u32 = 1;

/// Arguments of `brisk lookup simulate`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The built-in traces are models; their file names the source of each, and --file reads another one. Runs
of a trace are random but repeatable; ratios are means over all runs with 95 % intervals. The column
top 25 % has the share of the lookups that goes to the most frequent quarter of the services. --replay
reads a recording of `brisk lookup record --output FILE`. The paper's cache is lfu with 10 entries (its
Bloom filter changes the cost of a miss, not the hits).

Examples:
  brisk lookup simulate                          every trace, 10 and 128 entries
  brisk lookup simulate --entries 10,25,50,128   the gain of more entries
  brisk lookup simulate --scope both             what a cache per caller costs
  brisk lookup simulate --replay lookups.jsonl   the gain on a recorded device
  brisk lookup simulate --json                   one JSON object")]
pub struct Arguments {
    /// Simulate caches with this many entries
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "10,128",
          value_parser = clap::value_parser!(u32).range(1..))]
    entries: Vec<u32>,
    /// Evict entries by these policies
    #[arg(long, value_name = "POLICY,...", value_delimiter = ',', default_value = "lfu,lru")]
    policy: Vec<PolicyArgument>,
    /// Share cached answers among these callers
    #[arg(long, default_value = "shared")]
    scope: ScopeArgument,
    /// Run only this trace; may be repeated
    #[arg(long, value_name = "NAME")]
    trace: Vec<String>,
    /// Read the traces from FILE instead of the built-in ones
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Replay a recording instead of the models; may be repeated
    #[arg(long, value_name = "FILE", conflicts_with_all = ["file", "trace", "replicates", "seed"])]
    replay: Vec<PathBuf>,
    /// Run each trace this many times
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(2..=10_000))]
    replicates: u32,
    /// Seed the runs
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PolicyArgument {
    /// The least frequently used entry (the paper)
    Lfu,
    /// The least recently used entry
    Lru,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ScopeArgument {
    /// All callers that are not isolated: the context manager cooperates
    Shared,
    /// Callers with the same credentials: the context manager does not cooperate
    Caller,
    /// Both
    Both,
}

/// The result of one cache on one trace.
#[derive(Debug, Serialize)]
struct Cell {
    #[serde(flatten)]
    arm: SimulatedCache,
    /// The mean hit ratio of the runs.
    hit_ratio: f64,
    /// Its 95 % bootstrap interval; `None` for a recording, which has one run.
    ci: Option<[f64; 2]>,
    /// The lookups of all runs, and their outcomes.
    #[serde(flatten)]
    tally: Tally,
}

#[derive(Debug, Serialize)]
struct Row {
    trace: String,
    title: String,
    basis: String,
    /// The share of the lookups that goes to the most frequent quarter of the services, 0 to 1: the mean of the runs.
    top_quarter_share: f64,
    arms: Vec<Cell>,
}

#[derive(Debug, Serialize)]
struct Report {
    schema: u32,
    /// The parameters of the models; absent where recordings are replayed.
    #[serde(flatten)]
    models: Option<Models>,
    traces: Vec<Row>,
}

/// The parameters that all modelled traces share.
#[derive(Debug, Serialize)]
struct Models {
    seed: u64,
    replicates: u32,
    services: u32,
    top_quarter_share: f64,
}

/// Simulates and prints.
///
/// # Errors
/// When the traces cannot be read, or none has the requested name.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let report = if arguments.replay.is_empty() { simulate_models(arguments)? } else { replay(arguments)? };
    output::print(&report, arguments.json, table)?;
    Ok(ExitCode::SUCCESS)
}

fn simulate_models(arguments: &Arguments) -> anyhow::Result<Report> {
    let traces = match &arguments.file {
        None => Traces::built_in(),
        Some(file) => Traces::parse(&read(file)?).with_context(|| file.display().to_string())?,
    };
    let known = || traces.traces.iter().map(|trace| trace.name.as_str()).collect::<Vec<_>>().join(", ");
    if let Some(unknown) = arguments.trace.iter().find(|name| traces.traces.iter().all(|trace| trace.name != **name)) {
        bail!("there is no trace {unknown}: known are {}", known());
    }
    let wanted = |trace: &&Trace| arguments.trace.is_empty() || arguments.trace.contains(&trace.name);
    let arms = arms(arguments);
    let models = Models {
        seed: arguments.seed,
        replicates: arguments.replicates,
        services: traces.services,
        top_quarter_share: traces.top_quarter_share(),
    };
    let rows = traces.traces.iter().filter(wanted).map(|trace| simulate(trace, &traces, &arms, arguments)).collect();
    Ok(Report { schema: SCHEMA, models: Some(models), traces: rows })
}

fn replay(arguments: &Arguments) -> anyhow::Result<Report> {
    let arms = arms(arguments);
    let row = |file: &PathBuf| -> anyhow::Result<Row> {
        let recording = Recording::parse(&read(file)?).with_context(|| file.display().to_string())?;
        let events = recording.events();
        let cell =
            |(&arm, tally): (&SimulatedCache, Tally)| Cell { arm, hit_ratio: tally.hit_ratio(), ci: None, tally };
        let lookups = recording.lookups();
        let title = format!("{} lookups of {} services", lookups.values().sum::<u64>(), lookups.len());
        let RecordingHeader { lost_events, unread, .. } = recording.header;
        let basis = format!("recorded; {lost_events} events lost, {unread} calls not parsed");
        let trace = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let arms = arms.iter().zip(simulation::run(&arms, &events)).map(cell).collect();
        Ok(Row { trace, title, basis, top_quarter_share: share_in(&events), arms })
    };
    let traces = arguments.replay.iter().map(row).collect::<anyhow::Result<_>>()?;
    Ok(Report { schema: SCHEMA, models: None, traces })
}

fn read(file: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

fn arms(arguments: &Arguments) -> Vec<SimulatedCache> {
    let scopes: &[Scope] = match arguments.scope {
        ScopeArgument::Shared => &[Scope::Shared],
        ScopeArgument::Caller => &[Scope::Caller],
        ScopeArgument::Both => &[Scope::Shared, Scope::Caller],
    };
    let mut arms = Vec::new();
    for &scope in scopes {
        for &entries in &arguments.entries {
            for policy in &arguments.policy {
                let replacement = match policy {
                    PolicyArgument::Lfu => Replacement::Lfu,
                    PolicyArgument::Lru => Replacement::Lru,
                };
                arms.push(SimulatedCache { replacement, entries: entries as usize, scope });
            }
        }
    }
    arms
}

/// Feeds the same random runs of `trace` to every cache.
fn simulate(trace: &Trace, traces: &Traces, arms: &[SimulatedCache], arguments: &Arguments) -> Row {
    let course = |replicate: u32| -> (f64, Vec<Tally>) {
        let mut random = Random::stream(arguments.seed, u64::from(replicate));
        let events = trace.events(traces, &mut random);
        (share_in(&events), simulation::run(arms, &events))
    };
    let (shares, courses): (Vec<f64>, Vec<Vec<Tally>>) = in_parallel(arguments.replicates, &course).into_iter().unzip();
    let cell = |(place, &arm): (usize, &SimulatedCache)| {
        let tallies: Vec<Tally> = courses.iter().map(|course| course[place]).collect();
        let ratios: Vec<f64> = tallies.iter().map(Tally::hit_ratio).collect();
        let mean_of = |drawn: &[usize]| drawn.iter().map(|&index| ratios[index]).sum::<f64>() / drawn.len() as f64;
        let ci = statistics::bootstrap(ratios.len(), &mut |drawn| mean_of(drawn));
        let sum = |count: fn(&Tally) -> u64| tallies.iter().map(count).sum();
        let tally = Tally {
            lookups: sum(|tally| tally.lookups),
            hits: sum(|tally| tally.hits),
            filtered: sum(|tally| tally.filtered),
            refused: sum(|tally| tally.refused),
        };
        Cell { arm, hit_ratio: statistics::mean(&ratios), ci: Some(ci), tally }
    };
    let arms = arms.iter().enumerate().map(cell).collect();
    let Trace { name, title, basis, .. } = trace.clone();
    Row { trace: name, title, basis, top_quarter_share: statistics::mean(&shares), arms }
}

/// The share of the lookups among `events` that goes to the most frequent quarter of the services; 0 when there are none.
fn share_in(events: &[TraceEvent]) -> f64 {
    let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
    for event in events {
        if let TraceEvent::Lookup(lookup) = event {
            *counts.entry(lookup.name).or_insert(0) += 1;
        }
    }
    top_quarter_share(counts.into_values()).unwrap_or(0.0)
}

/// The results of `course` for each number below `count`, in order, computed with a thread for each CPU.
fn in_parallel<T: Send>(count: u32, course: &(dyn Fn(u32) -> T + Sync)) -> Vec<T> {
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get() as u32).min(count);
    let share = |thread: u32| (thread..count).step_by(threads as usize).map(course).collect::<Vec<T>>();
    let mut shares: Vec<_> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|thread| scope.spawn(move || share(thread))).collect();
        running.into_iter().map(|thread| thread.join().expect("a course does not panic").into_iter()).collect()
    });
    (0..count as usize).filter_map(|number| shares[number % threads as usize].next()).collect()
}

const BOLD: Style = Style::new().bold();
const FAINT: Style = Style::new().dimmed();

fn table(report: &Report) -> String {
    const CELL_WIDTH: usize = 14;
    const SHARE_WIDTH: usize = 8;
    let name_width = report.traces.iter().map(|row| row.trace.len()).max().unwrap_or(0).max(5);
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = match &report.models {
        Some(models) => writeln!(
            text,
            "Hit ratios: mean of {} runs, 95 % interval; {} services, drawn so that the top quarter takes {:.0} %\n",
            models.replicates,
            models.services,
            models.top_quarter_share * 100.0
        ),
        None => writeln!(text, "Hit ratios of recorded lookups\n"),
    };
    let mut heading = format!("{:name_width$}  {:>SHARE_WIDTH$}", "trace", "top 25 %");
    for cell in report.traces.first().map_or(&[][..], |row| &row.arms) {
        let _ = write!(heading, "  {:>CELL_WIDTH$}", heading_of(&cell.arm));
    }
    let _ = writeln!(text, "{BOLD}{heading}{BOLD:#}");
    for row in &report.traces {
        let share = format!("{:.0} %", row.top_quarter_share * 100.0);
        let _ = write!(text, "{:name_width$}  {share:>SHARE_WIDTH$}", row.trace);
        for cell in &row.arms {
            let style = colour(cell.hit_ratio);
            let value = match cell.ci {
                Some([low, high]) => {
                    let half = (high - cell.hit_ratio).max(cell.hit_ratio - low);
                    format!("{:.3} ±{half:.3}", cell.hit_ratio)
                }
                None => format!("{:.3}", cell.hit_ratio),
            };
            let _ = write!(text, "  {style}{value:>CELL_WIDTH$}{style:#}");
        }
        let _ = writeln!(text, "  {FAINT}{}{FAINT:#}", row.title);
    }
    text
}

fn heading_of(arm: &SimulatedCache) -> String {
    let policy = match arm.replacement {
        Replacement::Lfu => "lfu",
        Replacement::Lru => "lru",
    };
    let scope = if arm.scope == Scope::Caller { "/caller" } else { "" };
    format!("{policy} {}{scope}", arm.entries)
}

fn colour(hit_ratio: f64) -> Style {
    match hit_ratio {
        ratio if ratio >= 0.9 => AnsiColor::Green.on_default(),
        ratio if ratio >= 0.5 => AnsiColor::Yellow.on_default(),
        _ => AnsiColor::Red.on_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Verifies LOOKUP-8.
    #[test]
    fn the_table_has_a_column_for_each_cache_and_follows_the_seed() {
        let traces = Traces::built_in();
        let arguments = |seed| Arguments {
            entries: vec![10, 128],
            policy: vec![PolicyArgument::Lfu, PolicyArgument::Lru],
            scope: ScopeArgument::Both,
            trace: Vec::new(),
            file: None,
            replay: Vec::new(),
            replicates: 2,
            seed,
            json: false,
        };
        let trace = traces.traces.iter().find(|trace| trace.name == "boot").unwrap();
        let report = |seed| {
            let arguments = arguments(seed);
            let row = simulate(trace, &traces, &arms(&arguments), &arguments);
            let models = Models { seed, replicates: 2, services: 100, top_quarter_share: traces.top_quarter_share() };
            table(&Report { schema: SCHEMA, models: Some(models), traces: vec![row] })
        };
        let text = anstream::adapter::strip_str(&report(1)).to_string();
        let heading = text.lines().nth(2).unwrap();
        let columns = ["top 25 %", "lfu 10", "lru 10", "lfu 128", "lru 128", "lfu 10/caller", "lru 128/caller"];
        assert!(columns.iter().all(|column| heading.contains(column)), "{text}");
        assert!(text.lines().all(|line| line.trim_end() == line), "{text}");
        assert_eq!(text.matches('±').count(), 8, "{text}");
        assert_eq!(report(1), report(1));
        assert_ne!(report(1), report(2));
    }
}
