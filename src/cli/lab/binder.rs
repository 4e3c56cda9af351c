//! `brisk lab context-manager`, `services` and `binder-programs`: the lab's context manager, the services that it registers,
//! and random programs that must see the same with two drivers.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;

use crate::cli::lookup::context::{ContextArguments, wire_format};
use brisk_base::work::Work;
use brisk_experiment::lookup::{LookupProcesses, Manager};
use brisk_lab::binder::{ContextManager, programs, register_and_serve};
use brisk_mechanism::lookup::services::names;
use brisk_sys::Root;
use brisk_sys::binder::WireFormat;
use brisk_sys::binder::cache::{self, CacheSettings, CacheStatus};

/// What these programs print once they are ready.
pub const READY: &str = "ready";

/// Arguments of `brisk lab context-manager`.
#[derive(Debug, Args)]
#[command(after_help = "Prints `ready` and runs until it is killed.")]
pub struct ManagerArguments {
    #[command(flatten)]
    context: ContextArguments,
    /// Let the driver cache answers for every caller that is not isolated
    #[arg(long)]
    cooperate: bool,
    /// Work for N turns of a loop before each answer
    #[arg(long, value_name = "N", default_value_t = 0)]
    turns: u64,
}

/// Arguments of `brisk lab services`.
#[derive(Debug, Args)]
#[command(after_help = "Prints `ready` once all are registered, and runs until it is killed.")]
pub struct ServicesArguments {
    #[command(flatten)]
    context: ContextArguments,
    /// The number of services
    #[arg(long, value_name = "N", default_value_t = 100)]
    count: usize,
}

/// Arguments of `brisk lab binder-programs`.
#[derive(Debug, Args)]
pub struct ProgramsArguments {
    /// The wire format of the context managers
    #[arg(long, value_name = "FORMAT", default_value = "android-16", value_parser = wire_format)]
    format: &'static WireFormat,
    /// The first program's seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The number of programs
    #[arg(long, value_name = "N", default_value_t = 1)]
    programs: u64,
    /// Steps of each program
    #[arg(long, value_name = "N", default_value_t = 200)]
    steps: usize,
    /// The mode of the driver's cache; a stock driver has none
    #[arg(long)]
    mode: Option<String>,
    /// The policy of the driver's cache
    #[arg(long, requires = "mode")]
    policy: Option<String>,
    /// Print the programs' transcripts as well as their digests
    #[arg(long)]
    transcript: bool,
}

/// Serves a context.
///
/// # Errors
/// When the context already has a manager, or the driver fails.
pub fn manage(arguments: &ManagerArguments) -> anyhow::Result<ExitCode> {
    let ManagerArguments { context, cooperate, turns } = arguments;
    let work = Work::of_turns(*turns);
    match ContextManager::run(&context.device, context.format, *cooperate, work, &mut say_ready)? {}
}

/// Registers services and serves them.
///
/// # Errors
/// When there is no context manager, or it refuses.
pub fn serve(arguments: &ServicesArguments) -> anyhow::Result<ExitCode> {
    let ServicesArguments { context, count } = arguments;
    match register_and_serve(&context.device, context.format, &names(*count), &mut say_ready)? {}
}

fn say_ready() {
    // This fails only when no process reads it, and nothing else depends on it.
    let _ = writeln!(std::io::stdout(), "{READY}").and_then(|()| std::io::stdout().flush());
}

/// Runs random programs and prints a digest of each transcript, then how many lookups the driver's cache answered.
///
/// # Errors
/// When there are no binder devices, or the caller is not root.
pub fn run_programs(arguments: &ProgramsArguments, root: &Root) -> anyhow::Result<ExitCode> {
    let ProgramsArguments { format, seed, steps, .. } = *arguments;
    let mut files = BTreeMap::new();
    files.extend(arguments.mode.clone().map(|mode| ("mode".to_owned(), mode)));
    files.extend(arguments.policy.clone().map(|policy| ("policy".to_owned(), policy)));
    let manager = Manager::Own { cooperate: arguments.mode.as_deref() == Some("cooperative") };
    for device in programs::devices() {
        // Some actors of the programs are not root.
        fs::set_permissions(device, Permissions::from_mode(0o666)).context("cannot open the device to all users")?;
        let context = device.file_name().unwrap_or_default().to_string_lossy();
        let profile = format.transparent_profile();
        CacheSettings { root, context: &context, files: &files, profile }.apply()?;
    }
    let mut processes: Vec<Option<LookupProcesses>> = programs::devices().map(|_| None).collect();
    let mut restart = |which: Option<usize>| -> anyhow::Result<()> {
        for (index, device) in programs::devices().enumerate().filter(|(index, _)| which.is_none_or(|it| it == *index))
        {
            processes[index] = None;
            processes[index] = Some(LookupProcesses::start_manager(device, format, &manager)?);
        }
        Ok(())
    };
    let mut out = std::io::stdout().lock();
    let mut lookups = 0;
    for seed in seed..seed + arguments.programs {
        let outcome = programs::run(seed, steps, format, &mut restart)?;
        if arguments.transcript {
            write!(out, "{}", outcome.transcript)?;
        }
        writeln!(out, "program {seed} {:016x}", programs::digest(&outcome.transcript))?;
        lookups += outcome.lookups;
    }
    let hits = |status: &CacheStatus| status.counters.get("hits").copied().unwrap_or(0);
    let answered: u64 = cache::status(root).unwrap_or_default().iter().map(hits).sum();
    let share = 100.0 * answered as f64 / lookups.max(1) as f64;
    writeln!(out, "hits {answered} of {lookups} lookups, {share:.0} %")?;
    Ok(ExitCode::SUCCESS)
}
