//! `brisk placement resources`: the CPU, memory, storage and GPU use of each process.

use std::fmt::Write as _;
use std::thread::sleep;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use serde::Serialize;

use brisk_mechanism::placement::resources::{Intensity, ProcessResources, ResourceSample, ResourceUse, Share, between};
use brisk_sys::io::process_io;
use brisk_sys::memory::{meminfo, process_memory};
use brisk_sys::process::ProcessIdentity;
use brisk_sys::process::drm_clients;
use brisk_sys::{BootTime, DeviceError, Root, process};

const BOLD: Style = Style::new().bold();
const FAINT: Style = Style::new().dimmed();
const HEAVY: Style = AnsiColor::Yellow.on_default().bold();
const MIDDLING: Style = AnsiColor::Yellow.on_default();

/// Options of `brisk placement resources`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
heavy     uses half of the resource or more
middling  30 to 50 %
light     less

CPU use is a share of one CPU. Memory is private memory, resident or on swap, as a share of all memory.
Storage is a share of what all processes transfer, once that is 1 MiB/s. GPU is the engine that the
process uses most, where the driver reports it. Only root sees storage and GPU use of other users'
processes.

Examples:
  brisk placement resources          processes that use resources, over 3 s
  brisk placement resources --json   all processes, for programs")]
pub(super) struct Options {
    /// Sample for this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct ResourceReport {
    seconds: f64,
    memory_total_kib: u64,
    processes: Vec<ProcessResources>,
}

/// Samples twice, and returns the use between the samples.
///
/// # Errors
/// When /proc cannot be read.
pub(super) fn show(options: &Options, root: &Root) -> anyhow::Result<String> {
    let memory_total_kib = meminfo::read(root)?.total_kib;
    let (began, before) = (BootTime::now(), sample(root)?);
    sleep(Duration::from_secs(options.seconds));
    let (ended, after) = (BootTime::now(), sample(root)?);
    let wall = ended - began;
    let processes = between(&before, &after, wall, memory_total_kib);
    let seen = ResourceReport { seconds: wall.as_secs_f64(), memory_total_kib, processes };
    Ok(if options.json { serde_json::to_string(&seen)? + "\n" } else { table(&seen.processes) })
}

fn sample(root: &Root) -> Result<ResourceSample, DeviceError> {
    let mut sample = ResourceSample::default();
    for pid in process_memory::pids(root)? {
        // Kernel threads have no memory; a process that has ended meanwhile cannot be read.
        let (Ok(Some(memory)), Ok(stat)) = (process_memory::read(root, pid), process::stat(root, pid)) else {
            continue;
        };
        let taken = ResourceUse {
            command: stat.command,
            cpu_ticks: stat.cpu_ticks,
            memory_kib: memory.rss_anonymous_kib + memory.swap_kib,
            storage: process_io::read(root, pid).ok(),
        };
        sample.processes.insert(ProcessIdentity { pid, start_time_ticks: stat.start_time_ticks }, taken);
    }
    sample.gpu = drm_clients::sample(root, sample.processes.keys().map(|life| life.pid));
    Ok(sample)
}

fn table(processes: &[ProcessResources]) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{BOLD}{:>7} {:<16}{:>7}  {:>16}  {:>19}  GPU{BOLD:#}",
        "process", "name", "CPU", "memory", "storage"
    );
    let at_rest = processes.iter().filter(|process| process.is_idle()).count();
    for process in processes.iter().filter(|process| !process.is_idle()) {
        let _ = writeln!(text, "{}", line(process));
    }
    if at_rest > 0 {
        let _ = writeln!(text, "{FAINT}and {at_rest} more that use almost nothing{FAINT:#}");
    }
    text
}

fn line(process: &ProcessResources) -> String {
    let memory = format!("{:.0} MiB {:>3.0} %", process.memory_kib as f64 / 1024.0, process.memory.share * 100.0);
    let storage = match (process.storage, process.storage_kib_per_s) {
        (Some(share), Some(kib)) => format!("{:.1} MiB/s {:>3.0} %", kib / 1024.0, share.share * 100.0),
        _ => "?".to_owned(),
    };
    let gpu = match (process.gpu, &process.gpu_engine) {
        (Some(share), Some(engine)) => format!("  {:.0} % of {engine}", share.share * 100.0),
        _ => String::new(),
    };
    format!(
        "{:>7} {:<16}{}  {}  {}{}",
        process.pid,
        process.command.replace(char::is_control, "?"),
        styled(Some(process.cpu), &format!("{:>5.0} %", process.cpu.share * 100.0)),
        styled(Some(process.memory), &format!("{memory:>16}")),
        styled(process.storage, &format!("{storage:>19}")),
        styled(process.gpu, &gpu),
    )
}

fn styled(share: Option<Share>, text: &str) -> String {
    let style = match share.map(|share| share.intensity) {
        Some(Intensity::Heavy) => HEAVY,
        Some(Intensity::Middling) => MIDDLING,
        Some(Intensity::Light) => Style::new(),
        None => FAINT,
    };
    format!("{style}{text}{style:#}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_resources_are_shown_as_a_question_mark() {
        let share = |share, intensity| Share { share, intensity };
        let busy = ProcessResources {
            pid: 1234,
            command: "chr\u{1b}ome".to_owned(),
            cpu: share(1.25, Intensity::Heavy),
            memory: share(0.31, Intensity::Middling),
            memory_kib: 317_440,
            storage: Some(share(0.56, Intensity::Heavy)),
            storage_kib_per_s: Some(1228.8),
            gpu: Some(share(0.34, Intensity::Middling)),
            gpu_engine: Some("render".to_owned()),
        };
        let hidden = ProcessResources { storage: None, gpu: None, gpu_engine: None, pid: 7, ..busy.clone() };
        let resting = ProcessResources {
            cpu: share(0.0, Intensity::Light),
            memory: share(0.0, Intensity::Light),
            ..hidden.clone()
        };
        let text = anstream::adapter::strip_str(&table(&[busy, hidden, resting])).to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "process name                CPU            memory              storage  GPU",
                "   1234 chr?ome           125 %     310 MiB  31 %      1.2 MiB/s  56 %  34 % of render",
                "      7 chr?ome           125 %     310 MiB  31 %                    ?",
                "and 1 more that use almost nothing",
            ]
        );
    }

    // Verifies ON-4.
    #[test]
    fn the_sample_has_this_process_with_its_memory() {
        let root = Root::system();
        let seen = sample(&root).unwrap();
        let own = process::life(&root, std::process::id()).unwrap();
        assert!(seen.processes[&own].memory_kib > 0, "{:?}", seen.processes[&own]);
    }
}
