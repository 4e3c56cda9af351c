//! The report as text for a terminal.

use std::fmt::Write;

use anstyle::{AnsiColor, Style};

use super::facts::{DeviceReport, JournalReport, PolicyReport};
use super::{OtherManagerReport, Report};
use crate::cli::output::fold;
use brisk_mechanism::SupportState;
use brisk_sys::cpu::cpufreq::FrequencyPolicy;
use brisk_sys::cpu::hotplug;
use brisk_undo::journal::JournalState;

/// The width when standard output is no terminal.
pub(super) const DEFAULT_WIDTH: usize = 100;
/// Names and values need so much.
pub(super) const MINIMUM_WIDTH: usize = 40;

const NAME_WIDTH: usize = 28;
const BOLD: Style = Style::new().bold();
const GOOD: Style = AnsiColor::Green.on_default();
const WARN: Style = AnsiColor::Yellow.on_default();
const FAINT: Style = Style::new().dimmed();

/// The whole report, wrapped to `width` columns; the output stream keeps or strips the colours.
pub(super) fn render(report: &Report, width: usize) -> String {
    let mut page = Page { text: String::new(), width };
    page.heading("Device");
    device(&mut page, &report.device);
    page.heading("Kernel interfaces");
    for interface in &report.device.interfaces {
        let (word, style) = if interface.available { ("yes", GOOD) } else { ("no", FAINT) };
        page.entry(interface.name, word, style, &interface.reason, &interface.advice);
    }
    page.heading("Mechanisms");
    for mechanism in &report.mechanisms {
        let (word, style) = match mechanism.support.state {
            SupportState::Unsupported => ("unsupported", FAINT),
            SupportState::Available => ("available", WARN),
            SupportState::Active => ("active", GOOD),
        };
        page.entry(mechanism.name, word, style, &mechanism.support.reason, &mechanism.support.advice);
    }
    switched_on(&mut page, report);
    if !report.other_managers.is_empty() {
        page.heading("Other managers");
        for OtherManagerReport { found, does, mechanism } in &report.other_managers {
            page.fact(&found.name.to_string(), &format!("{does}, as {mechanism} would ({})", found.evidence));
        }
    }
    let faults = report.device.faults.iter().chain(&report.device.journal.fault).chain(&report.configuration_fault);
    let faults: Vec<&String> = faults.collect();
    if !faults.is_empty() {
        page.heading("Faults");
        faults.into_iter().for_each(|fault| page.line("  ", fault));
    }
    page.text
}

fn switched_on(page: &mut Page, report: &Report) {
    page.heading("Switched on");
    for activation in &report.enabled {
        let (word, style) = if activation.on { ("on", GOOD) } else { ("off", FAINT) };
        let word = format!("{word} (enabled = {})", activation.enabled);
        // The reason is not repeated if the list of mechanisms already shows it.
        let is_duplicate = report.mechanisms.iter().any(|mechanism| mechanism.support.reason == activation.reason);
        page.entry(activation.mechanism, &word, style, if is_duplicate { "" } else { activation.why() }, "");
    }
}

struct Page {
    text: String,
    width: usize,
}

impl Page {
    fn heading(&mut self, title: &str) {
        let gap = if self.text.is_empty() { "" } else { "\n" };
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{gap}{BOLD}{title}{BOLD:#}");
    }

    /// `  name   value`; the value's further lines are indented to its column.
    fn fact(&mut self, name: &str, value: &str) {
        let first = format!("  {name:<NAME_WIDTH$}");
        self.wrapped(&first, &" ".repeat(NAME_WIDTH + 2), value);
    }

    fn entry(&mut self, name: &str, word: &str, style: Style, reason: &str, advice: &str) {
        let _ = writeln!(self.text, "  {name:<NAME_WIDTH$}{style}{word}{style:#}");
        if !reason.is_empty() {
            self.line("      ", reason);
        }
        if !advice.is_empty() {
            self.wrapped("      -> ", "         ", advice);
        }
    }

    fn line(&mut self, indent: &str, value: &str) {
        self.wrapped(indent, indent, value);
    }

    fn wrapped(&mut self, first: &str, rest: &str, value: &str) {
        let words: Vec<&str> = value.split_whitespace().collect();
        self.text.push_str(&fold(&format!("{first}{}", words.join(" ")), self.width, rest.len()));
    }
}

fn device(page: &mut Page, device: &DeviceReport) {
    page.fact("kernel", device.kernel.as_deref().unwrap_or("unknown"));
    let online = device.cpus_online.as_deref().unwrap_or("unknown");
    match device.cpus_present.as_deref() {
        Some(present) if present != online => page.fact("CPUs", &format!("{online} online of {present}")),
        _ => page.fact("CPUs", online),
    }
    if device.policies.is_empty() {
        page.fact("cpufreq", "no policy");
    }
    // A PC has one policy for each CPU, usually identical.
    for alike in device.policies.chunk_by(are_alike) {
        describe_policies(page, alike);
    }
    if !device.policies_offline.is_empty() {
        page.fact("policies offline", &device.policies_offline.join(", "));
    }
    page.fact("journal", &journal(&device.journal));
    if let Some(report) = &device.experiment_journal {
        page.fact("  of experiments", &journal(report));
    }
}

fn journal(report: &JournalReport) -> String {
    let state = match &report.state {
        Some(JournalState::Empty) => "holds nothing".to_owned(),
        Some(JournalState::InUse { pid, held }) => {
            let owner = pid.map_or_else(|| "a brisk".to_owned(), |pid| format!("process {pid}"));
            format!("in use by {owner}, which holds {held} tunables")
        }
        Some(JournalState::Damaged { malformed_lines }) => {
            format!("damaged lines: {malformed_lines}; nothing to restore: `brisk restore` clears it")
        }
        Some(JournalState::LeftBehind { held }) => format!("{held} tunables left changed: run `brisk restore`"),
        None => "cannot be read".to_owned(),
    };
    format!("{}: {state}", report.folder.display())
}

fn are_alike(one: &PolicyReport, other: &PolicyReport) -> bool {
    let facts = |report: &PolicyReport| {
        let policy = &report.policy;
        let limits = (policy.minimum_khz, policy.maximum_khz, policy.hardware_minimum_khz, policy.hardware_maximum_khz);
        (
            policy.governor.clone(),
            policy.available_governors.clone(),
            limits,
            policy.driver.clone(),
            report.tunables.clone(),
        )
    };
    facts(one) == facts(other)
}

/// Describes policies that differ only in their CPUs.
fn describe_policies(page: &mut Page, alike: &[PolicyReport]) {
    let (Some(first), Some(last)) = (alike.first(), alike.last()) else { return };
    let policy = &first.policy;
    let name = if alike.len() == 1 { policy.name.clone() } else { format!("{} to {}", policy.name, last.policy.name) };
    let cpus: Vec<u32> = alike.iter().flat_map(|report| report.policy.cpus.iter().copied()).collect();
    let noun = if cpus.len() == 1 { "CPU" } else { "CPUs" };
    let driver = policy.driver.as_deref().unwrap_or("unknown driver");
    let value = format!("{noun} {}, {}, {}, {driver}", hotplug::format_list(&cpus), policy.governor, limits(policy));
    page.fact(&format!("cpufreq {name}"), &value);
    if !policy.available_governors.is_empty() {
        page.fact("  governors", &policy.available_governors.join(" "));
    }
    if let Some(folder) = &first.tunables_folder {
        let value = |(name, value): (&String, &Option<String>)| match value.as_deref() {
            Some("") => format!("{name} (empty)"),
            Some(value) => format!("{name} {value}"),
            None => format!("{name} (cannot be read)"),
        };
        let values = first.tunables.iter().map(value).collect::<Vec<_>>().join(", ");
        page.fact("  tunables", &format!("{}: {values}", folder.display()));
    }
}

fn limits(policy: &FrequencyPolicy) -> String {
    let megahertz = |khz: Option<u32>| khz.map_or_else(|| "?".to_owned(), |khz| (khz / 1000).to_string());
    let range = |lowest, highest| format!("{} to {} MHz", megahertz(lowest), megahertz(highest));
    let allowed = range(policy.minimum_khz, policy.maximum_khz);
    let hardware = (policy.hardware_minimum_khz, policy.hardware_maximum_khz);
    if hardware == (None, None) || hardware == (policy.minimum_khz, policy.maximum_khz) {
        return allowed;
    }
    format!("{allowed} of {}", range(hardware.0, hardware.1))
}
