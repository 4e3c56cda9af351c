//! `brisk prove`: runs experiments, prints the table, writes the report.

mod progress;
mod reboots;

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::device::Root;
use crate::experiment::catalogue::{self, Entry};
use crate::experiment::conduct::{Ending, Findings, Limits, Place, Run};
use crate::experiment::place::Here;
#[cfg(feature = "lab")]
use crate::experiment::place::Lab;
use crate::experiment::plan::Line;
use crate::experiment::store::{Header, Store};
use crate::experiment::verdict::all_shown;
use crate::experiment::wall_clock;
#[cfg(feature = "lab")]
use crate::lab::{EXIT_LAB_FAILED, LabError};
use crate::report;
use crate::report::proof::{DeviceDescription, Mode, Proof, SCHEMA};
use progress::Progress;

/// The seed when none is given: the same schedule for everyone who repeats a result.
const SEED: u64 = 1;

/// Arguments of `brisk prove`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Exit status: 0 every claim is shown; 1 one is not, or the result is inconclusive; 2 error; 69 the lab failed.

Examples:
  brisk prove                          every experiment, quick form, in the lab
  brisk prove --full launch            the experiments of one mechanism at publishing strength
  brisk prove launch-gap --json        one experiment, as JSON
  brisk prove launch --here            on this device, with its own governor
  brisk prove boot --here              what it would take to compare boots of this device: real reboots
  brisk prove --full --minutes 60      as much as an hour shows; --resume goes on
  brisk prove --resume                 go on where an interrupted run stopped")]
pub struct Arguments {
    /// Experiments, mechanisms, or experiment files (.toml); all of them by default
    #[arg(value_name = "EXPERIMENT")]
    experiments: Vec<String>,
    /// Measure in the lab, on a virtual device (the default)
    #[arg(long, conflicts_with = "here")]
    lab: bool,
    /// Measure on this device; every change is leased and given back
    #[arg(long)]
    here: bool,
    /// The quick form: some two minutes a mechanism (the default)
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// The full form, at publishing strength
    #[arg(long)]
    full: bool,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
    /// Write results into this folder
    #[arg(long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// End after so long, with what was measured until then, where blocks of an experiment are runs of their own
    #[arg(long, value_name = "N")]
    minutes: Option<u64>,
    /// Make another order, other rests and another background load
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// Go on where an interrupted run of the same experiments stopped; replicates that were refused are run again
    #[arg(long)]
    resume: bool,
    /// Reboot this device as often as it takes, where an experiment compares its boots
    #[arg(long, requires = "here")]
    yes: bool,
    /// End the reboots that are under way on this device, and take away what goes on with them
    #[arg(long, requires = "here", conflicts_with_all = ["yes", "resume"])]
    stop: bool,
    /// Be what goes on after a reboot
    #[arg(long, hide = true)]
    rebooted: bool,
}

/// The width of the table where there is no terminal.
const TABLE_WIDTH: usize = 120;

/// One experiment with its place on disk.
struct Job {
    entry: Entry,
    store: Store,
    findings: Findings,
    seed: u64,
}

/// Runs the experiments.
///
/// # Errors
/// When an experiment is wrong, the device cannot run it, or results cannot be written.
pub fn run(arguments: &Arguments, root: &Root) -> anyhow::Result<ExitCode> {
    if arguments.stop {
        return reboots::stop(root);
    }
    let quick = !arguments.full;
    let (mut entries, full_alone): (Vec<_>, Vec<_>) = catalogue::select(&arguments.experiments, arguments.here)?
        .into_iter()
        .partition(|entry| !quick || entry.experiment.replicates.quick > 0);
    if !full_alone.is_empty() {
        let names: Vec<&str> = full_alone.iter().map(|entry| entry.experiment.name.as_str()).collect();
        let left_out = format!("in the full form alone (--full): {}", names.join(", "));
        anyhow::ensure!(!entries.is_empty(), "{left_out}");
        eprintln!("{left_out}");
    }
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
    }
    if let Some(place) = entries.iter().position(|entry| entry.experiment.reboots.is_some()) {
        anyhow::ensure!(entries.len() == 1, "{} reboots this device: name it alone", entries[place].experiment.name);
        return reboots::run(arguments, entries.remove(place), quick, &interrupted, root);
    }
    let base = match &arguments.output {
        Some(folder) => folder.clone(),
        None => default_folder()?,
    };
    let started = wall_clock::rfc3339_now();
    let mut jobs = Vec::new();
    for entry in entries {
        jobs.push(open(arguments, entry, quick, &base, &started)?);
    }
    let place: Box<dyn Place> = if arguments.here { Box::new(Here { root: root.path("/") }) } else { lab()? };
    let farewell =
        format!("brisk: interrupted; what was measured is saved. To go on: {}", command(arguments, None, true));
    if !arguments.here {
        leave_when(Arc::clone(&interrupted), farewell.clone());
    }
    let until = arguments.minutes.map(|minutes| Instant::now() + Duration::from_secs(minutes * 60));
    match conduct(&mut jobs, quick, place.as_ref(), &Limits { interrupted: &interrupted, until }) {
        Ok(true) => {}
        Ok(false) => {
            eprintln!("{farewell}");
            return Ok(ExitCode::from(2));
        }
        #[cfg(feature = "lab")]
        Err(error) if error.is::<LabError>() => {
            eprintln!("brisk: the lab failed: {error:#}");
            return Ok(ExitCode::from(EXIT_LAB_FAILED));
        }
        Err(error) => return Err(error),
    }
    finish(arguments, &jobs, quick, &base, started)
}

/// The lab on this computer.
#[cfg(feature = "lab")]
fn lab() -> anyhow::Result<Box<dyn Place>> {
    Ok(Box::new(Lab::new(u32::try_from(std::thread::available_parallelism()?.get())?)))
}

/// What a device carries has no lab.
#[cfg(not(feature = "lab"))]
fn lab() -> anyhow::Result<Box<dyn Place>> {
    anyhow::bail!(
        "this brisk was built for a device, without the lab; measure this device with --here, or the lab's with ./dev prove on a computer"
    )
}

/// Ends this process once it is interrupted. That is safe at any moment: each replicate is on disk as soon as it is
/// known, and guests are killed with the process that watches them. On the user's own device the child must first give
/// back what it changed, so there [`Place::run`] ends by itself.
fn leave_when(interrupted: Arc<AtomicBool>, farewell: String) {
    std::thread::spawn(move || {
        while !interrupted.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(100));
        }
        eprintln!("\n{farewell}");
        std::process::exit(2);
    });
}

/// Makes a store for the experiment, or finds the one to go on with.
fn open(arguments: &Arguments, mut entry: Entry, quick: bool, base: &Path, started: &str) -> anyhow::Result<Job> {
    if quick {
        entry.experiment = entry.experiment.in_quick_form();
    }
    let header = Header {
        brisk: env!("CARGO_PKG_VERSION").into(),
        experiment: entry.text.clone(),
        quick,
        seed: arguments.seed.unwrap_or(SEED),
        started: started.to_owned(),
    };
    let form = if quick { "quick" } else { "full" };
    let folder = base.join("partial").join(format!("{}-{form}", entry.experiment.name));
    let found = if arguments.resume { Store::resume(&folder, &header)? } else { None };
    let mut findings = Findings::default();
    let (store, seed) = match found {
        Some((store, header, lines)) => {
            lines.into_iter().for_each(|line| findings.add(line));
            let (kept, refused) = findings.retry_rejected();
            eprintln!(
                "{}: goes on after {kept} replicates; {refused} were refused and are run again",
                entry.experiment.name
            );
            (store, header.seed)
        }
        None => (Store::create(&folder, &header)?, header.seed),
    };
    Ok(Job { entry, store, findings, seed })
}

/// Runs one experiment after the other; false when interrupted.
fn conduct(jobs: &mut [Job], quick: bool, place: &dyn Place, limits: &Limits<'_>) -> anyhow::Result<bool> {
    let costs = |job: &Job| {
        let run = Run { experiment: &job.entry.experiment, quick, seed: job.seed };
        run.missing(&job.findings).map(|(_, cost_ms)| cost_ms).collect::<Vec<_>>()
    };
    let all: Vec<Vec<u64>> = jobs.iter().map(costs).collect();
    let mut progress = Progress::new(all.iter().map(Vec::len).sum(), all.iter().flatten().sum());
    for (job, costs) in jobs.iter_mut().zip(&all) {
        let run = Run { experiment: &job.entry.experiment, quick, seed: job.seed };
        progress.begin(&run.experiment.title, &run.experiment.name, costs.len());
        let costs = run.missing(&job.findings).map(|(replicate, cost_ms)| (replicate.id, cost_ms)).collect();
        let costs: std::collections::BTreeMap<u32, u64> = costs;
        let ending = run.conduct(place, &mut job.store, &mut job.findings, limits, &mut |run, line| {
            if let Line::Measured(measured) = line
                && let Some(&cost_ms) = costs.get(&measured.replicate)
            {
                progress.step(&run.experiment.name, cost_ms);
            }
        });
        if ending.is_err() || matches!(ending, Ok(Ending::Interrupted)) {
            progress.finish();
        }
        if let Ending::Interrupted = ending? {
            return Ok(false);
        }
    }
    progress.finish();
    Ok(!limits.interrupted.load(Ordering::Relaxed))
}

/// Judges, prints and writes.
fn finish(arguments: &Arguments, jobs: &[Job], quick: bool, base: &Path, started: String) -> anyhow::Result<ExitCode> {
    let results = jobs.iter().map(|job| {
        let experiment = &job.entry.experiment;
        let run = Run { experiment, quick, seed: job.seed };
        run.result(&job.findings, command(arguments, Some((&experiment.name, job.seed)), false))
    });
    let proof = Proof {
        schema: SCHEMA,
        brisk: env!("CARGO_PKG_VERSION").into(),
        device: device(jobs)?,
        experiments: results.collect(),
        started,
    };
    let folder = match &arguments.output {
        Some(folder) => folder.clone(),
        None => base.join(proof.started.replace(':', "")),
    };
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let json = report::json::render(&proof);
    write(&folder.join("proof.json"), &json)?;
    let page = folder.join("report.html");
    write(&page, &report::html::render(&proof))?;
    if arguments.json {
        writeln!(anstream::stdout(), "{}", json.trim_end())?;
    } else {
        let terminal = std::io::stdout().is_terminal();
        let width = rustix::termios::tcgetwinsize(std::io::stdout()).map_or(0, |size| size.ws_col.into());
        let width = if width == 0 { TABLE_WIDTH } else { width };
        write!(anstream::stdout(), "{}", report::table::render(&proof, width, terminal))?;
    }
    for job in jobs.iter().filter(|_| !quick) {
        let run = Run { experiment: &job.entry.experiment, quick, seed: job.seed };
        run.state(&job.findings).iter().for_each(|line| eprintln!("{line}"));
    }
    eprintln!("report: {}", page.display());
    let shown = proof.experiments.iter().all(|experiment| all_shown(&experiment.claims));
    Ok(ExitCode::from(u8::from(!shown)))
}

/// The devices of all experiments as one: what differs (one CPU or two) stands with each experiment's mode.
fn device(jobs: &[Job]) -> anyhow::Result<DeviceDescription> {
    let mut known = jobs.iter().filter_map(|job| Some((job.entry.experiment.mode, job.findings.device()?)));
    let first = known.clone().find(|(mode, _)| *mode == Mode::Deterministic).or_else(|| known.next());
    first.map(|(_, device)| device.clone()).context("no device has been measured")
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// The command that repeats one experiment, or the whole of `arguments`, as a person types it.
fn command(arguments: &Arguments, one: Option<(&str, u64)>, resume: bool) -> String {
    let mut words = vec!["brisk prove".to_owned()];
    match one {
        // An experiment of a file is named by its path, which only the whole command knows.
        Some((name, _)) if !arguments.experiments.iter().any(|name| name.ends_with(".toml")) => words.push(name.into()),
        _ => words.extend(arguments.experiments.iter().cloned()),
    }
    for (given, word) in
        [(arguments.here, "--here"), (arguments.full, "--full"), (resume, "--resume"), (arguments.yes, "--yes")]
    {
        if given {
            words.push(word.into());
        }
    }
    if let Some(seed) = one.map(|(_, seed)| seed).or(arguments.seed).filter(|&seed| seed != SEED) {
        words.push(format!("--seed {seed}"));
    }
    if let Some(folder) = arguments.output.as_ref().filter(|_| resume) {
        words.push(format!("--output {}", folder.display()));
    }
    words.join(" ")
}

/// `$XDG_CACHE_HOME/brisk/results`, or below `~/.cache`.
fn default_folder() -> anyhow::Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    Ok(cache.context("neither XDG_CACHE_HOME nor HOME is set: give --output FOLDER")?.join("brisk/results"))
}
