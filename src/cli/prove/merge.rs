//! `brisk prove merge`: joins the shards of experiments, or the runs of several devices, and judges them together.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;

use super::{SEED, default_folder, name_in_form, report};
use crate::cli::output;
use brisk_experiment::catalogue;
use brisk_experiment::merge::{self, Fault, Joined, Merged, Missing};
use brisk_report::proof::{Proof, SCHEMA, Timekeeping};
use brisk_report::status::Status;

/// Arguments of `brisk prove merge`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Exit code:
   0  no claim was refuted; claims with too few runs are listed as inconclusive
   1  a claim was refuted (with --strict, also if one is inconclusive), or runs
      are missing: the shards to run again are named, and nothing is written
   2  a folder is foreign, double, damaged or unreadable; nothing is written

Whole runs of several devices (prove --here) are judged together: each device has
the same weight, and the report says what each found by itself.

Folders are only read. With --json, the output has the key `experiments`
if all shards are there; otherwise `missing` and `faults`.

Examples:
  brisk prove merge results                  all shards below this folder
  brisk prove merge node-*/shard-*           shards copied from several machines
  brisk prove merge results --output joined  write the report and all samples")]
pub struct Arguments {
    /// Folders of shards or of devices' results, or folders that have them
    #[arg(value_name = "FOLDER", required = true)]
    folders: Vec<PathBuf>,
    /// Write results into this folder [default: one below ~/.cache/brisk/results]
    #[arg(long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Also print the tables of every variant and every claim
    #[arg(short, long, conflicts_with = "json")]
    verbose: bool,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
    /// Treat an inconclusive claim like a refuted one: exit code 1
    #[arg(long)]
    strict: bool,
}

/// What is printed if the shards cannot be joined.
#[derive(Debug, Serialize)]
struct Refusal<'a> {
    schema: u32,
    missing: &'a [Missing],
    faults: &'a [Fault],
}

/// Joins the shards.
///
/// # Errors
/// When a folder cannot be read, or the results cannot be written.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let merged = merge::join(merge::records(&arguments.folders)?, env!("CARGO_PKG_VERSION"));
    let Merged { experiments, missing, faults } = &merged;
    if !missing.is_empty() || !faults.is_empty() {
        output::print(&Refusal { schema: 1, missing, faults }, arguments.json, text)?;
        return Ok(ExitCode::from(if faults.is_empty() { 1 } else { 2 }));
    }
    let proof = proof(experiments);
    let folder = match &arguments.output {
        Some(folder) => folder.clone(),
        None => default_folder()?.join(proof.started.replace(':', "")),
    };
    for joined in experiments {
        let name = name_in_form(&joined.entry.experiment.name, joined.header.quick);
        joined.write(&folder, &name)?;
    }
    report::write(&proof, &folder)?;
    report::print(&proof, arguments.json, arguments.verbose)?;
    report::name(&folder);
    Ok(ExitCode::from(Status::of(&proof, arguments.strict).exit_code()))
}

fn proof(experiments: &[Joined]) -> Proof {
    let findings: Vec<_> = experiments.iter().map(Joined::findings).collect();
    let all = || experiments.iter().zip(&findings);
    let devices: Vec<_> = all()
        .flat_map(|(joined, findings)| findings.iter().map(|device| (joined.entry.experiment.mode, device)))
        .filter_map(|(mode, device)| Some((mode, device.findings.device()?)))
        .collect();
    let here = experiments.iter().any(|joined| joined.entry.experiment.mode == Timekeeping::Native);
    let most = findings.iter().map(Vec::len).max().unwrap_or(0);
    let mut device = report::device(&devices, here);
    if most > 1 {
        let kinds: BTreeSet<&str> = devices.iter().map(|(_, device)| device.processor.as_str()).collect();
        device.processor = format!("{most} devices: {}", kinds.into_iter().collect::<Vec<_>>().join("; "));
    }
    let command = |joined, count| if count > 1 { String::new() } else { command(joined) };
    Proof {
        schema: SCHEMA,
        brisk: env!("CARGO_PKG_VERSION").into(),
        started: experiments.iter().map(|joined| joined.header.started.clone()).min().unwrap_or_default(),
        device,
        experiments: all()
            .map(|(joined, devices)| joined.run().result_of_devices(devices, command(joined, devices.len())))
            .collect(),
    }
}

/// The command that repeats a built-in experiment on one machine. The path of another one is not known here.
fn command(joined: &Joined) -> String {
    let name = &joined.entry.experiment.name;
    let is_same = |entry: &catalogue::Entry| entry.experiment.name == *name && entry.text == joined.entry.text;
    if !catalogue::all().is_ok_and(|all| all.iter().any(is_same)) {
        return String::new();
    }
    let here = if joined.entry.experiment.mode == Timekeeping::Native { " --here" } else { "" };
    let full = if joined.header.quick { "" } else { " --full" };
    let seed = if joined.header.seed == SEED { String::new() } else { format!(" --seed {}", joined.header.seed) };
    format!("brisk prove {name}{here}{full}{seed}")
}

fn text(refusal: &Refusal<'_>) -> String {
    let missing = refusal.missing.iter().map(|missing| {
        let Missing { experiment, quick, replicates, of, shards } = missing;
        let name = name_in_form(experiment, *quick);
        let shards: Vec<String> = shards.iter().map(ToString::to_string).collect();
        format!("missing: {replicates} of {of} replicates of {name}; run again: --shard {}\n", shards.join(", "))
    });
    let faults = refusal.faults.iter();
    let faults = faults.map(|fault| format!("{}: {}: {}\n", fault.kind.word(), fault.folder.display(), fault.reason));
    let lines: String = faults.chain(missing).collect();
    lines + "nothing was joined, and nothing was changed\n"
}
