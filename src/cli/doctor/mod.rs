//! `brisk doctor`: what this device supports, what is active, and what to do about the rest. It never fails on a broken
//! device: what is broken is what it reports.

pub mod facts;
mod text;

use std::io::IsTerminal;
use std::process::ExitCode;

use serde::Serialize;

use crate::cli::answer;
use brisk_config::{Config, Layers, Standing, standings};
use brisk_daemon::control::connection::Connection;
use brisk_daemon::control::protocol::Request;
use brisk_daemon::status::Status;
use brisk_experiment::reboots;
use brisk_mechanism::{Job, Support, SupportState, boot, launch, lookup, memory, placement};
use brisk_sys::Root;
use brisk_sys::system::other_managers::{self, Found};
use facts::DeviceReport;

/// The number of the JSON schema.
const SCHEMA: u32 = 1;

/// Arguments of `brisk doctor`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
States:
  unsupported  the kernel or the device lacks something
  available    it could work, but is off
  active       it works now

Examples:
  brisk doctor          show what this device offers
  sudo brisk doctor     show it with the rights that the daemon has
  brisk doctor --json   print one JSON object")]
pub struct Arguments {
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Everything that doctor says.
#[derive(Debug, Serialize)]
struct Report {
    schema: u32,
    brisk: &'static str,
    device: DeviceReport,
    mechanisms: Vec<MechanismReport>,
    /// What a daemon under the configuration switches on here, and why.
    enabled: Vec<Standing>,
    /// Programs of others that do the job of a mechanism.
    other_managers: Vec<OtherManagerReport>,
    /// What is wrong with the configuration; the mechanisms are then judged by the defaults.
    #[serde(skip_serializing_if = "Option::is_none")]
    configuration_fault: Option<String>,
}

#[derive(Debug, Serialize)]
struct MechanismReport {
    name: &'static str,
    #[serde(flatten)]
    support: Support,
}

/// A program of others that does the job of a mechanism.
#[derive(Debug, Serialize)]
struct OtherManagerReport {
    #[serde(flatten)]
    found: Found,
    does: String,
    mechanism: &'static str,
}

/// Looks at the device and prints what it found; always exit 0, because a device that offers nothing is an answer.
///
/// # Errors
/// When standard output cannot be written.
pub fn run(arguments: &Arguments, root: &Root) -> anyhow::Result<ExitCode> {
    let report = Report::of(root);
    let width = if std::io::stdout().is_terminal() { terminal_width() } else { text::DEFAULT_WIDTH };
    answer::print(&report, arguments.json, |report| text::render(report, width))?;
    Ok(ExitCode::SUCCESS)
}

fn terminal_width() -> usize {
    rustix::termios::tcgetwinsize(std::io::stdout())
        .map_or(text::DEFAULT_WIDTH, |size| usize::from(size.ws_col).max(40))
}

impl Report {
    fn of(root: &Root) -> Self {
        let mut device = DeviceReport::of(root);
        let (config, configuration_fault) = match Layers::read(root) {
            Ok(layers) => (layers.config, None),
            Err(error) => (Config::default(), Some(root.as_on_device(&error.to_string()))),
        };
        device.interfaces.extend(facts::writeback(root, &config.memory.zram.backing_device));
        let found = other_managers::find(root);
        let daemon = ask_daemon(root);
        let enabled = standings(root, &config, &found).into_iter().map(|standing| known_to(daemon.as_ref(), standing));
        let enabled = enabled.collect();
        // One line a mechanism; what a running daemon says of its own goes before.
        let mechanisms = [
            ("boot", support_of_boots(root)),
            ("launch", launch::support(root, &config.launch, false)),
            ("placement", placement::support(root, &config.placement, false, Job::Priorities.doers(&found).as_deref())),
            ("memory", memory::support(root, &memory::MemoryDevice::probe(root))),
            ("lookup", lookup::support(root)),
        ];
        let mechanisms = mechanisms.into_iter().map(|(name, support)| {
            let its_own = daemon.as_ref().and_then(|status| status.mechanisms.iter().find(|it| it.name == name));
            // What is at work without the daemon is at work.
            let its_own = its_own.filter(|_| support.state != SupportState::Active);
            // Of boots the daemon knows no more, unless one is held.
            let its_own = its_own.filter(|it| name != boot::watch::NAME || it.support.state == SupportState::Active);
            MechanismReport::of(root, name, its_own.map_or(support, |it| it.support.clone()))
        });
        let mechanisms = mechanisms.collect();
        let other_managers = found.into_iter().map(OtherManagerReport::of).collect();
        let brisk = env!("CARGO_PKG_VERSION");
        Self { schema: SCHEMA, brisk, device, mechanisms, enabled, other_managers, configuration_fault }
    }
}

/// What a running daemon says of its own goes before.
fn known_to(daemon: Option<&Status>, standing: Standing) -> Standing {
    let Some(status) = daemon else { return standing };
    let mechanism = status.mechanisms.iter().find(|it| it.name == standing.mechanism);
    let told = mechanism.map(|it| (it.support.state == SupportState::Active, &it.support.reason));
    match status.part(standing.mechanism).map(|part| (part.on, &part.reason)).or(told) {
        Some((on, reason)) => Standing { on, reason: reason.clone(), ..standing },
        None => standing,
    }
}

/// What boots can get, and whether this device reboots by itself.
fn support_of_boots(root: &Root) -> Support {
    let mut support = boot::support(root);
    if reboots::are_under_way(root) {
        support.reason += "; a series of reboots is under way, which brisk prove --here --stop ends";
    }
    support
}

/// The status of the daemon, when one runs and answers this user.
fn ask_daemon(root: &Root) -> Option<Status> {
    let answer = Connection::open(root).ok()?.request(Request::Status).ok()?;
    serde_json::from_value(answer).ok()
}

impl OtherManagerReport {
    fn of(found: Found) -> Self {
        let job = Job::of(found.name);
        Self { found, does: job.to_string(), mechanism: job.mechanism() }
    }
}

impl MechanismReport {
    fn of(root: &Root, name: &'static str, mut support: Support) -> Self {
        support.reason = root.as_on_device(&support.reason);
        Self { name, support }
    }
}
