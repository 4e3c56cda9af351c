//! The contents of the screen, from the daemon and the kernel, and their layout.

use std::collections::BTreeMap;

use anstyle::{AnsiColor, Style};
use serde::Serialize;
use unicode_width::UnicodeWidthChar as _;

use crate::cli::placement;
use crate::cli::placement::sampler::Sampler;
use brisk_base::insertion_sort::insertion_sort;
use brisk_daemon::control::connection::Connection;
use brisk_daemon::control::protocol::Request;
use brisk_daemon::executor::{Executed, describe};
use brisk_daemon::status::Status;
use brisk_mechanism::placement::PlacementSnapshot;
use brisk_mechanism::placement::step::Step;
use brisk_mechanism::placement::threads::classify::Class;
use brisk_sys::binder::cache::{self, CacheStatus};
use brisk_sys::cpu::cpu_times::{self, Ticks};
use brisk_sys::cpu::current_frequency::CurrentFrequencies;
use brisk_sys::cpu::hotplug::format_list;
use brisk_sys::memory::meminfo::{self, MemoryInfo};
use brisk_sys::memory::psi::{self, Pressure};
use brisk_sys::{BootTime, Root};

/// The number of the JSON schema.
const SCHEMA: u32 = 1;
/// How many decisions are shown.
const DECISIONS: usize = 5;
/// The width of one CPU's cell.
const CPU_WIDTH: usize = 40;

/// Everything on the screen.
#[derive(Debug, Serialize)]
pub struct Screen {
    schema: u32,
    /// The daemon, when one runs.
    daemon: Option<Daemon>,
    cpus: Vec<Cpu>,
    /// The daemon's, or that of a daemon simulated here.
    placement: PlacementSnapshot,
    memory: Option<MemoryInfo>,
    pressure: Option<Pressure>,
    lookups: Vec<CacheStatus>,
    /// The last decisions, the latest first.
    decisions: Vec<Executed>,
    #[serde(skip)]
    now: BootTime,
}

#[derive(Debug, Serialize)]
struct Daemon {
    pid: u32,
    since: BootTime,
    /// The number of leases that it holds.
    lease_count: usize,
}

#[derive(Debug, Default, PartialEq, Serialize)]
struct Cpu {
    cpu: u32,
    /// 1024 for the fastest CPU.
    capacity: u32,
    /// The share of time since the last screen in which it was not idle, 0 to 1.
    busy: Option<f64>,
    khz: Option<u64>,
    maximum_khz: Option<u64>,
    /// Reserved for the foreground: bulk threads are kept off it.
    is_reserved: bool,
}

/// Samples the daemon and the kernel; keeps the state between two screens.
#[derive(Debug)]
pub struct Observer {
    root: Root,
    sampler: Option<Sampler>,
    ticks: BTreeMap<u32, Ticks>,
}

impl Observer {
    /// An observer without samples.
    pub fn new(root: &Root) -> Self {
        Self { root: root.clone(), sampler: None, ticks: BTreeMap::new() }
    }

    /// Samples everything for one screen.
    ///
    /// # Errors
    /// When the configuration is invalid, or /proc cannot be read.
    pub fn sample(&mut self) -> anyhow::Result<Screen> {
        let root = self.root.clone();
        let status: Option<Status> = Connection::open(&root)
            .ok()
            .and_then(|mut daemon| daemon.request(Request::Status).ok())
            .and_then(|status| serde_json::from_value(status).ok());
        let asked = status.as_ref().and_then(|_| placement::ask_daemon(&root));
        let placement = match asked {
            Some(snapshot) => snapshot,
            None => self.sample_here()?,
        };
        let cpus = self.cpus(&placement);
        let daemon =
            |status: &Status| Daemon { pid: status.pid, since: status.since, lease_count: status.leases.len() };
        Ok(Screen {
            schema: SCHEMA,
            daemon: status.as_ref().map(daemon),
            cpus,
            placement,
            memory: meminfo::read(&root).ok(),
            pressure: psi::memory(&root).ok(),
            lookups: cache::status(&root).unwrap_or_default(),
            decisions: status
                .map(|status| status.decisions)
                .unwrap_or_default()
                .into_iter()
                .rev()
                .take(DECISIONS)
                .collect(),
            now: BootTime::now(),
        })
    }

    fn sample_here(&mut self) -> anyhow::Result<PlacementSnapshot> {
        let sampler = match &mut self.sampler {
            Some(sampler) => sampler,
            none => none.insert(Sampler::new(&self.root, &[])?),
        };
        if sampler.can_sample() {
            sampler.sample()?;
        }
        Ok(sampler.snapshot())
    }

    fn cpus(&mut self, placement: &PlacementSnapshot) -> Vec<Cpu> {
        let mut ticks = BTreeMap::new();
        let text = self.root.read("/proc/stat").unwrap_or_default();
        cpu_times::parse(text.as_bytes(), &mut |cpu, of_cpu| {
            ticks.extend(cpu.map(|cpu| (cpu, *of_cpu)));
        });
        let mut cpus: Vec<Cpu> = Vec::new();
        for core in &placement.cores {
            let is_reserved =
                matches!(&placement.step, Some(Step::Isolate(split)) if split.reserved.contains(&core.cpu));
            let [before, after] = [&self.ticks, &ticks].map(|ticks| ticks.get(&core.cpu));
            let busy = before.zip(after).and_then(|(before, after)| busy(before, after));
            cpus.push(Cpu { cpu: core.cpu, capacity: core.capacity, busy, is_reserved, ..Cpu::default() });
        }
        insertion_sort(&mut cpus, |one, next| one.cpu > next.cpu);
        // Searched each time, because these files appear and disappear with CPU hotplug.
        CurrentFrequencies::find(&self.root).read(&mut |number, khz, maximum_khz| {
            if let Some(cpu) = cpus.iter_mut().find(|cpu| cpu.cpu == number) {
                (cpu.khz, cpu.maximum_khz) = (Some(khz), Some(maximum_khz));
            }
        });
        self.ticks = ticks;
        cpus
    }
}

/// The share of non-idle time between two readings; `None` when no time has passed.
fn busy(before: &Ticks, after: &Ticks) -> Option<f64> {
    let passed: Vec<u64> = after.iter().zip(before).map(|(after, before)| after.saturating_sub(*before)).collect();
    let all: u64 = passed.iter().sum();
    // idle and iowait
    let idle = passed[3] + passed[4];
    (all > 0).then(|| (all - idle) as f64 / all as f64)
}

const PLAIN: Style = Style::new();
const BOLD: Style = Style::new().bold();
const FAINT: Style = Style::new().dimmed();
const GOOD: Style = AnsiColor::Green.on_default();
const WARN: Style = AnsiColor::Yellow.on_default();

impl Screen {
    /// At most `rows` lines of at most `columns`, optionally in colours.
    pub fn lines(&self, (columns, rows): (usize, usize), in_colours: bool) -> Vec<String> {
        let mut lines = vec![(BOLD, self.title())];
        lines.extend(self.cpu_lines(columns));
        lines.extend(self.foreground_lines());
        let mut rest = self.memory_lines();
        rest.extend(self.decision_lines());
        // The thread table gets the remaining rows, at least three.
        let room = rows.saturating_sub(lines.len() + rest.len() + 1).max(3);
        lines.extend(self.thread_lines(room));
        lines.extend(rest);
        lines.truncate(rows);
        let draw = |(style, text): (Style, String)| {
            let text = clip(&text, columns);
            if in_colours { format!("{style}{text}{style:#}") } else { text }
        };
        lines.into_iter().map(draw).collect()
    }

    fn title(&self) -> String {
        let version = env!("CARGO_PKG_VERSION");
        match &self.daemon {
            Some(Daemon { pid, since, lease_count }) => {
                let minutes = self.now.since(*since).as_secs() / 60;
                format!("brisk {version}  process {pid}, for {minutes} min, holds {lease_count}")
            }
            None => format!("brisk {version}  no daemon: decisions are simulated"),
        }
    }

    fn cpu_lines(&self, columns: usize) -> Vec<(Style, String)> {
        let text = |cpu: &Cpu| {
            let busy = cpu.busy.map_or("   -".to_owned(), |busy| format!("{:>3.0}%", busy * 100.0));
            let mhz = |khz: u64| khz / 1000;
            let frequency = match (cpu.khz, cpu.maximum_khz) {
                (Some(khz), Some(maximum)) => format!("{:>4}/{:<4} MHz", mhz(khz), mhz(maximum)),
                _ => "-".to_owned(),
            };
            let reserved = if cpu.is_reserved { " reserved" } else { "" };
            format!("CPU {:<3}{busy} {frequency:<13} {:>4}{reserved}", cpu.cpu, cpu.capacity)
        };
        let on_a_line = (columns / CPU_WIDTH).max(1);
        let line = |cpus: &[Cpu]| {
            let cells: Vec<String> = cpus.iter().map(|cpu| format!("{:<CPU_WIDTH$}", text(cpu))).collect();
            (PLAIN, cells.concat().trim_end().to_owned())
        };
        self.cpus.chunks(on_a_line).map(line).collect()
    }

    fn foreground_lines(&self) -> Vec<(Style, String)> {
        let placement = &self.placement;
        let name =
            |pid: &u32| placement.threads.iter().find(|thread| thread.pid == *pid).map(|thread| &*thread.command);
        let foreground = match placement.foreground.as_slice() {
            [] => "nothing".to_owned(),
            foreground => format!(
                "process {} {}, waits {:.0} % of its busy time",
                format_list(foreground),
                foreground.iter().filter_map(name).next().unwrap_or(""),
                placement.wait_share * 100.0
            ),
        };
        let count = |class| placement.threads.iter().filter(|thread| thread.class == class).count();
        let [bulk, interactive, light] = [Class::Bulk, Class::Interactive, Class::Light].map(count);
        vec![
            (PLAIN, String::new()),
            (GOOD, format!("Foreground {foreground}")),
            (PLAIN, format!("Decision   {}", placement.reason)),
            (
                PLAIN,
                format!(
                    "Classes    {bulk} bulk, {interactive} interactive, {light} light, {} asleep",
                    placement.asleep
                ),
            ),
        ]
    }

    fn thread_lines(&self, room: usize) -> Vec<(Style, String)> {
        let line = |thread: &brisk_mechanism::placement::snapshot::ThreadView| {
            let style = match thread.class {
                _ if thread.is_foreground => GOOD,
                Class::Bulk => WARN,
                _ => FAINT,
            };
            let (demand, wait) = (thread.demand * 100.0, thread.wait * 100.0);
            let leased = thread.leased.as_deref().unwrap_or("");
            let (tid, command) = (thread.tid, &thread.command);
            (style, format!("{tid:>9}  {command:<16}{:<12}{demand:>4.0} %{wait:>7.0} %  {leased}", thread.class))
        };
        let head = format!("{:>9}  {:<16}{:<12}{:>6}{:>9}  {}", "thread", "name", "class", "demand", "waits", "leased");
        let threads = self.placement.threads.iter().take(room.saturating_sub(1)).map(line);
        std::iter::once((BOLD, head)).chain(threads).collect()
    }

    fn memory_lines(&self) -> Vec<(Style, String)> {
        let mut lines = vec![(PLAIN, String::new())];
        if let Some(memory) = &self.memory {
            let mib = |kib: u64| kib / 1024;
            let used = memory.swap_total_kib.saturating_sub(memory.swap_free_kib);
            let waits =
                self.pressure.map_or(String::new(), |it| format!(", pressure {:.1} %", it.some.average_10s_percent));
            let available = mib(memory.available_kib.unwrap_or(memory.free_kib));
            let (total, swap) = (mib(memory.total_kib), mib(memory.swap_total_kib));
            lines.push((
                PLAIN,
                format!("Memory     {available} of {total} MiB available, {} of {swap} MiB swapped{waits}", mib(used)),
            ));
        }
        for context in &self.lookups {
            let count = |name: &str| context.counters.get(name).copied().unwrap_or(0);
            let rate = context.hit_ratio().map(|ratio| format!(", {:.1} % hits", ratio * 100.0));
            lines.push((
                PLAIN,
                format!(
                    "Lookups    {}: {}, {} hits, {} misses{}",
                    context.context,
                    context.state,
                    count("hits"),
                    count("misses"),
                    rate.unwrap_or_default()
                ),
            ));
        }
        lines
    }

    fn decision_lines(&self) -> Vec<(Style, String)> {
        let line = |executed: &Executed| {
            let (seconds, decision) = (self.now.since(executed.at).as_secs_f64(), &executed.decision);
            let (style, failed) = if executed.error.is_some() { (WARN, " (failed)") } else { (FAINT, "") };
            let text = format!(
                "{seconds:>7.1} s ago  {}: {}{failed}: {}",
                executed.mechanism,
                describe(&decision.action),
                decision.reason
            );
            (style, text)
        };
        self.decisions.iter().map(line).collect()
    }
}

/// The beginning of `text` that fits into `columns`; control characters become dots.
fn clip(text: &str, columns: usize) -> String {
    let mut width = 0;
    let visible = text.chars().map(|char| if char.is_control() { '.' } else { char });
    visible
        .take_while(|char| {
            width += char.width().unwrap_or(0);
            width <= columns
        })
        .collect()
}

#[cfg(test)]
mod tests;
