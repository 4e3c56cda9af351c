//! `brisk restore`: undo what a daemon or an experiment that died has left changed.

use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, ensure};
use serde::Serialize;

use crate::device::Root;
use crate::device::error::sentence;
use crate::device::journal::{Holder, JournalError, Loan, Outcome, Replay, Restoration, become_owner, other_owner};

/// The number of the JSON schema.
const SCHEMA: u32 = 1;

/// Arguments of `brisk restore`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 when nothing of brisk's is left changed, 1 when something could not be put back, \
                        2 when a journal cannot be used, for instance because its daemon or experiment is running.\n\n\
                        Examples:\n  brisk restore                   after a daemon, or `brisk prove --here`, was killed with its guardian\n  \
                        brisk restore --journal memory  what `brisk memory apply --keep` has set, and nothing else\n  \
                        brisk restore --json            what was done, for a script"
)]
pub struct Arguments {
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// Restore one journal alone: daemon, boot, memory or experiment
    #[arg(long, value_name = "NAME", value_parser = Holder::of_name)]
    pub journal: Option<Holder>,
    /// As the user to whom the journal belongs
    #[arg(long, hide = true, requires = "journal")]
    pub as_owner: bool,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    schema: u32,
    complete: bool,
    #[serde(flatten)]
    replay: &'a Replay,
}

/// Restores everything that the journals hold and says what was done.
///
/// # Errors
/// When a journal cannot be used; a holder that runs restores everything itself when it is stopped.
pub fn run(arguments: &Arguments, root: &Root) -> anyhow::Result<ExitCode> {
    let mut replay = Replay::default();
    let mut holders: Vec<_> = arguments.journal.map_or(Holder::ALL.to_vec(), |holder| vec![holder]);
    // What is another user's can be in that user's way, so root's own is restored first.
    holders.sort_by_key(|holder| other_owner(&holder.folder(root)).is_some());
    let mut outcome = Ok(());
    let mut is_daemon_refused = false;
    for holder in holders {
        // The daemon of an experiment's arm leases on top of what the arm has set: nothing below it can be restored.
        if is_daemon_refused && holder == Holder::Experiment {
            continue;
        }
        match restore(holder, arguments.as_owner, root) {
            Ok(more) => replay.append(more),
            Err(error) => {
                is_daemon_refused |= holder == Holder::Daemon;
                match outcome {
                    Ok(()) => outcome = Err(error),
                    Err(_) => eprintln!("brisk: {}", sentence(error.as_ref())),
                }
            }
        }
    }
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

fn restore(holder: Holder, as_owner: bool, root: &Root) -> anyhow::Result<Replay> {
    let folder = holder.folder(root);
    if as_owner {
        become_owner(&folder).with_context(|| format!("cannot become the owner of {}", folder.display()))?;
    } else if let Some(owner) = other_owner(&folder) {
        return restore_as(owner, holder, &folder, root);
    }
    match Replay::of(holder, &folder, root) {
        Err(error @ JournalError::Locked { .. }) => Err(error).context(
            "not restored: what runs gives everything back itself when it stops (the daemon by systemctl stop brisk, an \
             experiment by Ctrl-C, either by SIGTERM)",
        ),
        other => Ok(other?),
    }
}

/// Restores the journal of `owner` in a process of its own, which has that user's rights and no other.
fn restore_as(owner: u32, holder: Holder, folder: &Path, root: &Root) -> anyhow::Result<Replay> {
    let _loan = Loan::of(holder, folder, root, owner);
    let output = Command::new("/proc/self/exe")
        .arg("--root")
        .arg(root.path("/"))
        .args(["restore", "--as-owner", "--json", "--journal", holder.name()])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start the process that restores with the owner's rights")?;
    // It has said why on stderr where it could not use the journal.
    ensure!(!output.stdout.is_empty(), "{} is not restored as user {owner}: {}", folder.display(), output.status);
    Ok(serde_json::from_slice(&output.stdout)?)
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
