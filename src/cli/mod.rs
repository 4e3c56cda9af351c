//! The command line: one file for each subcommand; it parses its arguments, calls the library and prints.

pub mod boot;
#[cfg(feature = "completions")]
mod completions;
pub mod config;
pub mod control;
pub mod doctor;
#[cfg(feature = "fleet")]
pub mod fleet;
mod help;
#[cfg(feature = "lab")]
pub mod lab;
pub mod launch;
pub mod load;
mod log;
pub mod lookup;
pub mod memory;
#[cfg(feature = "lab")]
mod on;
mod output;
pub mod placement;
pub mod processes;
pub mod prove;
#[cfg(feature = "lab")]
pub mod replay;
pub mod replicate;
pub mod telemetry;
pub mod top;
pub mod trace;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{ColorChoice, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use control::{foreground, restore, setup, status, switch, why};
#[cfg(feature = "lab")]
use lab::{application, soak, task};
use processes::{daemon, grant, guardian, killer};

use brisk_base::notes;
use brisk_daemon::boot::first_process;
#[cfg(feature = "lab")]
use brisk_lab::guest;
use brisk_sys::Root;
use brisk_sys::error::sentence;

/// A responsiveness engine for Android and embedded Linux, and the laboratory that proves it.
#[derive(Debug, Parser)]
#[command(name = "brisk", version, propagate_version = true)]
pub struct Cli {
    /// Use the device tree recorded in FOLDER instead of this system's /proc, /sys and /dev
    #[arg(long, global = true, value_name = "FOLDER", default_value = "/", hide = true)]
    pub root: PathBuf,
    /// Print no progress and no notes
    #[arg(long, short, global = true, display_order = 900)]
    pub quiet: bool,
    /// Colour the output: auto (obeys NO_COLOR), always or never
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        hide_default_value = true,
        hide_possible_values = true,
        display_order = 901
    )]
    pub color: ColorChoice,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands, one file each in this folder.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show what this device supports, what is active, and what it lacks
    Doctor(doctor::Arguments),
    /// Choose which mechanisms are on, and write the configuration
    Setup(setup::Arguments),
    /// Run the daemon, attached to this terminal
    // `run` was its name until version 0.2; users' units and scripts still use it.
    #[command(alias = "run")]
    Daemon(daemon::Arguments),
    /// Show the daemon's state, last decisions and counters
    Status(status::Arguments),
    /// Show what each mechanism does now, and why
    Why(why::Arguments),
    /// Switch a mechanism on, or let brisk decide
    Enable(switch::EnableArguments),
    /// Switch a mechanism off
    Disable(switch::DisableArguments),
    /// Set the processes in the foreground
    Foreground(foreground::Arguments),
    /// Show CPUs, foreground, thread classes, memory and decisions live
    Top(top::Arguments),
    /// Revert changes that a killed brisk left behind
    Restore(restore::Arguments),
    /// Grant the service's user the tunables that it writes (run by its units)
    #[command(hide = true)]
    Grant(grant::Arguments),
    /// Record and diagnose a boot, and boot at full speed
    Boot(boot::Arguments),
    /// Run a command with a launch boost, or watch launches
    Launch(launch::Arguments),
    /// Measure, record and simulate service lookups through binder
    Lookup(lookup::Arguments),
    /// Plan zram and reclaim for this device, and show its headroom
    Memory(memory::Arguments),
    /// Show thread classes, and how background work is deprioritised
    Placement(placement::Arguments),
    /// Record a launch or stall, and split its time into its causes
    Trace(trace::Arguments),
    /// Show why a launch here is slow, and which mechanism would help
    #[cfg(feature = "trace")]
    Diagnose(trace::diagnose::Arguments),
    /// Show, export or delete what is stored for a fleet
    Telemetry(telemetry::Arguments),
    /// Run experiments and write the report
    Prove(prove::Arguments),
    /// Import telemetry of many devices, and ask questions of it
    #[cfg(feature = "fleet")]
    Fleet(fleet::Arguments),
    /// Replay a daemon's recording, also with another configuration
    #[cfg(feature = "lab")]
    Replay(replay::Arguments),
    /// Boot a virtual device: a stock kernel whose CPU frequency can be changed
    #[cfg(feature = "lab")]
    #[command(hide = true)]
    Lab(lab::Arguments),
    /// Launch a CPU load and print its launch time and basic launch time
    #[command(hide = true)]
    Load(load::Arguments),
    /// Check or show the configuration
    Config(config::Arguments),
    /// Print the completion script of a shell
    #[cfg(feature = "completions")]
    Completions(completions::Arguments),
    /// Watch the daemon and revert its changes when it dies (started by the daemon)
    #[command(hide = true)]
    Guardian(guardian::Arguments),
    /// End processes when memory is short (started by the daemon)
    #[command(hide = true)]
    Killer(killer::Arguments),
    /// Run a plan on this device
    #[command(hide = true)]
    Replicate(replicate::Arguments),
    /// Play one application of the laboratory's workload
    #[cfg(feature = "lab")]
    #[command(hide = true)]
    Application(application::Arguments),
    /// Play a program of an experiment about placement
    #[cfg(feature = "lab")]
    #[command(hide = true)]
    Task(task::Arguments),
    /// Kill daemons and guardians at random moments and check that nothing is left changed
    #[cfg(feature = "lab")]
    #[command(hide = true)]
    Soak(soak::Arguments),
}

/// Parses the arguments, runs the subcommand, and turns its outcome into an exit code.
///
/// 0 is success, 1 a clear negative answer, 2 an error; `brisk prove` and `brisk lab` return 69 when the lab failed.
pub fn main() -> ExitCode {
    #[cfg(feature = "lab")]
    if guest::is_first_process() {
        guest::main();
    }
    first_process::become_init();
    let cli = parse();
    if cli.quiet {
        notes::silence();
    }
    color(cli.color).write_global();
    match run(&cli) {
        Ok(code) => code,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("brisk: {}", sentence(error.as_ref()));
            ExitCode::from(2)
        }
    }
}

/// Building the help page takes a quarter of a millisecond, so it is built only when help is requested.
fn parse() -> Cli {
    let is_help = |word: OsString| ["-h", "--help", "help"].iter().any(|it| word == *it);
    let is_help_requested = std::env::args_os().len() < 2 || std::env::args_os().any(is_help);
    let command = if is_help_requested { help::laid_out(help::grouped(Cli::command())) } else { Cli::command() };
    let command = command.color(help::color(std::env::args_os()));
    let matches = command.try_get_matches().unwrap_or_else(|error| exit(&error));
    Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

/// Prints help, the version or what is wrong with the arguments, and ends.
fn exit(error: &clap::Error) -> ! {
    #[cfg(not(feature = "trace"))]
    if error.kind() == clap::error::ErrorKind::InvalidSubcommand {
        // Standard error may be closed.
        let _ = error.print();
        eprintln!("\n{}", help::DEVICE);
        std::process::exit(error.exit_code());
    }
    error.exit()
}

/// Converts the user's choice to anstream's type.
fn color(choice: ColorChoice) -> anstream::ColorChoice {
    match choice {
        ColorChoice::Auto => anstream::ColorChoice::Auto,
        ColorChoice::Always => anstream::ColorChoice::Always,
        ColorChoice::Never => anstream::ColorChoice::Never,
    }
}

/// True when standard output was closed, as by `brisk boot diagnose FOLDER | head`. Errors of other pipes carry a context,
/// so their chain is longer.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let cause = error.downcast_ref::<io::Error>();
    error.chain().len() == 1 && cause.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

fn run(cli: &Cli) -> anyhow::Result<ExitCode> {
    let root = Root::at(&cli.root);
    match &cli.command {
        Command::Doctor(arguments) => doctor::run(arguments, &root),
        Command::Daemon(arguments) => daemon::run(arguments, &root),
        Command::Status(arguments) => status::run(arguments, &root),
        Command::Setup(arguments) => setup::run(arguments, &root),
        Command::Why(arguments) => why::run(arguments, &root),
        Command::Enable(arguments) => switch::enable(arguments, &root),
        Command::Disable(arguments) => switch::disable(arguments, &root),
        Command::Foreground(arguments) => foreground::run(arguments, &root),
        Command::Top(arguments) => top::run(arguments, &root),
        Command::Restore(arguments) => restore::run(arguments, &root),
        Command::Grant(arguments) => grant::run(arguments, &root),
        Command::Boot(arguments) => boot::run(arguments, &root),
        Command::Launch(arguments) => launch::run(arguments, &root),
        Command::Lookup(arguments) => lookup::run(arguments, &root),
        Command::Memory(arguments) => memory::run(arguments, &root),
        Command::Placement(arguments) => placement::run(arguments, &root),
        Command::Trace(arguments) => trace::run(arguments, &root),
        #[cfg(feature = "trace")]
        Command::Diagnose(arguments) => trace::diagnose::run(arguments, &root),
        Command::Telemetry(arguments) => telemetry::run(arguments, &root),
        Command::Prove(arguments) => prove::run(arguments, &root),
        #[cfg(feature = "fleet")]
        Command::Fleet(arguments) => fleet::run(arguments),
        #[cfg(feature = "lab")]
        Command::Replay(arguments) => replay::run(arguments),
        #[cfg(feature = "lab")]
        Command::Lab(arguments) => lab::run(arguments, &root),
        Command::Load(arguments) => load::run(arguments),
        Command::Config(arguments) => config::run(arguments, &root),
        #[cfg(feature = "completions")]
        Command::Completions(arguments) => completions::run(arguments),
        Command::Guardian(arguments) => guardian::run(arguments, &root),
        Command::Killer(arguments) => killer::run(arguments, &root),
        Command::Replicate(arguments) => replicate::run(arguments, &root),
        #[cfg(feature = "lab")]
        Command::Application(arguments) => application::run(arguments),
        #[cfg(feature = "lab")]
        Command::Task(arguments) => task::run(arguments),
        #[cfg(feature = "lab")]
        Command::Soak(arguments) => soak::run(arguments, &root),
    }
}
