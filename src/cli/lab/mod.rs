//! `brisk lab`: the virtual device.

pub(super) mod application;
pub(super) mod binder;
mod causes;
pub mod soak;
pub(super) mod task;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anstream::{println, stdout};
use anyhow::Context;
use clap::{Args, Subcommand};

use crate::cli::output;
use brisk_experiment::runner::network::slow_down;
use brisk_experiment::spec::NetworkQueue;
use brisk_lab::describe::Description;
use brisk_lab::{Channel, EXIT_LAB_FAILED, GuestFile, GuestLine, Job, RunOutcome, Scenario};
use brisk_sys::Root;

/// Arguments of `brisk lab`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Debug, Subcommand)]
enum LabCommand {
    /// Boot a scenario and run a command in it
    Run(RunArguments),
    /// Boot a scenario with a shell; `exit` powers it off
    Shell(ShellArguments),
    /// List brisk's scenarios
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Run a context manager like Android 5's on a binder device
    #[command(hide = true)]
    ContextManager(binder::ManagerArguments),
    /// Register services that do nothing, and keep running
    #[command(hide = true)]
    Services(binder::ServicesArguments),
    /// Run random programs against the binder driver and print what they see
    #[command(hide = true)]
    BinderPrograms(binder::ProgramsArguments),
    /// Open applications as Android does, a request a line on standard input
    #[command(hide = true)]
    ActivityManager {
        /// Iterations of the work loop in a millisecond
        #[arg(long, value_name = "N")]
        turns_per_ms: u64,
    },
    /// Spend time on known causes, and print how long each took
    #[command(hide = true)]
    Causes(causes::Arguments),
    /// Make the loopback interface of this device a slow link
    #[command(hide = true)]
    SlowLink {
        /// Its rate in kbit/s
        #[arg(long, value_name = "N", default_value_t = 8000)]
        rate_kbit: u32,
        /// The queueing discipline before it: pfifo_fast or fq_codel
        #[arg(long, value_name = "NAME", default_value = "pfifo_fast", value_parser = NetworkQueue::of_name)]
        queue: NetworkQueue,
    },
    /// Print the facts of this device as JSON
    #[command(hide = true)]
    Describe,
    /// Run the guest's command under systemd, then power off
    #[command(hide = true)]
    Job,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The command's stdout goes to stdout; the guest's console and the command's stderr go to stderr.

Exit code: the command's; 2 for an invalid scenario or argument; 69 when the lab failed.

Examples:
  brisk lab run debian-6.1
  brisk lab run debian-6.1 -- brisk doctor
  brisk lab run debian-6.1 --busybox -- sh -c 'cat /proc/version'
  brisk lab run ./my-board.toml --file plan.json=/plan.json -- cat /plan.json")]
struct RunArguments {
    /// A scenario's name, or the path of a .toml file
    scenario: String,
    /// Stop after this much host time, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..))]
    timeout: u64,
    /// Pin the virtual machine to one CPU of this host
    #[arg(long, value_name = "CPU")]
    core: Option<usize>,
    /// Add BusyBox and its applets to the guest
    #[arg(long)]
    busybox: bool,
    /// Copy a file of this host into the guest
    #[arg(long = "file", value_name = "HOST=GUEST")]
    files: Vec<FileArgument>,
    /// The command; without one, the guest describes itself
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

#[derive(Debug, Args)]
struct ShellArguments {
    /// A scenario's name, or the path of a .toml file
    scenario: String,
    /// Stop after this much host time, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 86_400, value_parser = clap::value_parser!(u64).range(1..))]
    timeout: u64,
}

/// `HOST=GUEST`.
#[derive(Debug, Clone)]
struct FileArgument {
    host: PathBuf,
    guest: String,
}

impl std::str::FromStr for FileArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.rsplit_once('=') {
            Some((host, guest)) if guest.starts_with('/') && !host.is_empty() => {
                Ok(Self { host: host.into(), guest: guest.into() })
            }
            _ => Err("expected HOST=GUEST, with GUEST absolute".into()),
        }
    }
}

/// Runs `brisk lab`.
///
/// # Errors
/// When a scenario or a file cannot be read. A failure of the lab is exit status 69 instead.
pub fn run(arguments: &Arguments, root: &Root) -> anyhow::Result<ExitCode> {
    match &arguments.command {
        LabCommand::Run(arguments) => boot(&job_to_run(arguments)?),
        LabCommand::Shell(arguments) => {
            let mut job = Job::new(Scenario::load(&arguments.scenario)?, ["/bin/sh"]);
            job.timeout = Duration::from_secs(arguments.timeout);
            job.interactive = true;
            boot(&job)
        }
        LabCommand::List { json } => list(*json),
        LabCommand::ContextManager(arguments) => binder::manage(arguments),
        LabCommand::Services(arguments) => binder::serve(arguments),
        LabCommand::BinderPrograms(arguments) => binder::run_programs(arguments, root),
        LabCommand::ActivityManager { turns_per_ms } => {
            brisk_lab::activity_manager::run(std::io::stdin().lock(), &mut std::io::stdout(), *turns_per_ms)?;
            Ok(ExitCode::SUCCESS)
        }
        LabCommand::Causes(arguments) => causes::run(arguments, root),
        LabCommand::SlowLink { rate_kbit, queue } => {
            slow_down(*rate_kbit, *queue)?;
            Ok(ExitCode::SUCCESS)
        }
        LabCommand::Describe => {
            writeln!(stdout(), "{}", serde_json::to_string_pretty(&Description::read(root))?)?;
            Ok(ExitCode::SUCCESS)
        }
        LabCommand::Job => brisk_lab::guest::main_of_service(),
    }
}

fn job_to_run(arguments: &RunArguments) -> anyhow::Result<Job> {
    let scenario = Scenario::load(&arguments.scenario)?;
    let mut job = if arguments.command.is_empty() {
        Job::new(scenario, ["brisk", "lab", "describe"])
    } else {
        Job::new(scenario, arguments.command.iter().cloned())
    };
    job.timeout = Duration::from_secs(arguments.timeout);
    job.core = arguments.core;
    job.busybox = arguments.busybox;
    for FileArgument { host, guest } in &arguments.files {
        let contents = std::fs::read(host).with_context(|| format!("cannot read {}", host.display()))?;
        job.files.push(GuestFile { path: guest.clone(), contents, mode: 0o755 });
    }
    Ok(job)
}

fn boot(job: &Job) -> anyhow::Result<ExitCode> {
    let mut show = |line: GuestLine| match line.channel {
        Channel::Results => println!("{}", line.text),
        Channel::Console => eprintln!("{}", line.text),
    };
    match brisk_lab::run(job, &mut show) {
        Ok(outcome) => {
            report(&outcome);
            Ok(ExitCode::from(outcome.status))
        }
        Err(error) => {
            eprintln!("brisk: {error}");
            Ok(ExitCode::from(EXIT_LAB_FAILED))
        }
    }
}

fn report(outcome: &RunOutcome) {
    let check =
        outcome.self_check.as_ref().map_or_else(String::new, |check| format!("; self-check: {}", check.figures()));
    eprintln!(
        "brisk: {} ended after {:.1} s with status {}{check}",
        outcome.kernel,
        outcome.wall.as_secs_f64(),
        outcome.status
    );
}

fn list(json: bool) -> anyhow::Result<ExitCode> {
    let scenarios = Scenario::all().collect::<Result<Vec<_>, _>>()?;
    if json {
        let describe = |scenario: &Scenario| {
            serde_json::json!({
                "name": scenario.name,
                "title": scenario.title,
                "architecture": scenario.kernel.architecture,
                "mode": scenario.machine.mode,
                "cpus": scenario.machine.cpus,
                "memory_mib": scenario.machine.memory_mib,
            })
        };
        writeln!(stdout(), "{}", serde_json::to_string_pretty(&scenarios.iter().map(describe).collect::<Vec<_>>())?)?;
    } else {
        let width = scenarios.iter().map(|scenario| scenario.name.len()).max().unwrap_or(0);
        let line = |scenario: &Scenario| format!("{:width$}  {}\n", scenario.name, scenario.title);
        output::print_text(&scenarios.iter().map(line).collect::<String>())?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use brisk_lab::EXIT_LAB_FAILED;
    use brisk_report::status::Status;

    #[test]
    fn lab_and_report_share_the_exit_status_of_a_failed_lab() {
        assert_eq!(Status::LabFailed.exit_code(), EXIT_LAB_FAILED);
    }
}
