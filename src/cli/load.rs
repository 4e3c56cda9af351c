//! `brisk load`: the application that experiments launch.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;

#[cfg(feature = "lab")]
use crate::cli::lookup::context::ContextArguments;
use brisk_experiment::load::{Load, print_and_wait, turns_per_ms};
#[cfg(feature = "lab")]
use brisk_experiment::lookup::{Client, Lookups};
#[cfg(feature = "lab")]
use brisk_mechanism::lookup::services::names;
use brisk_sys::BootTime;

/// Launch a CPU load and print its launch time and basic launch time
#[derive(Debug, Args)]
pub struct Arguments {
    /// CPU time of the launch at the highest frequency, in milliseconds
    #[arg(long, value_name = "N")]
    work_ms: u32,
    /// The part of it that every application needs to start, on one thread
    #[arg(long, value_name = "N", default_value_t = 0)]
    start_up_ms: u32,
    /// Threads that do the rest; each does all of it
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: u32,
    /// Work in bursts of this length, with a wait after each
    #[arg(long, value_name = "N", requires = "wait_ms", value_parser = clap::value_parser!(u32).range(1..))]
    burst_ms: Option<u32>,
    /// The length of that wait
    #[arg(long, value_name = "N", requires = "burst_ms")]
    wait_ms: Option<u32>,
    /// Iterations of the work loop in a millisecond; by default measured first, at the present frequency
    #[arg(long, value_name = "N")]
    turns_per_ms: Option<u64>,
    /// Services to look up before the work
    #[cfg(feature = "lab")]
    #[command(flatten)]
    services: ServiceArguments,
    /// Fill so much memory meanwhile, evenly over the work
    #[cfg(feature = "lab")]
    #[arg(long, value_name = "KIB", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=1 << 30))]
    fill_kib: u64,
    /// Print one JSON line with the time of the first screen
    #[arg(long)]
    json: bool,
    /// Keep running after the first screen, until stdin ends
    #[arg(long)]
    stay: bool,
}

/// The services that the application looks up.
#[cfg(feature = "lab")]
#[derive(Debug, Args)]
struct ServiceArguments {
    /// Look services up so often before the work
    #[arg(long, value_name = "N", default_value_t = 0)]
    lookups: usize,
    /// The number of registered services
    #[arg(long, value_name = "N", default_value_t = 100)]
    services: usize,
    /// Seed the order of the names
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    context: ContextArguments,
}

#[cfg(feature = "lab")]
impl ServiceArguments {
    fn look_up(&self) -> anyhow::Result<()> {
        if self.lookups > 0 {
            let (ContextArguments { device, format }, names) = (&self.context, names(self.services));
            let lookups = Lookups { code: format.check_code(), names: &names, count: self.lookups, seed: self.seed };
            lookups.run(&mut Client::open(device, format)?, 0)?;
        }
        Ok(())
    }
}

/// Runs the load and prints its launch time.
///
/// # Errors
/// When a thread cannot be started or stdout cannot be written.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let turns_per_ms = arguments.turns_per_ms.unwrap_or_else(turns_per_ms);
    let Arguments { work_ms, start_up_ms, threads, .. } = *arguments;
    let started = BootTime::now();
    let bursts = arguments.burst_ms.zip(arguments.wait_ms);
    #[cfg(feature = "lab")]
    arguments.services.look_up()?;
    let load = Load {
        work_ms,
        start_up_ms,
        threads,
        turns_per_ms,
        bursts,
        #[cfg(feature = "lab")]
        fill_kib: arguments.fill_kib,
    };
    let screen = load.run()?;
    if arguments.json {
        let stay: &mut dyn io::Read = if arguments.stay { &mut io::stdin() } else { &mut io::empty() };
        print_and_wait(&screen, stay)?;
    } else {
        let (launch_ms, basic_ms) = (screen.launch_ms(started), screen.basic_ms(started));
        writeln!(io::stdout(), "launch {launch_ms:.3} ms, basic launch {basic_ms:.3} ms")?;
    }
    Ok(ExitCode::SUCCESS)
}
