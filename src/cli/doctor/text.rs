//! The report as a person reads it in a terminal.

use std::fmt::Write;

use anstyle::{AnsiColor, Style};

use super::Report;
use super::facts::{DeviceReport, PolicyReport};
use crate::device::hotplug;
use crate::device::journal::JournalState;
use crate::mechanism::SupportState;

/// For what is no terminal.
pub(super) const DEFAULT_WIDTH: usize = 100;

const NAME_WIDTH: usize = 28;
const BOLD: Style = Style::new().bold();
const GOOD: Style = AnsiColor::Green.on_default();
const MIDDLING: Style = AnsiColor::Yellow.on_default();
const FAINT: Style = Style::new().dimmed();

/// The whole report, wrapped to `width` columns; colours are for the stream to keep or to strip.
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
            SupportState::Available => ("available", MIDDLING),
            SupportState::Active => ("active", GOOD),
        };
        page.entry(mechanism.name, word, style, &mechanism.support.reason, &mechanism.support.advice);
    }
    let faults = report.device.faults.iter().chain(&report.device.journal.fault).chain(&report.configuration_fault);
    let faults: Vec<&String> = faults.collect();
    if !faults.is_empty() {
        page.heading("Faults");
        faults.into_iter().for_each(|fault| page.line("  ", fault));
    }
    page.text
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

    /// `  name   value`, the value wrapped below itself.
    fn fact(&mut self, name: &str, value: &str) {
        let first = format!("  {name:<NAME_WIDTH$}");
        self.wrapped(&first, &" ".repeat(NAME_WIDTH + 2), value);
    }

    fn entry(&mut self, name: &str, word: &str, style: Style, reason: &str, advice: &str) {
        let _ = writeln!(self.text, "  {name:<NAME_WIDTH$}{style}{word}{style:#}");
        self.line("      ", reason);
        if !advice.is_empty() {
            self.wrapped("      -> ", "         ", advice);
        }
    }

    fn line(&mut self, indent: &str, value: &str) {
        self.wrapped(indent, indent, value);
    }

    fn wrapped(&mut self, first: &str, rest: &str, value: &str) {
        let mut line = first.to_owned();
        let mut empty = true;
        for word in value.split_whitespace() {
            if !empty && line.chars().count() + 1 + word.chars().count() > self.width {
                let _ = writeln!(self.text, "{}", line.trim_end());
                rest.clone_into(&mut line);
                empty = true;
            }
            if !empty {
                line.push(' ');
            }
            line.push_str(word);
            empty = false;
        }
        let _ = writeln!(self.text, "{}", line.trim_end());
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
    for policy in &device.policies {
        describe_policy(page, policy);
    }
    if !device.policies_offline.is_empty() {
        page.fact("policies offline", &device.policies_offline.join(", "));
    }
    let journal = match &device.journal.state {
        Some(JournalState::Empty) => "holds nothing".to_owned(),
        Some(JournalState::InUse { pid, held }) => {
            let owner = pid.map_or_else(|| "a brisk".to_owned(), |pid| format!("process {pid}"));
            format!("in use by {owner}, which holds {held} tunables")
        }
        Some(JournalState::LeftBehind { held }) => format!("{held} tunables left changed: run `brisk restore`"),
        None => "cannot be read".to_owned(),
    };
    page.fact("journal", &format!("{}: {journal}", device.journal.folder.display()));
}

fn describe_policy(page: &mut Page, report: &PolicyReport) {
    let policy = &report.policy;
    let megahertz = |khz: Option<u32>| khz.map_or_else(|| "?".to_owned(), |khz| (khz / 1000).to_string());
    let mut limits = format!("{} to {} MHz", megahertz(policy.minimum_khz), megahertz(policy.maximum_khz));
    if (policy.hardware_minimum_khz, policy.hardware_maximum_khz) != (policy.minimum_khz, policy.maximum_khz) {
        let (lowest, highest) = (megahertz(policy.hardware_minimum_khz), megahertz(policy.hardware_maximum_khz));
        limits += &format!(" (hardware {lowest} to {highest})");
    }
    let driver = policy.driver.as_deref().unwrap_or("unknown driver");
    let cpus = hotplug::format_list(&policy.cpus);
    let value = format!("CPUs {cpus}, {}, {limits}, {driver}", policy.governor);
    page.fact(&format!("cpufreq {}", policy.name), &value);
    page.fact("  governors", &policy.available_governors.join(" "));
    if let Some(folder) = &report.tunables_folder {
        let values = report
            .tunables
            .iter()
            .map(|(name, value)| format!("{name} {}", value.as_deref().unwrap_or("(cannot be read)")));
        let values = values.collect::<Vec<_>>().join(", ");
        page.fact("  tunables", &format!("{}: {values}", folder.display()));
    }
}
