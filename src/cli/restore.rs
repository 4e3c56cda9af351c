//! `brisk restore`: undo what a daemon that died has left changed.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context;
use serde::Serialize;

use crate::device::Root;
use crate::device::journal::{JournalError, Outcome, Replay, Restoration, become_writer};

/// The number of the JSON schema.
const SCHEMA: u32 = 1;

/// Arguments of `brisk restore`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 when nothing of brisk's is left changed, 1 when something could not be put back, \
                        2 when the journal cannot be used, for instance because a daemon is running.\n\n\
                        Examples:\n  brisk restore          after a daemon was killed together with its guardian\n  \
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

/// Gives back everything that the journal holds and says what was done.
///
/// # Errors
/// When the journal cannot be used; a running daemon has it, and gives everything back itself when it is stopped.
pub fn run(arguments: &Arguments, root: &Root) -> anyhow::Result<ExitCode> {
    let folder = root.runtime_folder();
    become_writer(&folder).with_context(|| format!("cannot become the owner of {}", folder.display()))?;
    let replay = match Replay::of(&folder, root) {
        Err(error @ JournalError::Locked { .. }) => {
            return Err(error).context(
                "nothing was restored: a running brisk gives everything back itself when it stops (systemctl stop brisk, \
                 or SIGTERM)",
            );
        }
        other => other?,
    };
    let report = Report { schema: SCHEMA, complete: replay.is_complete(), replay: &replay };
    let mut out = anstream::stdout().lock();
    if arguments.json {
        writeln!(out, "{}", serde_json::to_string(&report)?)?;
    } else {
        write!(out, "{}", text(&replay))?;
    }
    Ok(if report.complete { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn text(replay: &Replay) -> String {
    let mut text = String::new();
    if replay.earlier_boot {
        text += "The journal is of an earlier boot, and the reboot has reset what it held.\n";
    }
    if replay.malformed_lines > 0 {
        text += &format!("{} lines of the journal are damaged and were left out.\n", replay.malformed_lines);
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
