//! Opens applications one after another, as a user does, on a device that is set up for an arm.
//!
//! The runner acts as Android's activity manager: it starts applications, sets `oom_score_adj` by how long ago each was in the
//! foreground, and notices killed ones.

mod companion_program;
mod cost;
mod environment;
mod figures;
mod process;

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, bail};

use super::daemon::Daemon;
use super::locked_memory::LockedMemory;
use super::process_groups::{Place, ProcessGroups};
use super::settings::RunnerSettings;
use super::swap_device::SwapDevice;
use super::{describe, run_replicates, runtime_folder, sleep_until};
use crate::applications::Applications;
use crate::load;
use crate::plan::{Line, Plan, Replicate};
use crate::point::Point;
use crate::spec::{Arm, Openings};
use brisk_mechanism::memory::killer::kill_log;
use brisk_mechanism::memory::{learned, writeback_budget};
use brisk_sys::memory::process_memory::{self, ProcessMemory};
use brisk_sys::memory::{meminfo, swaps, vmstat};
use brisk_sys::{BootTime, Root};
use companion_program::CompanionProgram;
use cost::CostMeter;
use environment::RunningEnvironment;
use figures::{Figures, MemoryState, Opening};
use process::{ApplicationProcess, PreparedApplication, TapOutcome};

/// Android's classes: foreground, previous and cached.
const FOREGROUND_ADJ: i16 = 0;
const PREVIOUS_ADJ: i16 = 700;
pub(super) const CACHED_ADJ: i16 = 900;
pub(super) const CACHED_STEP: i16 = 5;
/// The application whose pages a single task has, and its class, which no other process has.
const SINGLE: usize = 0;
const SINGLE_ADJ: i16 = 1000;
const FLASH_WRITTEN: &str = "/sys/module/flash_model/parameters/pages_written";

/// Runs the replicates of `plan`; see [`super::run`].
pub(super) fn run(
    plan: &Plan,
    openings: &Openings,
    root: &Root,
    interrupted: &AtomicBool,
    report: &mut dyn FnMut(&Line) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let workload = Applications::standard()?;
    let folder = runtime_folder(root);
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    // The runner is not measured: it must not be killed.
    root.write("/proc/self/oom_score_adj", "-1000")?;
    report(&Line::Device { device: describe(root, None)? })?;
    // A device without frequencies has nothing that an arm could set.
    let mut settings = openings.together.is_some().then(|| RunnerSettings::open(&folder, root)).transpose()?;
    settings.as_mut().map_or(Ok(()), RunnerSettings::pin_at_maximum)?;
    let turns_per_ms = load::turns_per_ms();
    settings.as_mut().map_or(Ok(()), RunnerSettings::restore)?;
    let groups = ProcessGroups::find(root);
    let setup = ReplicateSetup { workload: &workload, openings, root, folder: &folder, groups, turns_per_ms };
    run_replicates(plan, interrupted, report, |replicate, arm, point, finding| {
        let Point::Openings(count) = *point else { bail!("a plan of openings has a point of another workload") };
        if let Some(settings) = &mut settings {
            settings.apply(arm).with_context(|| format!("cannot set the arm {}", arm.name))?;
        }
        let measured = setup.replicate(replicate, arm, count);
        Ok(measured.map(|figures| *finding = figures.finding()).with_context(|| format!("arm {}", arm.name)))
    })?;
    settings.as_mut().map_or(Ok(()), RunnerSettings::restore)
}

/// The surroundings of a replicate.
struct ReplicateSetup<'a> {
    workload: &'a Applications,
    openings: &'a Openings,
    root: &'a Root,
    folder: &'a Path,
    groups: Option<ProcessGroups<'a>>,
    turns_per_ms: u64,
}

impl ReplicateSetup<'_> {
    fn replicate(&self, replicate: &Replicate, arm: &Arm, count: u32) -> anyhow::Result<Figures> {
        let root = self.root;
        root.write("/proc/sys/vm/drop_caches", "3")?;
        let _locked_memory = LockedMemory::take(root, self.workload.available_kib)?;
        kill_log::clear(root);
        // What an earlier arm has learned and spent must not affect this one.
        for file in [learned::FILE.name, writeback_budget::FILE.name] {
            let _ = fs::remove_file(root.path(root.state_file(file)));
        }
        let swap = arm.swap.as_deref().map(|device| SwapDevice::swap(root, device)).transpose()?;
        // Services and background run before the daemon starts, as on a device in use.
        let environment = self.openings.together.as_ref();
        let environment = environment
            .map(|together| RunningEnvironment::start(root, together, arm, self.groups, self.turns_per_ms))
            .transpose()?;
        let daemon =
            arm.brisk.as_ref().map(|configuration| Daemon::start(root, self.folder, configuration)).transpose()?;
        let beside = CompanionProgram::start(&arm.beside)?;
        let before = (vmstat::read(root)?, flash_written_kib(root));
        let meter = daemon
            .as_ref()
            .filter(|_| environment.is_some())
            .map(|daemon| CostMeter::begin(root, daemon))
            .transpose()?;
        // On a whole device every daemon receives the foreground, as from Android's activity manager.
        let receives_foreground = environment.is_some() || arm.brisk.as_ref().is_some_and(needs_foreground);
        let mut figures = match self.openings.single {
            true => self.single(replicate.seed, arm)?,
            false => self.open_all(replicate.seed, arm, count, daemon.as_ref().filter(|_| receives_foreground))?,
        };
        drop(beside);
        let cost = meter.map(|meter| meter.end(root)).transpose()?;
        figures.environment = environment.map(|environment| environment.end(root, arm, cost)).transpose()?;
        figures.oom_kills = vmstat::read(root)?.oom_kills - before.0.oom_kills;
        figures.flash_written_kib = flash_written_kib(root) - before.1;
        figures.records = kill_log::read(root)?;
        if let Some(mut daemon) = daemon {
            daemon.actions().context("the daemon")?;
            daemon.end()?;
        }
        swap.map_or(Ok(()), SwapDevice::off)?;
        if let Some(left) = swaps::read(root)?.first() {
            bail!("{} is still swap after the replicate", left.path.display());
        }
        Ok(figures)
    }

    /// Opens one application after another, as a user does.
    fn open_all(&self, seed: u64, arm: &Arm, count: u32, daemon: Option<&Daemon>) -> anyhow::Result<Figures> {
        let processes = self.workload.list.iter().map(|_| None).collect();
        let figures = Figures::default();
        let mut manager = ActivityManager { setup: self, arm, daemon, seed, processes, last_used: Vec::new(), figures };
        for number in self.workload.openings(seed).into_iter().take(count as usize) {
            manager.open(number)?;
        }
        manager.reap()?;
        let alive = manager.processes.iter().flatten().count();
        Ok(Figures { alive, ..std::mem::take(&mut manager.figures) })
    }

    /// One application allocates all that it can get.
    fn single(&self, seed: u64, arm: &Arm) -> anyhow::Result<Figures> {
        let actor = self.prepare(SINGLE, seed, arm)?.open()?;
        // The kernel kills it before any other process.
        actor.set_oom_score_adj(self.root, SINGLE_ADJ)?;
        Ok(Figures { single_kib: Some(actor.grown_kib()?), ..Figures::default() })
    }
}

/// True for a daemon that receives the foreground, which Android's activity manager shows by cpuset.
fn needs_foreground(configuration: &toml::Table) -> bool {
    let placement = configuration.get("placement").and_then(|placement| placement.get("enabled"));
    if placement.and_then(toml::Value::as_bool) == Some(true) {
        return true;
    }
    let killer = configuration.get("memory").and_then(|memory| memory.get("killer"));
    killer.and_then(|killer| killer.get("prefetch")).and_then(toml::Value::as_bool).unwrap_or(false)
}

/// What has been written to the devices of the flash model.
fn flash_written_kib(root: &Root) -> u64 {
    let text = root.read(FLASH_WRITTEN).unwrap_or_default();
    text.split(',').filter_map(|pages| pages.parse::<u64>().ok()).sum::<u64>() * 4
}

/// The running applications.
struct ActivityManager<'a> {
    setup: &'a ReplicateSetup<'a>,
    arm: &'a Arm,
    /// The daemon that receives the foreground.
    daemon: Option<&'a Daemon>,
    seed: u64,
    processes: Vec<Option<ApplicationProcess>>,
    /// The foreground first.
    last_used: Vec<usize>,
    figures: Figures,
}

impl ActivityManager<'_> {
    /// Opens application `number`, and leaves it in the foreground for its time.
    fn open(&mut self, number: usize) -> anyhow::Result<()> {
        let setup = self.setup;
        self.reap()?;
        self.last_used.retain(|&other| other != number);
        self.last_used.insert(0, number);
        self.rank()?;
        self.kill_beyond_limit();
        let is_launch = self.processes[number].is_none();
        let prepared = is_launch.then(|| setup.prepare(number, self.seed, self.arm)).transpose()?;
        let started = BootTime::now();
        let limit = started + Duration::from_millis(u64::from(setup.openings.limit_ms));
        let actor = match (&mut self.processes[number], prepared) {
            (Some(actor), _) => {
                actor.resume();
                actor
            }
            (empty, prepared) => empty.insert(prepared.context("nothing was prepared")?.open()?),
        };
        if is_launch {
            actor.set_oom_score_adj(setup.root, FOREGROUND_ADJ)?;
        }
        match (setup.groups, self.daemon) {
            (Some(groups), _) => groups.place(actor.pid(), Place::TopApp)?,
            (None, Some(daemon)) => daemon.set_foreground(actor.pid())?,
            (None, None) => {}
        }
        let answer = actor.screen(limit)?;
        let screen = match answer {
            TapOutcome::Screen(screen) => Some(screen),
            TapOutcome::Ended | TapOutcome::Late => None,
        };
        let took = screen.map(|screen| screen.at.since(started));
        let lookup_time = screen.map_or(Duration::ZERO, |screen| screen.lookup_time);
        let median_lookup = screen.map_or(Duration::ZERO, |screen| screen.median_lookup);
        let front_ms = setup.workload.front_ms * u64::from(setup.openings.time_dilation());
        sleep_until(BootTime::now() + Duration::from_millis(front_ms));
        let after = self.state()?;
        self.record_processes()?;
        let is_late = answer == TapOutcome::Late;
        let limit = limit.since(started);
        self.figures.openings.push(Opening { is_launch, took, lookup_time, median_lookup, is_late, limit, after });
        eprintln!(
            "opening {} {} {} {:.0} ms, {after:?}",
            self.figures.openings.len(),
            setup.workload.list[number].name,
            if is_launch { "launch" } else { "resume" },
            took.unwrap_or_default().as_secs_f64() * 1000.0,
        );
        Ok(())
    }

    /// Adds the memory of each application; zero for one that does not run.
    fn record_processes(&mut self) -> anyhow::Result<()> {
        let mib = |kib: u64| kib as f64 / 1024.0;
        for (application, actor) in self.setup.workload.list.iter().zip(&self.processes) {
            let memory = match actor.as_ref().map(|actor| process_memory::read(self.setup.root, actor.pid())) {
                Some(Err(error)) if !error.is_missing() => return Err(error.into()),
                Some(Ok(memory)) => memory.unwrap_or_default(),
                _ => ProcessMemory::default(),
            };
            let course = self.figures.processes.entry(application.name.clone()).or_default();
            course.resident_mib.push(mib(memory.rss_kib));
            course.swapped_mib.push(mib(memory.swap_kib));
        }
        Ok(())
    }

    fn state(&self) -> anyhow::Result<MemoryState> {
        let memory = meminfo::read(self.setup.root)?;
        Ok(MemoryState {
            free_kib: memory.free_kib,
            file_kib: memory.file_kib,
            swapped_kib: memory.swap_total_kib - memory.swap_free_kib,
            alive: self.processes.iter().flatten().count(),
        })
    }

    /// Counts and removes applications that were killed since.
    fn reap(&mut self) -> anyhow::Result<()> {
        for (number, slot) in self.processes.iter_mut().enumerate() {
            let Some(actor) = slot else { continue };
            if actor.has_ended()? {
                *slot = None;
                self.figures.kills += 1;
                self.figures.foreground_kills += u32::from(self.last_used.first() == Some(&number));
            }
        }
        Ok(())
    }

    /// Kills the applications beyond the arm's limit of hidden ones.
    fn kill_beyond_limit(&mut self) {
        let Some(limit) = self.arm.hidden_limit else { return };
        let hidden = self.last_used.iter().skip(1).filter(|&&number| self.processes[number].is_some());
        let beyond: Vec<usize> = hidden.skip(limit as usize).copied().collect();
        self.figures.kills += beyond.len() as u32;
        for number in beyond {
            self.processes[number] = None;
        }
    }

    /// Sets `oom_score_adj` by how long ago each application was in the foreground. The one that leaves it becomes background;
    /// the one that comes is placed when the user taps it.
    fn rank(&self) -> anyhow::Result<()> {
        let ReplicateSetup { root, groups, .. } = self.setup;
        let living = self.last_used.iter().enumerate();
        let ranked = living.filter_map(|(rank, &number)| Some((rank, self.processes[number].as_ref()?)));
        for (rank, actor) in ranked {
            actor.set_oom_score_adj(root, adj(rank))?;
            if let (1, Some(groups)) = (rank, groups) {
                groups.place(actor.pid(), Place::Background)?;
            }
        }
        Ok(())
    }
}

fn adj(rank: usize) -> i16 {
    match rank {
        0 => FOREGROUND_ADJ,
        1 => PREVIOUS_ADJ,
        rank => CACHED_ADJ + CACHED_STEP * (rank as i16 - 2),
    }
}

impl ReplicateSetup<'_> {
    fn prepare(&self, number: usize, seed: u64, arm: &Arm) -> anyhow::Result<PreparedApplication> {
        let mut arguments = vec![
            format!("--number={number}"),
            format!("--seed={seed}"),
            format!("--turns-per-ms={}", self.turns_per_ms * u64::from(self.openings.time_dilation())),
            format!("--storage={}", self.openings.storage.display()),
        ];
        if let Some(together) = &self.openings.together {
            arguments.extend(environment::arguments(self.root, together, arm)?);
        }
        arguments.extend(self.openings.single.then(|| "--grow".to_owned()));
        PreparedApplication::prepare(&arm.launcher, &arguments)
    }
}
