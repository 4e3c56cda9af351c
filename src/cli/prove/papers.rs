//! `brisk prove papers`: measures what the rows of the papers name, and lays the figures beside the papers'.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use serde::Serialize;

use super::{default_folder, report};
use crate::cli::output;
use brisk_base::notes::note;
use brisk_experiment::catalogue;
use brisk_experiment::wall_clock;
use brisk_papers::comparison::Comparison;
use brisk_papers::paper::Paper;
use brisk_papers::results::Results;
use brisk_papers::verdict::Verdict;
use brisk_papers::{built_in, html, text};
use brisk_report::proof::Proof;
use brisk_report::status::Status;
use brisk_sys::Root;

/// The name of the page.
const PAGE: &str = "papers.html";
/// The quick form of all papers ends after so many minutes; the same command measures the rest.
const QUICK_MINUTES: u64 = 5;

/// Arguments of `brisk prove papers`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Each table and figure of a paper has its rows: the paper's figure, what its method
gives here, what brisk gives, and a verdict in words. Rows that no experiment
measures, or that cannot be reproduced here, say why.

Exit code (the highest that applies):
   0  every row that was decided is reproduced, at least in its direction
   1  a row is not reproduced
   2  invalid input, interruption, or an experiment that cannot run
  69  the lab failed in an experiment

Examples:
  brisk prove papers                       quick forms in the lab, five minutes
  brisk prove papers lookup --full         one paper, full forms; resumes
  brisk prove papers --from docs/evidence  judge what is on record
  brisk prove papers --list                name the experiments; run none")]
pub struct Arguments {
    /// Papers: boot, launch, placement, memory, lookup [default: all]
    #[arg(value_name = "PAPER")]
    papers: Vec<String>,
    /// Judge the results in this folder (proof.json, docs/evidence); measure nothing
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["full", "minutes", "list"])]
    from: Vec<PathBuf>,
    /// Run the full forms, which take hours; the same command resumes
    #[arg(long)]
    full: bool,
    /// List the experiments that measure the rows, and run none
    #[arg(long)]
    list: bool,
    /// Print the comparison as JSON
    #[arg(long)]
    json: bool,
    /// Write results into this folder [default: one below ~/.cache/brisk/results]
    #[arg(long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// End after N minutes, with complete blocks of runs [default: 5; none with --full]
    #[arg(long, value_name = "N")]
    minutes: Option<u64>,
}

/// What `--list` prints.
#[derive(Debug, Serialize)]
struct List {
    schema: u32,
    papers: Vec<ListedPaper>,
}

#[derive(Debug, Serialize)]
struct ListedPaper {
    name: String,
    experiments: Vec<ListedExperiment>,
}

#[derive(Debug, Serialize)]
struct ListedExperiment {
    name: String,
    /// True for one that has no quick form.
    full_only: bool,
}

/// Measures and compares, or compares what `--from` names.
///
/// # Errors
/// When a paper is unknown, results cannot be read or written, or an experiment cannot run.
pub fn run(arguments: &Arguments, root: &Root) -> anyhow::Result<ExitCode> {
    let papers = built_in::select(&arguments.papers)?;
    if arguments.list {
        output::print(&list(&papers)?, arguments.json, listed)?;
        return Ok(ExitCode::SUCCESS);
    }
    if !arguments.from.is_empty() {
        let mut results = Results::default();
        arguments.from.iter().try_for_each(|folder| read(folder, &mut results))?;
        let folder = match &arguments.output {
            Some(folder) => folder.clone(),
            None => default_folder()?.join(wall_clock::rfc3339_now().replace(':', "")),
        };
        return Ok(ExitCode::from(compare(arguments, &papers, &results, &folder)?));
    }
    let names: Vec<String> = papers.iter().flat_map(Paper::experiments).map(str::to_owned).collect();
    let minutes = arguments.minutes.or((!arguments.full).then_some(QUICK_MINUTES));
    super::run(
        &super::Arguments {
            papers: Some(arguments.clone()),
            full: arguments.full,
            minutes,
            output: arguments.output.clone(),
            experiments: names,
            lab: true,
            ..super::Arguments::default()
        },
        root,
    )
}

/// Compares the papers with a run that has ended. Returns the exit code.
///
/// # Errors
/// When the page or standard output cannot be written.
pub fn finish(arguments: &Arguments, proof: &Proof, folder: &Path) -> anyhow::Result<u8> {
    let mut results = Results::default();
    results.add_proof(proof);
    let compared = compare(arguments, &built_in::select(&arguments.papers)?, &results, folder)?;
    // A refuted claim is brisk's; here the papers are judged.
    let status = Status::of(proof, false).exit_code();
    Ok(if status > 1 { status } else { compared })
}

/// The words of the command that repeats the run.
pub fn words(arguments: &Arguments) -> Vec<String> {
    let mut words = vec!["brisk prove papers".to_owned()];
    words.extend(arguments.papers.iter().cloned());
    words
}

fn compare(arguments: &Arguments, papers: &[Paper], results: &Results, folder: &Path) -> anyhow::Result<u8> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let path = folder.join(PAGE);
    std::fs::write(&path, html::render(papers, results)).with_context(|| format!("cannot write {}", path.display()))?;
    let comparison = Comparison::of(papers, results);
    if arguments.json {
        write!(anstream::stdout(), "{}", comparison.json())?;
    } else {
        let text = text::render(&comparison, report::width(), std::io::stdout().is_terminal());
        write!(anstream::stdout(), "{text}{}", text::summary(&comparison))?;
    }
    note!("the papers, side by side: {}", path.display());
    Ok(u8::from(comparison.rows().any(|row| row.verdict == Verdict::NotReproduced)))
}

/// Adds the results in `folder`: every proof.json at any depth, or else its own JSON files, as docs/evidence has them.
fn read(folder: &Path, results: &mut Results) -> anyhow::Result<()> {
    let mut files = Vec::new();
    find(folder, &mut files)?;
    let is_proof = |path: &PathBuf| path.file_name().is_some_and(|name| name == "proof.json");
    let is_kept = |path: &PathBuf| path.parent() == Some(folder) && path.extension().is_some_and(|it| it == "json");
    let has_proof = files.iter().any(is_proof);
    files.retain(|path| if has_proof { is_proof(path) } else { is_kept(path) });
    anyhow::ensure!(!files.is_empty(), "{} has no proof.json and no file of docs/evidence", folder.display());
    files.sort();
    for path in files {
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        results.add_text(&path.display().to_string(), &text)?;
    }
    Ok(())
}

/// Collects every file below `folder`.
fn find(folder: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let entry = entry.with_context(|| format!("cannot read {}", folder.display()))?;
        // A link to a folder above it would never end.
        if entry.file_type().with_context(|| format!("cannot read {}", entry.path().display()))?.is_dir() {
            find(&entry.path(), files)?;
        } else {
            files.push(entry.path());
        }
    }
    Ok(())
}

fn list(papers: &[Paper]) -> anyhow::Result<List> {
    let entries = catalogue::all()?;
    let full_only = |name: &str| {
        let entry = entries.iter().find(|entry| entry.experiment.name == name);
        entry.is_some_and(|entry| entry.experiment.replicates.quick == 0)
    };
    let listed = |paper: &Paper| ListedPaper {
        name: paper.name.clone(),
        experiments: paper
            .experiments()
            .into_iter()
            .map(|name| ListedExperiment { name: name.to_owned(), full_only: full_only(name) })
            .collect(),
    };
    Ok(List { schema: 1, papers: papers.iter().map(listed).collect() })
}

fn listed(list: &List) -> String {
    let line = |paper: &ListedPaper| {
        let name = |it: &ListedExperiment| {
            if it.full_only { format!("{} (only with --full)", it.name) } else { it.name.clone() }
        };
        let names: Vec<String> = paper.experiments.iter().map(name).collect();
        format!("{}: {}\n", paper.name, names.join(", "))
    };
    list.papers.iter().map(line).collect()
}
