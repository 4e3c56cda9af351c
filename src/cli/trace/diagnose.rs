//! `brisk diagnose`: records on this device, explains at once, and says which mechanism would help here.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anstyle::Style;
use anyhow::Context as _;
use serde::Serialize;

use super::explain::{self, Answer, Files, Selection};
use super::record;
use crate::cli::output;
use brisk_config::{Activation, Layers, activations};
use brisk_mechanism::launch::LaunchDevice;
use brisk_mechanism::memory::{self, MemoryDevice, parts};
use brisk_mechanism::placement::PlacementConfig;
use brisk_mechanism::{Job, Support, SupportState, launch, lookup, placement};
use brisk_recorder::Summary;
use brisk_sys::Root;
use brisk_sys::cgroup::membership::Groups;
use brisk_sys::cpu::cpufreq::Policies;
use brisk_sys::sched::scheduling_group::SchedulingGroup;
use brisk_sys::sched::thread_facts;
use brisk_sys::system::other_managers::{self, FoundManager};
use brisk_trace::json;
use brisk_trace::remedy::words::about;
use brisk_trace::remedy::{self, Device, Mechanism, Remedies};

/// The number of the JSON schema.
const SCHEMA: u32 = 1;

/// Arguments of `brisk diagnose`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Records the scheduler of this device as `brisk trace record` does, explains the recorded launch as
`brisk trace explain` does, estimates what launch, placement, lookup and memory would have removed of it,
and says which of them this device supports. It changes nothing, and needs root and tracefs.

With COMMAND the longest launch of it and what it starts is explained; with --launches the next launch of any program, or of
the one called NAME, which ends the recording. Otherwise start an application while it records: the first launch that is
found is explained, or that of --launch, or the process of --process.

A launch ends when its program waits 200 ms for an event or exits. It goes on while the program waits for a lock, a service
or a disk, but for a lock or a service no longer than 5 s. A program that exits within 200 ms is a helper and is passed over.

Exit code 0 when a launch or a process was explained, 1 when none was found, 2 after an error.

Examples:
  sudo brisk diagnose -- su user -c browser
  sudo brisk diagnose --launches
  sudo brisk diagnose --launches=browser --html slow.html
  sudo brisk diagnose -t 5s --process browser
  sudo brisk diagnose -t 20s --output slow.dat --html slow.html")]
pub struct Arguments {
    /// Record this long, as 5s or 500ms
    #[arg(long, short, value_name = "TIME", default_value = "10s", value_parser = record::duration, conflicts_with = "command")]
    time: Duration,
    /// Record until a launch has ended, and explain it: of any program, or of the one called NAME
    #[arg(long, value_name = "NAME", require_equals = true, conflicts_with_all = ["time", "command", "launch", "process"])]
    launches: Option<Option<String>>,
    /// Explain this launch: its number in the list, or its name
    #[arg(long, value_name = "N|NAME", conflicts_with = "process")]
    launch: Option<String>,
    /// Explain this process: its name or number
    #[arg(long, value_name = "NAME|PID")]
    process: Option<String>,
    /// Record this event as well, as syscalls/sys_enter_futex for all locks
    #[arg(long, value_name = "SUBSYSTEM/EVENT", value_parser = record::event)]
    event: Vec<String>,
    /// Keep the recording in FILE
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    files: Files,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Run this command, and record until it ends
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    schema: u32,
    recording: &'a Summary,
    explained: json::Report<'a>,
    here: &'a [Here],
}

/// A mechanism on this device.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Here {
    mechanism: &'static str,
    /// What it would have removed; `None` where that is not known.
    removed_ns: Option<u64>,
    support: Support,
    /// Whether a daemon with this configuration switches it on, and why.
    on: bool,
    why: String,
}

/// Records, explains and prints.
///
/// # Errors
/// When nothing can be recorded, the command not be run, the configuration not be read, or what is wanted is not in the trace.
pub fn run(arguments: &Arguments, root: &Root) -> anyhow::Result<ExitCode> {
    let config = Layers::read(root)?.config;
    // The folder of a recording that is not kept goes with this value.
    let (_folder, file) = match &arguments.output {
        Some(file) => (None, file.clone()),
        None => {
            let folder = tempfile::Builder::new().prefix("brisk-").tempdir();
            let folder = folder.context("cannot make a folder for the recording; --output names a file")?;
            let file = folder.path().join("trace.dat");
            (Some(folder), file)
        }
    };
    let (summary, until) = record::recorded(&recording(arguments, &file), root)?;
    let is_command = arguments.launch.is_none() && arguments.process.is_none();
    let selection = Selection {
        command: until.pid().filter(|_| is_command),
        is_unseen: until.pid().is_none() && arguments.launches.is_some(),
        launch: arguments.launch.clone(),
        process: arguments.process.clone(),
        ..Selection::default()
    };
    let mut answer = explain::answer(&file, &selection)?;
    let device = device(root, &config.placement, &answer);
    answer.estimate(&Remedies {
        with: Mechanism::ALL.to_vec(),
        launch: config.launch.clone(),
        placement: config.placement.clone(),
        lookup: config.lookup.clone(),
        memory: config.memory.clone(),
        device: Some(device),
    });
    let found = other_managers::find(root);
    let supports = [
        launch::support(root, &config.launch, false),
        placement::support(root, &config.placement, false, Job::Priorities.managers(&found).as_deref()),
        lookup::support(root),
        memory::support(root, &MemoryDevice::probe(root), &config.memory.zram),
    ];
    let here = here(&answer, supports, &activations(root, &config, &found));
    answer.write(&arguments.files)?;
    let report = Report { schema: SCHEMA, recording: &summary, explained: explain::report(&answer), here: &here };
    output::print(&report, arguments.json, |_| text(&answer, &here, &found, arguments.output.as_deref()))?;
    Ok(if answer.explanations.is_empty() { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

fn recording(arguments: &Arguments, file: &Path) -> record::Arguments {
    record::Arguments {
        time: arguments.time,
        output: file.to_owned(),
        buffer_kib: record::BUFFER_KIB,
        limit_mib: record::LIMIT_MIB,
        event: arguments.event.clone(),
        json: false,
        launches: arguments.launches.clone(),
        command: arguments.command.clone(),
    }
}

/// The device, for launch and placement.
fn device(root: &Root, placement: &PlacementConfig, answer: &Answer) -> Device {
    let policies = Policies::read(root).list;
    let cpus = |cpus: &[u32]| cpus.iter().filter_map(|&cpu| u16::try_from(cpu).ok()).collect();
    let cpus = policies.iter().map(|policy| (policy.name.clone(), cpus(&policy.cpus))).collect();
    let tids = remedy::living(&answer.trace, &answer.timelines);
    let mut threads = thread_facts::of_each(root, &tids, &Groups::of(root, &placement.groups));
    for facts in &mut threads {
        // The daemon that would deprioritise a session is not in the one of this command.
        if let SchedulingGroup::Autogroup(group) = &mut facts.scheduling_group {
            group.is_own = false;
        }
    }
    Device { facts: LaunchDevice::probe(root), cpus, threads }
}

/// What each mechanism would have removed, and its state here.
fn here(answer: &Answer, supports: [Support; 4], activations: &[Activation]) -> Vec<Here> {
    let estimates = answer.what_if.as_ref().map_or(&[][..], |what_if| &what_if.estimates);
    let here = Mechanism::ALL.into_iter().zip(supports).map(|(mechanism, support)| {
        let removed_ns = estimates.iter().find(|it| it.mechanism == mechanism).and_then(|it| it.removed_ns);
        // The killer swaps out ahead of need.
        let switch = if mechanism == Mechanism::Memory { parts::KILLER } else { mechanism.name() };
        let activation = activations.iter().find(|it| it.mechanism == switch);
        let (on, why) = activation.map_or((false, String::new()), |it| (it.on, it.why().to_owned()));
        Here { mechanism: mechanism.name(), removed_ns, support, on, why }
    });
    here.collect()
}

fn text(answer: &Answer, here: &[Here], found: &[FoundManager], kept: Option<&Path>) -> String {
    let mut text = explain::text(answer);
    if answer.explanations.is_empty() {
        return text;
    }
    text.push_str(&advice(here));
    // Writing to a string cannot fail.
    for FoundManager { name, evidence } in found {
        let _ = writeln!(text, "note: {name} runs here ({evidence})");
    }
    if let Some(file) = kept {
        let _ = writeln!(text, "The recording is {}", file.display());
    }
    text
}

/// Which mechanism would help here, and what to do. Writing to a string cannot fail.
fn advice(here: &[Here]) -> String {
    const BOLD: Style = Style::new().bold();
    let mut text = format!("{BOLD}On this device{BOLD:#}\n\n");
    let mut can_be_set_up = false;
    for Here { mechanism, removed_ns, support, on, why } in here {
        let is_supported = support.state != SupportState::Unsupported;
        let verdict = match removed_ns {
            None => "not known".to_owned(),
            Some(0) => "would not have helped".to_owned(),
            Some(ns) if is_supported => {
                format!("would help, about {}, and is {}: {why}", about(*ns), if *on { "on" } else { "off" })
            }
            Some(ns) => format!("would help, about {}, but is not supported: {why}", about(*ns)),
        };
        let _ = writeln!(text, "  {mechanism:<10} {verdict}");
        let helps = is_supported && removed_ns.is_some_and(|ns| ns > 0);
        match *mechanism == memory::NAME {
            // `brisk setup` chooses no target.
            true if helps => text.push_str("             memory.killer.enabled and .pageout.target_kib switch it on\n"),
            true => {}
            false => can_be_set_up |= helps,
        }
    }
    let next = match can_be_set_up {
        true => "brisk setup chooses what to switch on; brisk prove measures what it gains",
        false => "brisk doctor shows what this device supports",
    };
    let _ = writeln!(text, "\n{next}");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    // Verifies TRACE-10.
    #[test]
    fn the_advice_names_what_helps_and_what_to_do() {
        use SupportState::{Active, Available, Unsupported};
        for (removed_ns, state, expected, next) in [
            (None, Active, "launch     not known\n", "brisk doctor"),
            (Some(0), Available, "launch     would not have helped\n", "brisk doctor"),
            (Some(12_000_000), Available, "would help, about 12 ms, and is off: left to tuned\n", "brisk setup"),
            (
                Some(12_000_000),
                Unsupported,
                "would help, about 12 ms, but is not supported: left to tuned\n",
                "brisk doctor",
            ),
        ] {
            let support = Support { state, reason: "a reason".to_owned(), advice: String::new() };
            let why = "left to tuned".to_owned();
            let text = advice(&[Here { mechanism: "launch", removed_ns, support, on: false, why }]);
            assert!(text.contains(expected) && text.contains(next), "{text}");
        }
        let support = Support { state: Available, reason: "a reason".to_owned(), advice: String::new() };
        let why = "left to tuned".to_owned();
        let memory = Here { mechanism: memory::NAME, removed_ns: Some(3_400_000), support, on: false, why };
        let text = advice(&[memory]);
        assert!(text.contains("memory     would help, about 3.4 ms, and is off: left to tuned\n"), "{text}");
        assert!(text.contains("pageout.target_kib switch it on") && text.contains("brisk doctor"), "{text}");
    }
}
