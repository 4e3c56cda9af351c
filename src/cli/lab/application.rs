//! `brisk application`: plays one application of the laboratory's workload. Started by experiments.

use std::fs::File;
use std::io::stdin;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::Context;

use brisk_experiment::applications::Applications;
use brisk_experiment::applications::simulate::{Services, SimulatedApplication};
use brisk_experiment::lookup::Client;
use brisk_mechanism::lookup::services::names;
use brisk_sys::binder::WireFormat;

/// Arguments of `brisk application`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The application's index in the workload, from 0
    #[arg(long, value_name = "N")]
    number: usize,
    /// Seed the contents of its memory
    #[arg(long, value_name = "N")]
    seed: u64,
    /// Iterations of the work loop in a millisecond
    #[arg(long, value_name = "N")]
    turns_per_ms: u64,
    /// The device or file that holds the framework and the applications' files
    #[arg(long, value_name = "FILE")]
    storage: PathBuf,
    /// Allocate more and more memory instead, and print a line at every MiB
    #[arg(long)]
    grow: bool,
    /// Look up this many services at each opening
    #[arg(long, value_name = "N", requires_all = ["services", "binder", "format"])]
    lookups: Option<usize>,
    /// The number of registered services
    #[arg(long, value_name = "N")]
    services: Option<usize>,
    /// The binder device
    #[arg(long, value_name = "FILE")]
    binder: Option<PathBuf>,
    /// The context manager's wire format
    #[arg(long, value_name = "NAME")]
    format: Option<String>,
    /// Print `held`, and execute itself without this option after the first line on standard input
    #[arg(long)]
    held: bool,
}

/// Plays until standard input ends.
///
/// # Errors
/// When the storage cannot be read, or memory cannot be allocated.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    if arguments.held {
        return wait_for_start();
    }
    let workload = Applications::standard()?;
    let count = workload.list.len();
    anyhow::ensure!(arguments.number < count, "there are applications 0 to {}", count - 1);
    // The kernel and programs that list processes show this name.
    let name = std::ffi::CString::new(workload.list[arguments.number].name.as_str())?;
    rustix::thread::set_name(&name)?;
    let path = &arguments.storage;
    let storage = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let Arguments { number, seed, turns_per_ms, .. } = *arguments;
    let services = services(arguments)?;
    let mut application =
        SimulatedApplication { workload: &workload, number, seed, turns_per_ms, storage: &storage, services };
    if arguments.grow {
        application.grow()?;
    } else {
        application.play()?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The services that the application looks up; `None` when it looks up none.
fn services(arguments: &Arguments) -> anyhow::Result<Option<Services>> {
    let Arguments { lookups: Some(count), services: Some(services), binder: Some(device), format: Some(name), .. } =
        arguments
    else {
        return Ok(None);
    };
    let format = WireFormat::named(name).with_context(|| format!("there is no wire format {name:?}"))?;
    let client = Client::open(device, format)?;
    Ok(Some(Services { client, code: format.check_code(), names: names(*services), count: *count }))
}

/// Waits until the process that started this one has finished its set-up, then executes the application alone.
fn wait_for_start() -> anyhow::Result<ExitCode> {
    println!("held");
    // Byte by byte, to read no more than the line: taps follow on the same pipe.
    let mut byte = [0];
    while byte != *b"\n" {
        anyhow::ensure!(
            rustix::io::read(stdin(), &mut byte)? == 1,
            "standard input ended before the application was told to begin"
        );
    }
    let arguments = std::env::args_os().skip(1).filter(|word| word != "--held");
    let error = Command::new("/proc/self/exe").args(arguments).exec();
    Err(error).context("cannot execute this program again")
}
