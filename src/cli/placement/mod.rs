//! `brisk placement`: thread classes, and how background work is deprioritised.

mod resources;
pub(super) mod sampler;
mod text;

use std::io::Write as _;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use crate::cli::output;
use brisk_daemon::control::connection::Connection;
use brisk_daemon::control::protocol::Request;
use brisk_mechanism::SupportState;
use brisk_mechanism::placement::PlacementSnapshot;
use brisk_sys::{BootTime, Root};
use sampler::Sampler;

/// The sampling period.
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
    /// Show each thread's class, demand, run-queue delay and bursts
    Show(Options),
    /// Explain what is done for the foreground, thread by thread
    Explain(Options),
    /// Show the CPU, memory, storage and GPU use of each process
    Resources(resources::Options),
}

/// Options of `brisk placement show` and `explain`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
If the daemon does placement, its state is shown. Otherwise this command samples threads for --seconds
and shows what a daemon would do; it changes nothing.

light        short bursts with deadlines, or asleep: never deprioritised
interactive  neither light nor bulk
bulk         CPU-bound: deprioritised where that helps the foreground

Demand is CPU time divided by the time in which the thread did not wait for a CPU.

Examples:
  brisk placement show                        all threads that are awake
  brisk placement explain --foreground 1234   with 1234 in the foreground
  brisk placement show --json                 the same for programs")]
struct Options {
    /// Treat this process as the foreground, without asking a daemon; may be repeated
    #[arg(long, alias = "front", value_name = "PID")]
    foreground: Vec<u32>,
    /// Sample for this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs `brisk placement`.
///
/// # Errors
/// When the configuration is invalid, threads cannot be sampled, or standard output cannot be written.
pub fn run(arguments: &Arguments, root: &Root) -> anyhow::Result<ExitCode> {
    let options = match &arguments.command {
        Command::Show(options) | Command::Explain(options) => options,
        Command::Resources(options) => {
            write!(anstream::stdout().lock(), "{}", resources::show(options, root)?)?;
            return Ok(ExitCode::SUCCESS);
        }
    };
    let asked = if options.foreground.is_empty() { ask_daemon(root) } else { None };
    let snapshot = match asked {
        Some(snapshot) => snapshot,
        None => sample(options, root)?,
    };
    if options.json {
        writeln!(anstream::stdout(), "{}", serde_json::to_string(&snapshot)?)?;
    } else if matches!(arguments.command, Command::Show(_)) {
        output::print_text(&text::table(&snapshot))?;
    } else {
        output::print_text(&text::reasons(&snapshot))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The daemon's state; `None` without a daemon that does placement.
pub(super) fn ask_daemon(root: &Root) -> Option<PlacementSnapshot> {
    let answer = Connection::open(root).ok()?.request(Request::Placement).ok()?;
    let snapshot: PlacementSnapshot = serde_json::from_value(answer).ok()?;
    (snapshot.support.state == SupportState::Active).then_some(snapshot)
}

/// The state that a daemon would have after `options.seconds`.
fn sample(options: &Options, root: &Root) -> anyhow::Result<PlacementSnapshot> {
    let mut sampler = Sampler::new(root, &options.foreground)?;
    let until = BootTime::now() + Duration::from_secs(options.seconds);
    while sampler.can_sample() && BootTime::now() < until {
        sampler.sample()?;
        sleep(PERIOD);
    }
    Ok(sampler.snapshot())
}
