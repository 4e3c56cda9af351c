//! `brisk placement`: what every thread is to the others, and what is done for the foreground.

pub(super) mod look;
mod resources;
mod text;

use std::io::Write as _;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use crate::device::{BootTime, Root};
use crate::engine::control::connection::Connection;
use crate::engine::control::protocol::Request;
use crate::mechanism::SupportState;
use crate::mechanism::placement::Snapshot;
use look::Onlooker;

/// How often threads are looked at from here.
const PERIOD: Duration = Duration::from_millis(100);

/// Arguments of `brisk placement`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Show what the threads are: class, demand, wait, bursts
    Show(Options),
    /// Say what is done for the foreground, and why, for each thread that counts
    Explain(Options),
    /// Show what each process takes of CPUs, memory, storage and GPU
    Resources(resources::Options),
}

/// Options of both.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The daemon is asked where it does placement. Otherwise threads are looked at from here for a
while, and what is said is what a daemon would do; nothing is changed.

light        short bursts that must come in time, or asleep: never demoted
interactive  neither
bulk         takes what it can get: makes room for the foreground, where that helps

Demand is what a thread runs of the time that it does not wait for a CPU.

Examples:
  brisk placement show                   all threads that are awake
  brisk placement explain --front 1234   what would be done for process 1234
  brisk placement show --json            the same for a program")]
struct Options {
    /// Take this process for the foreground, and sample from here; may be given more than once
    #[arg(long, value_name = "PID")]
    front: Vec<u32>,
    /// How long to look from here, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs `brisk placement`.
///
/// # Errors
/// When the configuration is not right, threads cannot be looked at, or standard output cannot be written.
pub fn run(arguments: &Arguments, root: &Root) -> anyhow::Result<ExitCode> {
    let options = match &arguments.command {
        Command::Show(options) | Command::Explain(options) => options,
        Command::Resources(options) => {
            write!(anstream::stdout().lock(), "{}", resources::show(options, root)?)?;
            return Ok(ExitCode::SUCCESS);
        }
    };
    let asked = if options.front.is_empty() { ask_daemon(root) } else { None };
    let snapshot = match asked {
        Some(snapshot) => snapshot,
        None => look(options, root)?,
    };
    let mut out = anstream::stdout().lock();
    if options.json {
        writeln!(out, "{}", serde_json::to_string(&snapshot)?)?;
    } else if matches!(arguments.command, Command::Show(_)) {
        write!(out, "{}", text::table(&snapshot))?;
    } else {
        write!(out, "{}", text::reasons(&snapshot))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What the daemon says, when there is one that does placement.
pub(super) fn ask_daemon(root: &Root) -> Option<Snapshot> {
    let answer = Connection::open(root).ok()?.request(Request::Placement).ok()?;
    let snapshot: Snapshot = serde_json::from_value(answer).ok()?;
    (snapshot.support.state == SupportState::Active).then_some(snapshot)
}

/// What a daemon would say and do.
fn look(options: &Options, root: &Root) -> anyhow::Result<Snapshot> {
    let mut onlooker = Onlooker::new(root, &options.front)?;
    let until = BootTime::now() + Duration::from_secs(options.seconds);
    while onlooker.can_look() && BootTime::now() < until {
        onlooker.look()?;
        sleep(PERIOD);
    }
    Ok(onlooker.snapshot())
}
