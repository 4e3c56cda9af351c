//! `brisk foreground`: tells the daemon which processes the user interacts with.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail, ensure};

use brisk_daemon::control::connection::Connection;
use brisk_daemon::control::protocol::Request;
use brisk_sys::{Root, process};

/// Arguments of `brisk foreground`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
For window managers and kiosks: the foreground stays as set until the next call. Without it the daemon
follows logind's active session and Android's top-app cpuset. If a process does not exist, the command
fails and changes nothing. brisk-foreground-x11 and brisk-foreground-sway (packaging/foreground) report
the window that has the focus.

Exit code 0 when the daemon accepted it, 2 after an error.

Examples:
  brisk foreground 1234                             set process 1234
  brisk foreground --pid-file /run/kiosk/kiosk.pid  read its id from a file
  brisk foreground --none                           set an empty foreground")]
pub struct Arguments {
    /// The processes in the foreground
    #[arg(value_name = "PID", required_unless_present_any = ["pid_file", "none"], value_parser = clap::value_parser!(u32).range(1..))]
    pids: Vec<u32>,
    /// Read the process from FILE
    #[arg(long, value_name = "FILE", conflicts_with_all = ["pids", "none"])]
    pid_file: Option<PathBuf>,
    /// Set an empty foreground
    #[arg(long, conflicts_with = "pids")]
    none: bool,
}

/// Sends the processes to the daemon.
///
/// # Errors
/// A process that does not exist, a file without a process id, or a daemon that cannot be reached.
pub fn run(arguments: &Arguments, root: &Root) -> anyhow::Result<ExitCode> {
    let pids = match &arguments.pid_file {
        Some(file) => vec![read_pid(file)?],
        None => arguments.pids.clone(),
    };
    for &pid in &pids {
        let is_alive = process::stat(root, pid).is_ok_and(|stat| !stat.is_dead);
        ensure!(is_alive, "there is no process {pid}: the foreground is unchanged");
    }
    Connection::open(root)?.request(Request::Foreground { pids })?;
    Ok(ExitCode::SUCCESS)
}

fn read_pid(file: &Path) -> anyhow::Result<u32> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    match text.trim().parse() {
        Ok(pid) if pid > 0 => Ok(pid),
        _ => bail!("{} holds no process id", file.display()),
    }
}
