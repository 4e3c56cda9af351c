//! `brisk doctor`: what this device supports, what is active, and what to do about the rest. It never fails on a broken
//! device: what is broken is what it reports.

pub mod facts;
#[cfg(feature = "lab")]
mod on;
mod text;

use std::process::ExitCode;

use serde::Serialize;

#[cfg(feature = "lab")]
use crate::cli::on::OnArguments;
use crate::cli::output;
use brisk_config::{Activation, Layers, activations};
use brisk_daemon::control::connection::Connection;
use brisk_daemon::control::protocol::Request;
use brisk_daemon::status::Status;
use brisk_experiment::reboots;
use brisk_mechanism::{Job, Support, SupportState, boot, launch, lookup, memory, placement};
use brisk_sys::Root;
use brisk_sys::system::other_managers::{self, FoundManager};
use facts::DeviceReport;

/// The number of the JSON schema.
const SCHEMA: u32 = 1;

/// Arguments of `brisk doctor`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
States:
  unsupported  the kernel or the device lacks something
  available    it is supported, but off
  active       it is on

Examples:
  brisk doctor          show what this device offers
  sudo brisk doctor     show it with the daemon's rights
  brisk doctor --json   print one JSON object")]
pub struct Arguments {
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    #[cfg(feature = "lab")]
    #[command(flatten)]
    on: OnArguments,
}

/// Everything that doctor reports.
#[derive(Debug, Serialize)]
struct Report {
    schema: u32,
    brisk: &'static str,
    device: DeviceReport,
    mechanisms: Vec<MechanismReport>,
    /// What a daemon with this configuration switches on here, and why.
    enabled: Vec<Activation>,
    /// Other programs that do the job of a mechanism.
    other_managers: Vec<OtherManagerReport>,
    /// The error in the configuration; the defaults are then assumed.
    #[serde(skip_serializing_if = "Option::is_none")]
    configuration_fault: Option<String>,
}

#[derive(Debug, Serialize)]
struct MechanismReport {
    name: &'static str,
    #[serde(flatten)]
    support: Support,
}

/// Another program that does the job of a mechanism.
#[derive(Debug, Serialize)]
struct OtherManagerReport {
    #[serde(flatten)]
    found: FoundManager,
    does: String,
    mechanism: &'static str,
}

/// Probes the device and prints the report. The exit code is 0: a device without support is a valid result. It is 2 if a
/// device of `--on` cannot be reached.
///
/// # Errors
/// When standard output cannot be written.
pub fn run(arguments: &Arguments, root: &Root) -> anyhow::Result<ExitCode> {
    #[cfg(feature = "lab")]
    if !arguments.on.on.is_empty() {
        return on::run(arguments, root);
    }
    let report = Report::of(root);
    let width = output::terminal_columns().map_or(text::DEFAULT_WIDTH, |columns| columns.max(text::MINIMUM_WIDTH));
    output::print(&report, arguments.json, |report| text::render(report, width))?;
    Ok(ExitCode::SUCCESS)
}

impl Report {
    fn of(root: &Root) -> Self {
        let (config, configuration_fault) = Layers::read_or_default(root);
        let mut device = DeviceReport::of(root, &config.placement.groups);
        device.interfaces.extend(facts::writeback(root, &config.memory.zram.backing_device));
        let found = other_managers::find(root);
        let daemon = ask_daemon(root);
        let enabled = activations(root, &config, &found)
            .into_iter()
            .map(|activation| prefer_daemon_state(daemon.as_ref(), activation));
        let enabled = enabled.collect();
        // One entry for each mechanism; a running daemon's own report takes precedence.
        let mechanisms = [
            ("boot", support_of_boots(root)),
            ("launch", launch::support(root, &config.launch, false)),
            (
                "placement",
                placement::support(root, &config.placement, false, Job::Priorities.managers(&found).as_deref()),
            ),
            ("memory", memory::support(root, &memory::MemoryDevice::probe(root), &config.memory.zram)),
            ("lookup", lookup::support(root)),
        ];
        let mechanisms = mechanisms.into_iter().map(|(name, support)| {
            let reported = daemon.as_ref().and_then(|status| status.mechanisms.iter().find(|it| it.name == name));
            // A mechanism can be active without the daemon.
            let reported = reported.filter(|_| support.state != SupportState::Active);
            // The daemon knows no more about boots, unless one is being held.
            let reported = reported.filter(|it| name != boot::watch::NAME || it.support.state == SupportState::Active);
            MechanismReport::of(root, name, reported.map_or(support, |it| it.support.clone()))
        });
        let mechanisms = mechanisms.collect();
        let other_managers = found.into_iter().map(OtherManagerReport::of).collect();
        let brisk = env!("CARGO_PKG_VERSION");
        Self { schema: SCHEMA, brisk, device, mechanisms, enabled, other_managers, configuration_fault }
    }
}

/// Prefers the running daemon's own report to `activation`.
fn prefer_daemon_state(daemon: Option<&Status>, activation: Activation) -> Activation {
    let Some(status) = daemon else { return activation };
    let mechanism = status.mechanisms.iter().find(|it| it.name == activation.mechanism);
    let mechanism_state = mechanism.map(|it| (it.support.state == SupportState::Active, &it.support.reason));
    match status.part(activation.mechanism).map(|part| (part.on, &part.reason)).or(mechanism_state) {
        Some((on, reason)) => Activation { on, reason: reason.clone(), ..activation },
        None => activation,
    }
}

/// The support for boots, and whether a series of reboots is under way.
fn support_of_boots(root: &Root) -> Support {
    let mut support = boot::support(root);
    if reboots::is_series_active(root) {
        support.reason += "; a series of reboots is under way (to end it: brisk prove --here --stop)";
    }
    support
}

/// The status of a running daemon that this user may ask.
fn ask_daemon(root: &Root) -> Option<Status> {
    let answer = Connection::open(root).ok()?.request(Request::Status).ok()?;
    serde_json::from_value(answer).ok()
}

impl OtherManagerReport {
    fn of(found: FoundManager) -> Self {
        let job = Job::of(found.name);
        Self { found, does: job.to_string(), mechanism: job.mechanism() }
    }
}

impl MechanismReport {
    fn of(root: &Root, name: &'static str, mut support: Support) -> Self {
        support.reason = root.with_device_paths(&support.reason);
        Self { name, support }
    }
}
