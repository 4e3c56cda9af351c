//! `brisk prove --here --on`: other devices measure themselves, and their results are fetched.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, ensure};
use serde::Serialize;

use super::{Arguments, default_folder, report};
use crate::cli::on::{Answer, Order, status};
use brisk_base::notes::note;
use brisk_experiment::catalogue;
use brisk_experiment::wall_clock;
use brisk_remote::error::RemoteError;
use brisk_remote::script;
use brisk_remote::session::Ended;
use brisk_remote::target::Target;
use brisk_report::proof::Proof;
use brisk_sys::Root;

/// What is printed of a device for programs.
#[derive(Debug, Serialize)]
struct DeviceAnswer {
    device: String,
    /// The exit status of `brisk prove` there; 2 also if it could not run.
    status: u8,
    folder: Option<PathBuf>,
    /// What `brisk prove --json` prints there.
    proof: Option<Proof>,
    error: Option<String>,
}

/// Measures the experiments on all devices at once.
///
/// # Errors
/// When an experiment or a device is not valid, or results cannot be written here.
pub fn run(arguments: &Arguments, root: &Root) -> anyhow::Result<ExitCode> {
    check(arguments)?;
    let started = wall_clock::rfc3339_now();
    let base = match &arguments.output {
        Some(folder) => folder.clone(),
        None => default_folder()?.join(started.replace(':', "")),
    };
    let base = std::path::absolute(&base).with_context(|| format!("cannot find {}", base.display()))?;
    let folders: Vec<PathBuf> = arguments.on.on.iter().map(|target| base.join(target.folder_name())).collect();
    for folder in &folders {
        let is_there = fs::symlink_metadata(folder).is_ok();
        ensure!(!is_there, "{} has results already: give another --output", folder.display());
    }
    fs::create_dir_all(&base).with_context(|| format!("cannot make {}", base.display()))?;
    // Until a device's results are whole, they are not seen in their place.
    let drafts: std::io::Result<Vec<_>> =
        folders.iter().map(|_| tempfile::Builder::new().prefix(".draft-").tempdir_in(&base)).collect();
    let drafts = drafts.with_context(|| format!("cannot make a folder in {}", base.display()))?;
    let (words, files) = words(arguments);
    let results = drafts.iter().map(tempfile::TempDir::path).collect();
    let outcomes = arguments.on.run(Order { words, files, results }, root)?;
    let parts = arguments.on.on.iter().zip(outcomes).zip(drafts.iter().zip(&folders));
    let devices: anyhow::Result<Vec<_>> =
        parts.map(|((target, outcome), (draft, folder))| device(target, outcome, draft.path(), folder)).collect();
    let answer = Answer::of(devices?);
    print(&answer, arguments)?;
    Ok(ExitCode::from(answer.devices.iter().map(|device| device.status).max().unwrap_or(0)))
}

/// Finds out what no device can do before any is asked.
fn check(arguments: &Arguments) -> anyhow::Result<()> {
    let Arguments { here, shard, yes, stop, restart, .. } = arguments;
    ensure!(here, "--on measures on the devices themselves: give --here as well");
    let refused = [(shard.is_some(), "--shard"), (*yes, "--yes"), (*stop, "--stop"), (*restart, "--restart")];
    if let Some((_, option)) = refused.iter().find(|(given, _)| *given) {
        anyhow::bail!("{option} keeps something on the device, and --on leaves nothing there: leave one of them out");
    }
    let entries = catalogue::select(&arguments.experiments, true)?;
    let reboots = entries.iter().find(|entry| entry.experiment.reboots.is_some());
    if let Some(entry) = reboots {
        anyhow::bail!("{} reboots the device, where --on leaves nothing: start it there", entry.experiment.name);
    }
    Ok(())
}

/// brisk's arguments on a device, and the files that they name.
fn words(arguments: &Arguments) -> (Vec<String>, Vec<(String, PathBuf)>) {
    let mut words = vec!["prove".to_owned()];
    let mut files = Vec::new();
    for experiment in &arguments.experiments {
        if experiment.ends_with(".toml") {
            // Two files may have the same name here.
            files.push((format!("experiment-{}.toml", files.len() + 1), PathBuf::from(experiment)));
            words.extend(files.last().map(|(name, _)| name.clone()));
        } else {
            words.push(experiment.clone());
        }
    }
    words.extend(["--here", "--output", script::RESULTS].map(str::to_owned));
    for (given, word) in [(arguments.full, "--full"), (arguments.strict, "--strict")] {
        words.extend(given.then(|| word.to_owned()));
    }
    words.extend(arguments.minutes.map(|minutes| format!("--minutes={minutes}")));
    words.extend(arguments.seed.map(|seed| format!("--seed={seed}")));
    (words, files)
}

/// Moves a device's results into their place, and reads its proof.
fn device(
    target: &Target,
    outcome: Result<Ended, RemoteError>,
    draft: &Path,
    folder: &Path,
) -> anyhow::Result<DeviceAnswer> {
    let mut answer = DeviceAnswer {
        device: target.to_string(),
        status: status(&outcome),
        folder: None,
        proof: None,
        error: outcome.as_ref().err().map(ToString::to_string),
    };
    if outcome.is_ok_and(|ended| ended.has_results) {
        fs::rename(draft, folder)
            .with_context(|| format!("cannot rename {} to {}", draft.display(), folder.display()))?;
        answer.folder = Some(folder.to_owned());
        match proof(&folder.join("proof.json")) {
            Ok(proof) => answer.proof = proof,
            // Another version measured there: no reason to lose what the others have measured.
            Err(error) => {
                eprintln!("brisk: {target}: {error}");
                (answer.status, answer.error) = (2, Some(error));
            }
        }
    }
    Ok(answer)
}

/// A device's proof, if it came as far as that.
fn proof(path: &Path) -> Result<Option<Proof>, String> {
    match fs::read(path) {
        Ok(text) => serde_json::from_slice(&text)
            .map_err(|error| format!("{} is no proof of this version: {error}", path.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("cannot read {}: {error}", path.display())),
    }
}

fn print(answer: &Answer<DeviceAnswer>, arguments: &Arguments) -> anyhow::Result<()> {
    if arguments.json {
        return crate::cli::output::print(answer, true, |_| String::new());
    }
    for device in &answer.devices {
        if let Some(proof) = &device.proof {
            crate::cli::output::print(device, false, |device| format!("\n{}\n", device.device))?;
            report::print(proof, false, arguments.verbose)?;
        }
        if let Some(folder) = &device.folder {
            note!("{}: results: {}", device.device, folder.display());
        }
    }
    let fetched: Vec<&PathBuf> = answer.devices.iter().filter_map(|device| device.folder.as_ref()).collect();
    if let [one, _, ..] = fetched[..] {
        note!("judge them together: brisk prove merge {}", one.parent().unwrap_or(one).display());
    }
    Ok(())
}
