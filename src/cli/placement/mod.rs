//! `brisk placement`: what every thread is to the others, and what is done for what is in front.

mod text;

use std::io::Write as _;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use anyhow::Context as _;

use crate::config::layers::Layers;
use crate::device::threads::Threads;
use crate::device::{BootTime, Root, hotplug, thread_facts};
use crate::engine::control::connection::Connection;
use crate::engine::control::protocol::Request;
use crate::mechanism::placement::{PlacementPolicy, Snapshot, probe};
use crate::mechanism::{Event, Mechanism as _, Process, SupportState};

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
    /// Say what is done for what is in front, and why, for each thread that counts
    Explain(Options),
}

/// Options of both.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The daemon is asked where it does placement. Otherwise threads are looked at from here for a
while, and what is said is what a daemon would do; nothing is changed.

light        short bursts that must come in time, or asleep: never demoted
interactive  neither
bulk         takes what it can get: makes room for what is in front, where that helps

Demand is what a thread runs of the time that it does not wait for a CPU.

Examples:
  brisk placement show                   everybody who is awake
  brisk placement explain --front 1234   what would be done for process 1234
  brisk placement show --json            the same for a program")]
struct Options {
    /// Take this process for what is in front, and look from here; may be given more than once
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
    let (Command::Show(options) | Command::Explain(options)) = &arguments.command;
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
fn ask_daemon(root: &Root) -> Option<Snapshot> {
    let answer = Connection::open(root).ok()?.request(Request::Placement).ok()?;
    let snapshot: Snapshot = serde_json::from_value(answer).ok()?;
    (snapshot.support.state == SupportState::Active).then_some(snapshot)
}

/// What a daemon would say and do.
fn look(options: &Options, root: &Root) -> anyhow::Result<Snapshot> {
    let mut config = Layers::read(root)?.config.placement;
    config.enabled = true;
    let machine = probe::machine(root);
    let support = probe::support(root, &config, &machine);
    let period = Duration::from_millis(config.look_ms);
    let mut policy = PlacementPolicy::new(config, support, machine);
    let mut threads = Threads::new(root);
    // What would be done is in the snapshot.
    let mut decisions = Vec::new();
    let processes = options.front.iter().map(|&pid| Process { pid, ..Process::default() }).collect();
    policy.on_event(BootTime::now(), &Event::Foreground { processes }, &mut decisions);
    let until = BootTime::now() + Duration::from_secs(options.seconds);
    while policy.support().state == SupportState::Active && BootTime::now() < until {
        let now = BootTime::now();
        let look = threads.look(now).context("threads cannot be looked at")?;
        let facts = policy.unknown().iter().filter_map(|&tid| thread_facts::of(root, tid).ok()).collect();
        let online = hotplug::online(root).unwrap_or_default();
        policy.on_event(now, &Event::Threads { look, facts, online }, &mut decisions);
        sleep(period);
    }
    Ok(policy.snapshot())
}
