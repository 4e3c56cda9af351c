//! `brisk restore`: undo what a daemon or an experiment that died has left changed.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use serde::Serialize;

use crate::device::Root;
use crate::device::journal::{JournalError, Outcome, Replay, Restoration, become_writer};
use crate::engine::boot::hand_over;
use crate::experiment::runner;
use crate::mechanism::memory::apply;

/// The number of the JSON schema.
const SCHEMA: u32 = 1;

/// Arguments of `brisk restore`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 when nothing of brisk's is left changed, 1 when something could not be put back, \
                        2 when a journal cannot be used, for instance because its daemon or experiment is running.\n\n\
                        Examples:\n  brisk restore          after a daemon, or `brisk prove --here`, was killed with its guardian\n  \
                        brisk restore --json   what was done, for a script"
)]
pub struct Arguments {
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    schema: u32,
    complete: bool,
    #[serde(flatten)]
    replay: &'a Replay,
}

/// Gives back everything that the journals hold and says what was done.
///
/// # Errors
/// When a journal cannot be used; whoever runs has it, and gives everything back itself when it is stopped.
pub fn run(arguments: &Arguments, root: &Root) -> anyhow::Result<ExitCode> {
    let mut replay = Replay::default();
    // The daemon of an experiment's arm leases on top of what the arm has set, so its journal comes first. While that
    // is in use nothing below it can be given back either.
    let folders = [root.runtime_folder(), apply::folder(root), runner::runtime_folder(root)];
    let mut give_back = |folder: &PathBuf| restore(folder, root).map(|more| replay.append(more));
    // What a boot holds depends on nobody.
    let boot = give_back(&hand_over::folder(root));
    let outcome = folders.iter().try_for_each(&mut give_back).and(boot);
    let report = Report { schema: SCHEMA, complete: outcome.is_ok() && replay.is_complete(), replay: &replay };
    if outcome.is_ok() || !replay.restorations.is_empty() {
        let mut out = anstream::stdout().lock();
        if arguments.json {
            writeln!(out, "{}", serde_json::to_string(&report)?)?;
        } else {
            write!(out, "{}", text(&replay))?;
        }
    }
    outcome?;
    Ok(if report.complete { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn restore(folder: &Path, root: &Root) -> anyhow::Result<Replay> {
    become_writer(folder).with_context(|| format!("cannot become the owner of {}", folder.display()))?;
    match Replay::of(folder, root) {
        Err(error @ JournalError::Locked { .. }) => Err(error).context(
            "not restored: what runs gives everything back itself when it stops (the daemon by systemctl stop brisk, an \
             experiment by Ctrl-C, either by SIGTERM)",
        ),
        other => Ok(other?),
    }
}

fn text(replay: &Replay) -> String {
    let mut text = String::new();
    if replay.earlier_boot {
        text += "A journal is of an earlier boot, and the reboot has reset what it held.\n";
    }
    if replay.malformed_lines > 0 {
        text += &format!("{} lines of a journal are damaged and were left out.\n", replay.malformed_lines);
    }
    for restoration in &replay.restorations {
        text += &line(restoration);
    }
    if replay.restorations.is_empty() {
        text += "Nothing is left changed.\n";
    }
    text
}

fn line(restoration: &Restoration) -> String {
    let Restoration { target, original, outcome } = restoration;
    match outcome {
        Outcome::Restored => format!("restored  {target} holds {original} again\n"),
        Outcome::ChangedByOther { found } => format!("kept      {target} holds {found}, which somebody else has set\n"),
        Outcome::Vanished => format!("gone      {target} does not exist any more\n"),
        Outcome::Refused { error } => format!("failed    {target} should hold {original}: {error}\n"),
    }
}
