//! `brisk restore`: reverts the changes of a daemon or an experiment that died, and what a killed recorder of traces left.

use std::io::Write;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, ensure};
use serde::Serialize;
use serde_json::Value;

use brisk_sys::Root;
use brisk_sys::error::sentence;
use brisk_sys::system::trace_pages;
use brisk_undo::journal::{
    Holder, JournalError, Replay, Restoration, RestoreOutcome, TunableGrant, become_owner, other_owner,
};

/// The number of the JSON schema.
const SCHEMA: u32 = 1;

/// Arguments of `brisk restore`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Also removes the instances of tracing that killed recorders (`brisk trace record`) left.

Exit code 0 when all of brisk's changes are reverted, 1 when something could not be restored, 2 when a
journal cannot be used, for instance because its daemon or experiment is running.

Examples:
  brisk restore                   after brisk and its guardian were killed
  brisk restore --journal memory  revert `brisk memory apply --keep`
  brisk restore --json            print the result as JSON")]
pub struct Arguments {
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// Restore one journal alone: daemon, boot, memory or experiment
    #[arg(long, value_name = "NAME", value_parser = Holder::of_name)]
    pub journal: Option<Holder>,
    /// Run as the owner of the journal
    #[arg(long, hide = true, requires = "journal")]
    pub as_owner: bool,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    schema: u32,
    complete: bool,
    #[serde(flatten)]
    replay: &'a Replay,
    trace_instances: &'a [TraceInstance],
}

/// An instance of tracing that a killed recorder left.
#[derive(Debug, Serialize)]
struct TraceInstance {
    folder: String,
    /// Why it is still there.
    error: Option<String>,
}

/// The result, and the output of the processes that restored the journals of other users.
#[derive(Debug, Default)]
struct RestoreResult {
    replay: Replay,
    /// The output of each process, as text or JSON as requested.
    child_output: Vec<String>,
    /// True when one of them could not restore everything.
    is_refused: bool,
    trace_instances: Vec<TraceInstance>,
}

/// Restores everything that the journals hold and prints the result.
///
/// # Errors
/// When a journal cannot be used; a running holder restores everything itself when it is stopped.
pub fn run(arguments: &Arguments, root: &Root) -> anyhow::Result<ExitCode> {
    let mut result = RestoreResult::default();
    let mut holders: Vec<_> = arguments.journal.map_or(Holder::ALL.to_vec(), |holder| vec![holder]);
    // The owner of another journal could obstruct its restoration, so root's journals are restored first.
    holders.sort_by_key(|holder| other_owner(&holder.folder(root)).is_some());
    let mut outcome = Ok(());
    let mut is_daemon_refused = false;
    for holder in holders {
        // The daemon of an experiment's arm holds leases on top of the arm's own values, so those cannot be restored yet.
        if is_daemon_refused && holder == Holder::Experiment {
            continue;
        }
        if let Err(error) = restore(holder, arguments, root, &mut result) {
            is_daemon_refused |= holder == Holder::Daemon;
            match outcome {
                Ok(()) => outcome = Err(error),
                Err(_) => eprintln!("brisk: {}", sentence(error.as_ref())),
            }
        }
    }
    if arguments.journal.is_none() {
        let found = trace_pages::remove_stale(root).into_iter();
        let found = found.map(|(folder, error)| TraceInstance { folder, error: error.map(|it| it.with_advice()) });
        result.trace_instances = found.collect();
    }
    let is_left = result.trace_instances.iter().any(|instance| instance.error.is_some());
    let complete = outcome.is_ok() && result.replay.is_complete() && !result.is_refused && !is_left;
    let is_empty = result.replay.restorations.is_empty() && result.child_output.is_empty();
    if outcome.is_ok() || !is_empty || !result.trace_instances.is_empty() {
        let text = if arguments.json { result.json(complete)? } else { result.text(arguments.as_owner) };
        write!(anstream::stdout(), "{text}")?;
    }
    outcome?;
    Ok(if complete { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn restore(holder: Holder, arguments: &Arguments, root: &Root, result: &mut RestoreResult) -> anyhow::Result<()> {
    let folder = holder.folder(root);
    if arguments.as_owner {
        become_owner(&folder).with_context(|| format!("cannot become the owner of {}", folder.display()))?;
    } else if let Some(owner) = other_owner(&folder) {
        return restore_as(owner, holder, arguments.json, root, result);
    }
    match Replay::of(holder, &folder, root) {
        Err(error @ JournalError::Locked { .. }) => Err(error).context(
            "not restored, because its holder is running: it restores everything when it stops (daemon: systemctl stop brisk; \
             experiment: Ctrl-C; either: SIGTERM)",
        ),
        Err(error) => Err(error.into()),
        Ok(replay) => {
            result.replay.append(replay);
            Ok(())
        }
    }
}

/// Restores the journal of `owner` in a separate process with that user's rights alone.
fn restore_as(owner: u32, holder: Holder, json: bool, root: &Root, result: &mut RestoreResult) -> anyhow::Result<()> {
    let folder = holder.folder(root);
    let _grant = TunableGrant::of(holder, &folder, root, owner);
    let output = Command::new("/proc/self/exe")
        .arg("--root")
        .arg(root.path("/"))
        .args(["restore", "--as-owner", "--journal", holder.name()])
        .args(json.then_some("--json"))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start the process that restores with the owner's rights")?;
    // If it could not use the journal, it has printed the reason on stderr.
    let code = output.status.code();
    ensure!(matches!(code, Some(0 | 1)), "{} is not restored as user {owner}: {}", folder.display(), output.status);
    result.is_refused |= code == Some(1);
    result.child_output.push(String::from_utf8_lossy(&output.stdout).into_owned());
    Ok(())
}

impl RestoreResult {
    fn json(&self, complete: bool) -> anyhow::Result<String> {
        let own = serde_json::to_string(&Report {
            schema: SCHEMA,
            complete,
            replay: &self.replay,
            trace_instances: &self.trace_instances,
        })?;
        if self.child_output.is_empty() {
            return Ok(own + "\n");
        }
        let mut report: Value = serde_json::from_str(&own)?;
        for child_output in &self.child_output {
            let mut more: Value = serde_json::from_str(child_output)?;
            if let (Value::Array(all), Value::Array(more)) = (&mut report["restorations"], &mut more["restorations"]) {
                all.append(more);
            }
            for flag in ["earlier_boot", "torn"] {
                report[flag] = (report[flag] == true || more[flag] == true).into();
            }
            let lines = |report: &Value| report["malformed_lines"].as_u64().unwrap_or_default();
            report["malformed_lines"] = (lines(&report) + lines(&more)).into();
        }
        Ok(report.to_string() + "\n")
    }

    /// Empty with `as_owner` when nothing was changed: the parent process then prints the message.
    fn text(&self, as_owner: bool) -> String {
        let Replay { restorations, earlier_boot, malformed_lines, .. } = &self.replay;
        let mut text = String::new();
        if *earlier_boot {
            text += "A journal is from an earlier boot; the reboot has reset what it held.\n";
        }
        if *malformed_lines > 0 {
            text += &format!("Damaged lines of a journal, which were skipped: {malformed_lines}.\n");
        }
        restorations.iter().for_each(|restoration| text += &line(restoration));
        for TraceInstance { folder, error } in &self.trace_instances {
            text += &match error {
                None => format!("removed   {folder}, which a killed recorder left\n"),
                Some(error) => format!("failed    {folder}, which a killed recorder left, is still there: {error}\n"),
            };
        }
        text += &self.child_output.concat();
        let is_empty = restorations.is_empty() && self.trace_instances.is_empty();
        if is_empty && self.child_output.iter().all(String::is_empty) && !as_owner {
            text += "Nothing is left changed.\n";
        }
        text
    }
}

fn line(restoration: &Restoration) -> String {
    let Restoration { target, original, outcome } = restoration;
    match outcome {
        RestoreOutcome::Restored => format!("restored  {target} holds {original} again\n"),
        RestoreOutcome::ChangedByOther { found } => {
            format!("kept      {target} holds {found}, which another process has set\n")
        }
        RestoreOutcome::Vanished => format!("gone      {target} does not exist any more\n"),
        RestoreOutcome::Refused { error } => format!("failed    {target} should hold {original}: {error}\n"),
    }
}
