//! `brisk lookup bench`: the cost of a lookup on this device.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

use anstyle::Style;
use anyhow::{Context, bail};
use serde::Serialize;

use super::context::ContextArguments;
use brisk_experiment::lookup::{Client, LookupProcesses, Lookups, Manager, Measured, Steps, Summary};
use brisk_mechanism::lookup::services::names;
use brisk_sys::Root;

/// The number of the JSON schema.
const SCHEMA: u32 = 1;

/// Arguments of `brisk lookup bench`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A client without libbinder looks services up by their popularity, each with one ioctl of the driver. It
counts nanoseconds, or instructions under an emulator that counts them. As root it also times each step,
by the driver's trace events.

With --manager it measures its own context manager, on a device that has none yet. Without --manager it
measures the running one, with the services that it lists.

Examples:
  brisk lookup bench --format android-14
  brisk lookup bench --manager own --services 100 --format android-5
  brisk lab run binder-stock-6.1 -- brisk lookup bench --manager own")]
pub struct Arguments {
    #[command(flatten)]
    context: ContextArguments,
    /// Start a context manager first: `own` (a linear list, like Android 5's), `cooperating` (the
    /// same, with answers that the driver may cache), or a command
    #[arg(long, value_name = "COMMAND", value_parser = manager)]
    manager: Option<Manager>,
    /// Register this many services with it
    #[arg(long, value_name = "N", default_value_t = 100, requires = "manager")]
    services: usize,
    /// Measure this many lookups, after one lookup of each service
    #[arg(long, alias = "lookups", value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(100..))]
    lookups: u32,
    /// Seed the order of the names
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    schema: u32,
    device: String,
    format: &'a str,
    #[serde(flatten)]
    measured: Measured,
    /// The steps of a call; `None` when no call reached a manager, or the driver's events are not available.
    steps: Option<Steps>,
}

fn manager(text: &str) -> Result<Manager, String> {
    match text.trim() {
        "" => Err("no command".into()),
        "own" | "cooperating" if cfg!(not(feature = "lab")) => {
            Err("this build for devices lacks the lab's context manager; name a command".into())
        }
        command => Ok(Manager::named(command)),
    }
}

/// Measures and prints.
///
/// # Errors
/// When there is no binder device or no context manager, or the manager does not use the format.
pub fn run(arguments: &Arguments, root: &Root) -> anyhow::Result<ExitCode> {
    let ContextArguments { device, format } = &arguments.context;
    let processes =
        arguments.manager.as_ref().map(|manager| LookupProcesses::start(device, format, manager, arguments.services));
    let _processes = processes.transpose()?;
    let mut client = Client::open(device, format)?;
    let names = match &arguments.manager {
        Some(_) => names(arguments.services),
        None => client.list().with_context(|| {
            format!("cannot list the services of {} as {} (see --format)", device.display(), format.name)
        })?,
    };
    if names.is_empty() {
        bail!("no service is registered on {}", device.display());
    }
    let plan =
        Lookups { code: format.check_code(), names: &names, count: arguments.lookups as usize, seed: arguments.seed };
    let measured = plan.measure(&mut client)?;
    let steps = plan.steps(&mut client, root)?;
    let report = Report { schema: SCHEMA, device: device.display().to_string(), format: &format.name, measured, steps };
    let mut out = anstream::stdout().lock();
    if arguments.json {
        writeln!(out, "{}", serde_json::to_string(&report)?)?;
    } else {
        write!(out, "{}", table(&report))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn table(report: &Report<'_>) -> String {
    const BOLD: Style = Style::new().bold();
    const NAME_WIDTH: usize = 34;
    let Measured { unit, lookups, services, .. } = &report.measured;
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{lookups} lookups over {services} services of {} ({}), in {}\n",
        report.device,
        report.format,
        unit.label()
    );
    let _ = writeln!(text, "{BOLD}{:NAME_WIDTH$}{:>10}{:>10}{BOLD:#}", "", "p50", "p99");
    let mut row = |name: &str, figures: &Summary| {
        let _ = writeln!(text, "{name:NAME_WIDTH$}{:>10.0}{:>10.0}", figures.p50, figures.p99);
    };
    row("request, in user space", &report.measured.request);
    row("lookup, one ioctl of the driver", &report.measured.call);
    if let Some(steps) = &report.steps {
        row("  1  into the driver", &steps.entry);
        row("  2  to the context manager", &steps.switch);
        row("  2  the manager's search", &steps.search);
        row("  3  the caller is found", &steps.caller);
        match &steps.added {
            Some(added) => {
                row("  4  the reference is found", &steps.reference);
                row("  5  and added to the client", added);
            }
            None => row("  4, 5  the reference", &steps.reference),
        }
        row("     back to the client", &steps.back);
    }
    row("answer, in user space", &report.measured.answer);
    let floors = &report.measured.floors;
    let _ = writeln!(text, "{:NAME_WIDTH$}{:>10.0}", "floor: an empty call", floors.empty_call);
    let _ = writeln!(text, "{:NAME_WIDTH$}{:>10.0}", "floor: one pair of references", floors.reference_pair);
    let note = match &report.steps {
        Some(steps) => format!(
            "Steps, numbered as in the paper (the request is of step 1): {} lookups recorded by trace events;\n\
             their own cost ({:.0} each) is subtracted.",
            steps.lookups, steps.event_cost
        ),
        None => "Steps: none; they need root, binder's trace events with the clock x86-tsc, and lookups that reach the manager."
            .to_owned(),
    };
    let _ = writeln!(text, "\n{note}");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manager_is_a_known_name_or_a_command() {
        for (text, expected) in [
            ("own", Manager::Own { cooperate: false }),
            ("cooperating", Manager::Own { cooperate: true }),
            ("/bin/rsb_hub -d binder", Manager::Program(vec!["/bin/rsb_hub".into(), "-d".into(), "binder".into()])),
        ] {
            let is_there = cfg!(feature = "lab") || matches!(expected, Manager::Program(_));
            assert_eq!(manager(text).ok(), is_there.then_some(expected));
        }
        assert!(manager("").is_err());
    }
}
