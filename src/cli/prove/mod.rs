//! `brisk prove`: runs experiments, prints the table, writes the report.

#[cfg(feature = "lab")]
mod merge;
#[cfg(feature = "lab")]
mod on;
#[cfg(feature = "lab")]
mod papers;
mod progress;
mod reboots;
mod report;
mod shard;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
#[cfg(feature = "lab")]
use clap::Subcommand;
use signal_hook::consts::{SIGINT, SIGTERM};

#[cfg(feature = "lab")]
use super::on::OnArguments;
use brisk_base::notes::note;
use brisk_experiment::campaign::{self, CampaignMember, ExperimentOutcome};
use brisk_experiment::catalogue::{self, Entry};
use brisk_experiment::conduct::{Findings, Limits, Run, RunEnding, Testbed};
use brisk_experiment::shard::Shard;
use brisk_experiment::store::{Header, Store, StoredResults};
#[cfg(feature = "lab")]
use brisk_experiment::testbed::Lab;
use brisk_experiment::testbed::LocalDevice;
use brisk_experiment::wall_clock;
use brisk_report::proof::{DeviceDescription, Proof, SCHEMA};
use brisk_report::status::Status;
use brisk_sys::Root;
use progress::Progress;

/// The default seed, so that a repeated run has the same schedule.
const SEED: u64 = 1;

/// Arguments of `brisk prove`.
#[derive(Debug, Clone, Default, Args)]
#[command(after_help = "\
Exit code (the highest that applies):
   0  no claim was refuted; claims with too few runs are listed as inconclusive
   1  a claim was refuted; with --strict, also if one is inconclusive; a shard
      judges no claim
   2  invalid input, interruption, or an experiment that the device cannot run
  69  the lab failed in an experiment; the other experiments ran, and the report
      gives the reason

Examples:
  brisk prove                        every experiment, quick form, in the lab
  brisk prove --full launch          one mechanism, full form
  brisk prove launch-gap --json      one experiment, as JSON
  brisk prove launch --here          on this device, with its own governor
  brisk prove boot --here            explain a comparison of this device's boots
  brisk prove --full --minutes 60    as much as fits; the same command resumes
  brisk prove --restart              measure everything again
  brisk prove launch --shard 3/8     the third of eight

The same command resumes a run that was interrupted, killed or failed: its measurements are used again if
brisk, the experiment, its seed and the kernel are the same.")]
#[command(args_conflicts_with_subcommands = true)]
pub struct Arguments {
    #[cfg(feature = "lab")]
    #[command(subcommand)]
    command: Option<Command>,
    /// Experiments, mechanisms, or experiment files (.toml) [default: all experiments]
    #[arg(value_name = "EXPERIMENT")]
    experiments: Vec<String>,
    /// Measure in the lab, on a virtual device (the default)
    #[arg(long, conflicts_with = "here")]
    lab: bool,
    /// Measure on this device; every change is leased and restored
    #[arg(long)]
    here: bool,
    #[cfg(feature = "lab")]
    #[command(flatten)]
    on: OnArguments,
    /// Run the quick form, about two minutes for each mechanism (the default)
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Run the full form, with enough replicates to publish
    #[arg(long)]
    full: bool,
    /// Also print the tables of every variant and every claim
    #[arg(short, long, conflicts_with = "json")]
    verbose: bool,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
    /// Write results into this folder [default: one below ~/.cache/brisk/results]
    #[arg(long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// End after N minutes, with complete blocks of runs
    #[arg(long, value_name = "N")]
    minutes: Option<u64>,
    /// Measure shard I of N: a fixed part of the blocks; `brisk prove merge` joins all
    #[arg(long, value_name = "I/N", conflicts_with_all = ["minutes", "verbose", "strict", "yes", "stop"])]
    shard: Option<Shard>,
    /// Seed the order of runs, the pauses and the background load
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// Measure everything again; set the measurements of an interrupted run aside
    #[arg(long, conflicts_with = "resume")]
    restart: bool,
    /// Treat an inconclusive claim like a refuted one: exit code 1
    #[arg(long)]
    strict: bool,
    /// Resume an interrupted run (also the default)
    #[arg(long, hide = true)]
    resume: bool,
    /// Allow an experiment about boots to reboot this device
    #[arg(long, requires = "here")]
    yes: bool,
    /// End the series of reboots on this device, and remove its units or scripts
    #[arg(long, requires = "here", conflicts_with_all = ["yes", "resume"])]
    stop: bool,
    /// Resume the series after a reboot
    #[arg(long, hide = true)]
    rebooted: bool,
    /// What `brisk prove papers` was asked: then the papers are judged in place of the claims.
    #[cfg(feature = "lab")]
    #[arg(skip)]
    papers: Option<papers::Arguments>,
}

#[cfg(feature = "lab")]
#[derive(Debug, Clone, Subcommand)]
enum Command {
    /// Join shards or the results of several devices, and judge them together
    Merge(merge::Arguments),
    /// Lay what is measured beside the tables and figures of the five papers
    Papers(papers::Arguments),
}

/// Runs the experiments.
///
/// # Errors
/// When an experiment is invalid, the device cannot run it, or results cannot be written.
pub fn run(arguments: &Arguments, root: &Root) -> anyhow::Result<ExitCode> {
    #[cfg(feature = "lab")]
    match &arguments.command {
        Some(Command::Merge(arguments)) => return merge::run(arguments),
        Some(Command::Papers(arguments)) => return papers::run(arguments, root),
        None => {}
    }
    #[cfg(feature = "lab")]
    if !arguments.on.on.is_empty() {
        return on::run(arguments, root);
    }
    if arguments.stop {
        return reboots::stop(root);
    }
    let quick = !arguments.full;
    let (mut entries, full_only): (Vec<_>, Vec<_>) = catalogue::select(&arguments.experiments, arguments.here)?
        .into_iter()
        .partition(|entry| !quick || entry.experiment.replicates.quick > 0);
    if !full_only.is_empty() {
        let names: Vec<&str> = full_only.iter().map(|entry| entry.experiment.name.as_str()).collect();
        let left_out = format!("only in the full form (--full): {}", names.join(", "));
        anyhow::ensure!(!entries.is_empty(), "{left_out}");
        note!("{left_out}");
    }
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
    }
    if let Some(place) = entries.iter().position(|entry| entry.experiment.reboots.is_some()) {
        anyhow::ensure!(entries.len() == 1, "{} reboots this device: run it alone", entries[place].experiment.name);
        anyhow::ensure!(arguments.shard.is_none(), "a series of reboots cannot be divided: leave --shard out");
        return reboots::run(arguments, entries.remove(place), quick, &interrupted, root);
    }
    let base = match &arguments.output {
        Some(folder) => folder.clone(),
        None => default_folder()?,
    };
    let base = arguments.shard.map_or(base.clone(), |shard| base.join(shard.folder()));
    let started = wall_clock::rfc3339_now();
    let place: Box<dyn Testbed> = if arguments.here { Box::new(LocalDevice { root: root.path("/") }) } else { lab()? };
    let entries: Vec<Entry> = entries.into_iter().map(|entry| select_form(entry, quick)).collect();
    for entry in &entries {
        let run = Run { experiment: &entry.experiment, quick, seed: SEED, shard: None };
        run.scenarios().iter().try_for_each(|plan| place.check(plan))?;
    }
    let run_context = RunContext { arguments, quick, base: &base, program: place.program()?, started: &started };
    let opened: anyhow::Result<Vec<_>> = entries.into_iter().map(|entry| run_context.open(entry)).collect();
    let (mut members, found): (Vec<CampaignMember>, Vec<StoredResults>) = opened?.into_iter().unzip();
    report_resumed(&members, &found);
    let interrupt_message = format!(
        "brisk: interrupted; measurements are kept, and the same command resumes the run: {}",
        command(arguments, None, true)
    );
    if !arguments.here {
        exit_when(Arc::clone(&interrupted), interrupt_message.clone());
    }
    let until = arguments.minutes.map(|minutes| Instant::now() + Duration::from_secs(minutes * 60));
    let limits = Limits { interrupted: &interrupted, until };
    let mut progress = Progress::new(&members, place.as_ref(), base.join("costs.json"));
    let ending = campaign::conduct(&mut members, place.as_ref(), &limits, &mut |index, event| {
        progress.on(index, &event);
    });
    progress.finish();
    if ending == RunEnding::Interrupted {
        eprintln!("{interrupt_message}");
        return Ok(ExitCode::from(2));
    }
    match arguments.shard {
        Some(part) => shard::finish(part, &members, &base, arguments.json),
        None => finish(arguments, members, &base, started),
    }
}

/// The lab on this computer.
#[cfg(feature = "lab")]
fn lab() -> anyhow::Result<Box<dyn Testbed>> {
    Ok(Box::new(Lab::new(u32::try_from(std::thread::available_parallelism()?.get())?)))
}

/// The device's build has no lab.
#[cfg(not(feature = "lab"))]
fn lab() -> anyhow::Result<Box<dyn Testbed>> {
    anyhow::bail!(
        "this build for devices has no lab; measure this device with --here, or a virtual one with ./dev prove on a PC"
    )
}

/// Exits once the user interrupts the run. In the lab that is safe at any moment: each replicate is written to disk at once,
/// and guests are killed with this process. With `--here` the child must first revert its changes, so there [`Testbed::run`]
/// returns by itself.
fn exit_when(interrupted: Arc<AtomicBool>, interrupt_message: String) {
    std::thread::spawn(move || {
        while !interrupted.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(100));
        }
        eprintln!("\n{interrupt_message}");
        std::process::exit(2);
    });
}

fn select_form(entry: Entry, quick: bool) -> Entry {
    if quick { Entry { experiment: entry.experiment.in_quick_form(), ..entry } } else { entry }
}

/// What all runs of one `brisk prove` share.
struct RunContext<'a> {
    arguments: &'a Arguments,
    quick: bool,
    base: &'a Path,
    program: String,
    started: &'a str,
}

impl RunContext<'_> {
    fn header(&self, entry: &Entry) -> Header {
        Header {
            brisk: env!("CARGO_PKG_VERSION").into(),
            program: self.program.clone(),
            experiment: entry.text.clone(),
            quick: self.quick,
            seed: self.arguments.seed.unwrap_or(SEED),
            started: self.started.to_owned(),
            devices: String::new(),
            shard: self.arguments.shard,
        }
    }

    fn folder(&self, entry: &Entry) -> PathBuf {
        let name = name_in_form(&entry.experiment.name, self.quick);
        // A shard stays where it was measured, until all of them are joined.
        if self.arguments.shard.is_some() { self.base.join(name) } else { self.base.join("partial").join(name) }
    }

    /// Creates a store for the experiment, or reopens that of a run that was interrupted or failed.
    fn open(&self, entry: Entry) -> anyhow::Result<(CampaignMember, StoredResults)> {
        let Arguments { seed, restart, .. } = self.arguments;
        let (store, found) = Store::open(&self.folder(&entry), &self.header(&entry), *seed, *restart)?;
        let mut member =
            CampaignMember { entry, quick: self.quick, store, findings: Findings::default(), outcome: None };
        if let StoredResults::Same(lines) = &found {
            lines.iter().cloned().for_each(|line| member.findings.add(line));
            // Most replicates are rejected because the host was busy, so they are worth another attempt. An independent block
            // would be rejected again.
            if !member.run().has_independent_blocks() {
                member.findings.retry_rejected();
            }
        }
        Ok((member, found))
    }
}

/// The folder name of an experiment in a form, for example `launch-gap-quick`.
fn name_in_form(name: &str, quick: bool) -> String {
    format!("{name}-{}", if quick { "quick" } else { "full" })
}

/// Reports how much is resumed, and what was set aside.
fn report_resumed(members: &[CampaignMember], found: &[StoredResults]) {
    let taken = members.iter().zip(found).filter(|(_, found)| matches!(found, StoredResults::Same(_)));
    let (mut replicates, mut experiments, mut since) = (0, 0, None);
    for (member, _) in taken {
        let all = member.run().missing(&Findings::default()).count();
        replicates += all - member.run().missing(&member.findings).count();
        experiments += 1;
        let started = member.store.header().started.clone();
        since = Some(since.map_or(started.clone(), |since: String| since.min(started)));
    }
    if let Some(since) = since.filter(|_| replicates > 0) {
        let each = if experiments == 1 { "1 experiment".to_owned() } else { format!("{experiments} experiments") };
        note!(
            "resuming the run of {since}: {replicates} replicates of {each} are kept (--restart measures them again)"
        );
    }
    for (member, found) in members.iter().zip(found).filter(|(_, found)| matches!(found, StoredResults::Other { .. })) {
        note!("{}: {}", member.entry.experiment.name, set_aside(found));
    }
}

/// Why a run starts again, and where the earlier measurements are.
fn set_aside(found: &StoredResults) -> String {
    match found {
        StoredResults::Other { reason, aside } => {
            format!("starts again, because {reason}; the earlier measurements are in {}", aside.display())
        }
        StoredResults::Nothing | StoredResults::Same(_) => String::new(),
    }
}

/// Evaluates the claims, then writes and prints the report.
fn finish(
    arguments: &Arguments,
    members: Vec<CampaignMember>,
    base: &Path,
    started: String,
) -> anyhow::Result<ExitCode> {
    let results = members.iter().map(|member| {
        let named = (member.entry.experiment.name.as_str(), member.run().seed);
        member.result(command(arguments, Some(named), false))
    });
    let proof = Proof {
        schema: SCHEMA,
        brisk: env!("CARGO_PKG_VERSION").into(),
        experiments: results.collect(),
        device: device(&members, arguments.here),
        started,
    };
    let folder = match &arguments.output {
        Some(folder) => folder.clone(),
        None => base.join(proof.started.replace(':', "")),
    };
    report::write(&proof, &folder)?;
    #[cfg(feature = "lab")]
    let status = match &arguments.papers {
        Some(papers) => papers::finish(papers, &proof, &folder)?,
        None => print(arguments, &proof)?,
    };
    #[cfg(not(feature = "lab"))]
    let status = print(arguments, &proof)?;
    for member in members.iter().filter(|member| !member.quick && arguments.verbose) {
        member.run().state(&member.findings).iter().for_each(|line| note!("{line}"));
    }
    // Only a complete run is archived; otherwise all stores stay, so that the same command resumes them.
    if members.iter().all(|member| member.outcome == Some(ExperimentOutcome::Complete)) {
        for member in members {
            let name = name_in_form(&member.entry.experiment.name, member.quick);
            member.store.archive(&folder.join("samples").join(name))?;
        }
    } else {
        eprintln!("incomplete; the same command measures the rest: {}", command(arguments, None, true));
    }
    report::name(&folder);
    Ok(ExitCode::from(status))
}

/// Prints the proof and returns its exit code.
fn print(arguments: &Arguments, proof: &Proof) -> anyhow::Result<u8> {
    report::print(proof, arguments.json, arguments.verbose)?;
    Ok(Status::of(proof, arguments.strict).exit_code())
}

/// One description for all experiments.
fn device(members: &[CampaignMember], here: bool) -> DeviceDescription {
    let known = members.iter().filter_map(|member| Some((member.entry.experiment.mode, member.findings.device()?)));
    report::device(&known.collect::<Vec<_>>(), here)
}

/// The command line that repeats one experiment, or with `again` the whole run, as the user types it.
fn command(arguments: &Arguments, one: Option<(&str, u64)>, again: bool) -> String {
    let mut words = vec!["brisk prove".to_owned()];
    match one {
        // An experiment from a file is selected by its path, which only the whole command has.
        Some((name, _)) if !arguments.experiments.iter().any(|name| name.ends_with(".toml")) => words.push(name.into()),
        _ => words.extend(arguments.experiments.iter().cloned()),
    }
    #[cfg(feature = "lab")]
    if let Some(papers) = arguments.papers.as_ref().filter(|_| again) {
        words = papers::words(papers);
    }
    for (given, word) in [(arguments.here, "--here"), (arguments.full, "--full"), (arguments.yes, "--yes")] {
        if given {
            words.push(word.into());
        }
    }
    if let Some(seed) = one.map(|(_, seed)| seed).or(arguments.seed).filter(|&seed| seed != SEED) {
        words.push(format!("--seed {seed}"));
    }
    if again {
        words.extend(arguments.shard.map(|shard| format!("--shard {shard}")));
        words.extend(arguments.output.as_ref().map(|folder| format!("--output {}", folder.display())));
    }
    words.join(" ")
}

/// `$XDG_CACHE_HOME/brisk/results`, or below `~/.cache`.
fn default_folder() -> anyhow::Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    Ok(cache.context("neither XDG_CACHE_HOME nor HOME is set: give --output FOLDER")?.join("brisk/results"))
}
