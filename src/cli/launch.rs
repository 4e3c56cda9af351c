//! `brisk launch`: runs a command with launch boost, or prints launches as the daemon detects them.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command as Process, ExitCode, ExitStatus};
use std::thread;

use anyhow::Context;
use rustix::process::{Signal, getpgrp, kill_process};
use rustix::termios::tcgetpgrp;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH};
use signal_hook::iterator::Signals;
use tracing::Level;

use super::log;
use brisk_daemon::control::connection::{Connection, ConnectionError};
use brisk_daemon::control::protocol::{MAXIMUM_NAME_BYTES, Request};
use brisk_daemon::{Engine, Options, Purpose};
use brisk_mechanism::launch::LaunchNotification;
use brisk_mechanism::launch::notification::EndReason;
use brisk_mechanism::list;
use brisk_mechanism::{Support, SupportState};
use brisk_sys::error::sentence;
use brisk_sys::{Root, process};

/// Signals that are forwarded to the command.
const FORWARDED: [i32; 8] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGCONT, SIGWINCH];
/// A shell's exit codes for a command that cannot be found, and for one that cannot be run.
const NOT_FOUND: u8 = 127;
const NOT_RUNNABLE: u8 = 126;

/// Arguments of `brisk launch`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "\
A running daemon boosts the launch. Without a daemon this process boosts it, with a journal of its own,
until the launch is over. When no boost is possible, the command runs without one.

Exit code and signals are the command's: 128 and the signal's number when it was killed, 127 when there
is no such command, 126 when it cannot be run.

Examples:
  brisk launch -- firefox --new-window
  brisk launch watch")]
pub struct Arguments {
    /// What to do instead of running a command.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Learn the launch time under NAME instead of the command's file name
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Report on standard error how the launch is boosted
    #[arg(long, short)]
    pub verbose: bool,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command_line: Vec<OsString>,
}

/// The subcommands.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Print launches as the daemon detects them
    Watch {
        /// Print one JSON object a line
        #[arg(long)]
        json: bool,
    },
}

/// Runs the command, or prints launches.
///
/// # Errors
/// For `watch`, when no daemon answers. A command runs with or without a boost.
pub fn run(arguments: &Arguments, root: &Root) -> anyhow::Result<ExitCode> {
    match &arguments.command {
        Some(Command::Watch { json }) => watch(*json, root),
        None => launch(arguments, root),
    }
}

fn launch(arguments: &Arguments, root: &Root) -> anyhow::Result<ExitCode> {
    log::start(if arguments.verbose { Level::INFO } else { Level::ERROR });
    let (program, rest) = arguments.command_line.split_first().context("no command was given")?;
    let application = application_name(arguments.name.as_deref(), program);
    let mut signals = Signals::new(FORWARDED).context("cannot receive signals")?;
    let mut connection = announce(root, &application);
    let mut child = match Process::new(program).args(rest).spawn() {
        Ok(child) => child,
        Err(error) => {
            writeln!(anstream::stderr(), "brisk: cannot run {}: {error}", program.display())?;
            let is_missing = error.kind() == std::io::ErrorKind::NotFound;
            return Ok(ExitCode::from(if is_missing { NOT_FOUND } else { NOT_RUNNABLE }));
        }
    };
    let pid = child.id();
    thread::spawn(move || signals.forever().for_each(|signal| forward(signal, pid)));
    match &mut connection {
        Some(connection) => {
            // The boost has begun already; with the pid the daemon also detects the end.
            let _ = connection.request(Request::Launch { application, pid: Some(pid) });
        }
        None => boost_launch(root, &application, pid),
    }
    wait(&mut child)
}

/// Announces the launch to the daemon, if one is reachable.
fn announce(root: &Root, application: &str) -> Option<Connection> {
    let request = Request::Launch { application: application.to_owned(), pid: None };
    let asked = Connection::open(root).and_then(|mut connection| Ok((connection.request(request)?, connection)));
    match asked {
        Ok((answer, connection)) => {
            if let Ok(support) = serde_json::from_value::<Support>(answer["support"].clone()) {
                tracing::info!("{}", support.reason);
            }
            Some(connection)
        }
        Err(ConnectionError::NoDaemon { .. }) => None,
        Err(error) => {
            tracing::warn!("{error}");
            None
        }
    }
}

/// Boosts from this process until the launch is over.
fn boost_launch(root: &Root, application: &str, pid: u32) {
    let options =
        Options { root: root.clone(), config: None, purpose: Purpose::OneLaunch, record: None, mechanisms: list::all };
    let helped = Engine::start(options).and_then(|engine| {
        let Some(support) = engine.launch_support() else { return Ok(()) };
        tracing::info!("{}", support.reason);
        if support.state == SupportState::Active { engine.boost_launch(application, pid) } else { Ok(()) }
    });
    if let Err(error) = helped {
        tracing::warn!("no boost: {}", sentence(error.as_ref()));
    }
}

fn application_name(name: Option<&str>, program: &OsString) -> String {
    let file_name = || Path::new(program).file_name().unwrap_or(program).to_string_lossy().into_owned();
    let mut name = name.map_or_else(file_name, str::to_owned);
    name.retain(|character| !character.is_control());
    let mut end = name.len().min(MAXIMUM_NAME_BYTES);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name.truncate(end);
    if name.is_empty() { "?".to_owned() } else { name }
}

/// Forwards `signal`, unless the terminal has already sent it to the whole foreground process group.
fn forward(signal: i32, pid: u32) {
    let from_terminal = matches!(signal, SIGINT | SIGQUIT | SIGWINCH | SIGCONT)
        && tcgetpgrp(std::io::stdin()).is_ok_and(|group| group == getpgrp());
    let process = process::id(pid);
    if let (false, Some(process), Some(signal)) = (from_terminal, process, Signal::from_named_raw(signal)) {
        // The command may have ended meanwhile.
        let _ = kill_process(process, signal);
    }
}

fn wait(child: &mut Child) -> anyhow::Result<ExitCode> {
    let status = child.wait().context("cannot wait for the command")?;
    Ok(ExitCode::from(exit_code(status)))
}

fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    u8::try_from(code).unwrap_or(u8::MAX)
}

fn watch(json: bool, root: &Root) -> anyhow::Result<ExitCode> {
    let mut connection = Connection::open(root)?;
    let answer = connection.request(Request::Watch)?;
    if let Ok(support) = serde_json::from_value::<Support>(answer["support"].clone()) {
        writeln!(anstream::stderr(), "brisk: {}", support.reason)?;
    }
    while let Some(value) = connection.wait()? {
        let line = match serde_json::from_value::<LaunchNotification>(value.clone()) {
            Ok(notice) if !json => describe(&notice),
            _ => value.to_string(),
        };
        if writeln!(anstream::stdout(), "{line}").is_err() {
            // The reader has closed the pipe.
            return Ok(ExitCode::SUCCESS);
        }
    }
    writeln!(anstream::stderr(), "brisk: the daemon has stopped")?;
    Ok(ExitCode::SUCCESS)
}

fn describe(notice: &LaunchNotification) -> String {
    let process = |pid: &Option<u32>| pid.map(|pid| format!(" (process {pid})")).unwrap_or_default();
    match notice {
        LaunchNotification::Began { at, application, pid, trigger, first } => {
            let verb = if *first { "began" } else { "continues" };
            format!("{} {application}{} {verb}, detected by {trigger}", dmesg_time(at.nanoseconds()), process(pid))
        }
        LaunchNotification::Ended { at, application, pid, duration, reason } => format!(
            "{} {application}{} took {:.1} ms: {}",
            dmesg_time(at.nanoseconds()),
            process(pid),
            duration.as_secs_f64() * 1_000.0,
            match reason {
                EndReason::LoadFell => "the load fell",
                EndReason::Foreground => "it is in the foreground",
                EndReason::Exited => "the process exited",
                EndReason::Finished => "a program reported its end",
                EndReason::Deadline => "the deadline passed",
            }
        ),
    }
}

/// The time in dmesg's format.
fn dmesg_time(nanoseconds: u64) -> String {
    format!("[{:>6}.{:06}]", nanoseconds / 1_000_000_000, nanoseconds / 1_000 % 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn applications_are_named_after_their_file() {
        for (name, program, expected) in [
            (None, "/usr/bin/firefox", "firefox"),
            (None, "firefox", "firefox"),
            (Some("browser"), "firefox", "browser"),
            (Some("\u{1b}[1m"), "firefox", "[1m"),
            (None, "/", "/"),
            (Some(""), "firefox", "?"),
        ] {
            assert_eq!(application_name(name, &OsString::from(program)), expected);
        }
        assert_eq!(application_name(Some(&"ü".repeat(300)), &OsString::new()).len(), MAXIMUM_NAME_BYTES);
    }

    #[test]
    fn exit_codes_are_those_of_a_shell() {
        let run = |script: &str| Process::new("sh").arg("-c").arg(script).status().unwrap();
        assert_eq!(exit_code(run("exit 7")), 7);
        assert_eq!(exit_code(run("kill -TERM $$")), 143);
    }
}
