//! `brisk memory status`: headroom, zram efficiency, and the next kill candidates.

use std::fmt::Write as _;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use anyhow::Context as _;
use serde::Serialize;

use crate::cli::output;
use brisk_config::Layers;
use brisk_daemon::killer::Learned;
use brisk_mechanism::memory::MemorySnapshot;
use brisk_mechanism::memory::config::KillerConfig;
use brisk_mechanism::memory::headroom::Headroom;
use brisk_mechanism::memory::killer;
use brisk_mechanism::memory::victim::{Protection, Victim, VictimMode};
use brisk_mechanism::memory::writeback_budget::{self, WritebackBudget};
use brisk_sys::Root;
use brisk_sys::error::sentence;
use brisk_sys::memory::meminfo::MemoryInfo;
use brisk_sys::memory::psi::Pressure;
use brisk_sys::memory::zram::Zram;

/// The number of the JSON schema.
const SCHEMA: u32 = 1;
/// How many candidates the text lists.
const SHOWN: usize = 10;

/// Arguments of `brisk memory status`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
headroom = free memory above the high watermark
           + file pages above 5 % of memory
           + (1 - r) x what can still be swapped out
r        = memory that a byte on swap occupies

Kills nothing: the order shows which process the killer of the configuration
would kill first if it is on, and why.

Exit code 0 while there is headroom, 1 when there is none, 2 when memory cannot be read.

Examples:
  sudo brisk memory status              the processes of all users
  brisk memory status --mode lmk-rss    the order of the kernel's killer
  brisk memory status --json            everything, with every process")]
pub struct Arguments {
    /// Select victims as this killer does [default: that of the configuration]
    #[arg(long, value_enum)]
    mode: Option<VictimMode>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    schema: u32,
    memory: MemoryInfo,
    headroom: Headroom,
    pressure: Option<Pressure>,
    zram: Vec<Device>,
    /// Absent if nothing was ever written back.
    #[serde(skip_serializing_if = "Option::is_none")]
    writeback: Option<Writeback>,
    mode: VictimMode,
    /// The lowest oom_score_adj that would be killed now; `None` when no process would be.
    adj_threshold: Option<i16>,
    protection: Protection,
    /// How many processes hold memory.
    process_count: usize,
    victims: Vec<Victim>,
    faults: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Device {
    #[serde(flatten)]
    zram: Zram,
    /// Memory used divided by bytes held; `None` below 1 MiB.
    ratio: Option<f64>,
}

/// What brisk has written to flash.
#[derive(Debug, Serialize)]
struct Writeback {
    /// On the last day with writes, including writes that were started but may not have completed.
    today_kib: u64,
    /// Since counting began.
    total_kib: u64,
}

/// Prints the state of memory.
///
/// # Errors
/// When memory cannot be read or standard output cannot be written.
pub fn run(arguments: &Arguments, root: &Root) -> anyhow::Result<ExitCode> {
    let (config, configuration_fault) = Layers::read_or_default(root);
    let mut config = config.memory.killer;
    config.mode = arguments.mode.unwrap_or(config.mode);
    let mut snapshot = MemorySnapshot::take(root, config.mode.is_proportional())
        .map_err(|error| anyhow::anyhow!(root.with_device_paths(&sentence(&error))))
        .context("cannot read the state of memory")?;
    let wear =
        root.read(root.state_file(writeback_budget::FILE.name)).ok().and_then(|text| WritebackBudget::parse(&text));
    let writeback = wear.map(|WritebackBudget { today_kib, total_kib, .. }| Writeback { today_kib, total_kib });
    snapshot.faults.extend(configuration_fault);
    Learned::read(root).annotate(&mut snapshot.candidates, snapshot.memory_pressure.swap_ratio);
    let protection = killer::protection(&config, root.has_android_system());
    let report = Report::of(snapshot, writeback, &config, protection);
    output::print(&report, arguments.json, text)?;
    Ok(ExitCode::from(u8::from(report.headroom.total_kib <= 0)))
}

impl Report {
    fn of(
        mut snapshot: MemorySnapshot,
        writeback: Option<Writeback>,
        config: &KillerConfig,
        protection: Protection,
    ) -> Self {
        let pressure = &snapshot.memory_pressure;
        let adj_threshold = killer::adj_threshold(config, pressure);
        let victims = adj_threshold.map_or_else(Vec::new, |threshold| {
            killer::order(config, pressure, threshold, &mut snapshot.candidates, &protection)
        });
        let device = |zram: Zram| Device { ratio: zram.usage.and_then(|usage| usage.ratio()), zram };
        Self {
            schema: SCHEMA,
            memory: snapshot.memory,
            headroom: snapshot.headroom,
            pressure: snapshot.pressure,
            zram: snapshot.zram.into_iter().map(device).collect(),
            writeback,
            mode: config.mode,
            adj_threshold,
            protection,
            process_count: snapshot.candidates.len(),
            victims,
            faults: snapshot.faults,
        }
    }
}

const BOLD: Style = Style::new().bold();
const FAINT: Style = Style::new().dimmed();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default();
const WARN: Style = AnsiColor::Yellow.on_default();

fn text(report: &Report) -> String {
    let mut text = String::new();
    let headroom = &report.headroom;
    let style = if headroom.total_kib > 0 { GOOD } else { BAD };
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{BOLD}{:<16}{BOLD:#}{style}{:>9} MiB{style:#}  of {} MiB",
        "Headroom",
        headroom.total_kib / 1024,
        report.memory.total_kib / 1024
    );
    let mut term = |name: &str, kib: i64, what: &str| {
        let _ = writeln!(text, "  {name:<14}{:>9} MiB  {FAINT}{what}{FAINT:#}", kib / 1024);
    };
    term("free", headroom.free_kib, "above the high watermark");
    let kept_mib = headroom.file_floor_kib / 1024;
    let files = match headroom.file_kib {
        0.. => format!("above the {kept_mib} MiB that are kept"),
        below_kib => format!("{} MiB below the {kept_mib} MiB that are kept", -below_kib / 1024),
    };
    term("files", headroom.file_kib, &files);
    for area in &headroom.swaps {
        let price = match (area.ratio > 0.0, area.is_measured) {
            (false, _) => "which costs no memory".to_owned(),
            (true, true) => format!("r = {:.2} (measured)", area.ratio),
            (true, false) => format!("r = {:.2} (assumed: too little is swapped out)", area.ratio),
        };
        let what = format!("by swapping {} MiB to {}, {price}", area.taken_kib / 1024, area.path);
        term("swap", area.won_kib, &what);
    }
    if headroom.swaps.is_empty() {
        term("swap", 0, "no swap");
    }
    pressure(&mut text, report.pressure.as_ref());
    report.zram.iter().for_each(|device| zram(&mut text, device));
    if let Some(Writeback { today_kib, total_kib }) = &report.writeback {
        let what = format!("{} MiB were written to flash today, {} MiB in all", today_kib >> 10, total_kib >> 10);
        let _ = writeln!(text, "{BOLD}{:<16}{BOLD:#}{what}", "Writeback");
    }
    victims(&mut text, report);
    for fault in &report.faults {
        let _ = writeln!(text, "{WARN}fault{WARN:#}: {fault}");
    }
    text
}

fn pressure(text: &mut String, pressure: Option<&Pressure>) {
    let what = match pressure {
        Some(Pressure { some, full }) => format!(
            "some {:.2} %, full {:.2} % of the last 10 s; some {:.1} s since boot",
            some.average_10s_percent,
            full.average_10s_percent,
            some.total_us as f64 / 1e6
        ),
        None => "not available (CONFIG_PSI)".to_owned(),
    };
    let _ = writeln!(text, "{BOLD}{:<16}{BOLD:#}{what}", "Pressure");
}

fn zram(text: &mut String, device: &Device) {
    let zram = &device.zram;
    let algorithm = zram.algorithm.as_deref().unwrap_or("lzo");
    let _ = write!(text, "{BOLD}{:<16}{BOLD:#}{} MiB, {algorithm}", zram.name, zram.disk_size_bytes >> 20);
    if let Some(usage) = &zram.usage {
        let ratio = device.ratio.map_or_else(|| "r not known yet".to_owned(), |ratio| format!("r = {ratio:.2}"));
        let (held, taken) = (usage.original_bytes >> 20, usage.memory_bytes >> 20);
        let _ = write!(text, "; holds {held} MiB in {taken} MiB of memory ({ratio})");
    }
    if let Some(backing) = &zram.backing {
        let (written, read) = (backing.written_kib >> 10, backing.read_kib >> 10);
        let _ = write!(text, "; {written} MiB written back to {}, {read} MiB read again", backing.path);
    }
    let _ = writeln!(text);
}

fn victims(text: &mut String, report: &Report) {
    let (killable_count, all) = (report.victims.len(), report.process_count);
    let order = match killable_count {
        0 if all > 0 => format!(": none with an oom_score_adj of {} or more", report.protection.adj_floor),
        2.. => ", in this order".to_owned(),
        _ => String::new(),
    };
    let _ = writeln!(text, "{BOLD}{:<16}{BOLD:#}{killable_count} of {all} processes may be killed{order}", "Victims");
    if report.adj_threshold.is_none() {
        let _ = writeln!(text, "  memory is not low enough for this killer to kill a process");
    }
    for victim in report.victims.iter().take(SHOWN) {
        let mib = victim.predicted_kib as f64 / 1024.0;
        let _ =
            writeln!(text, "  {:>7} {:<16}{mib:>8.1} MiB  {FAINT}{}{FAINT:#}", victim.pid, victim.name, victim.reason);
    }
    if killable_count > SHOWN {
        let _ = writeln!(text, "  {FAINT}and {} more (--json has all){FAINT:#}", killable_count - SHOWN);
    }
}
