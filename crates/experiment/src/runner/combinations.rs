//! Combinations: the background runs, a foreground starts, and each program reports what it got.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, bail};
use serde::de::DeserializeOwned;

use super::applications::CACHED_ADJ;
use super::arm_groups::ArmGroups;
use super::core_samples::{CoreCounts, CoreSamples, Sampled};
use super::daemon::Daemon;
use super::disk;
use super::network;
use super::settings::RunnerSettings;
use super::swap_device::SwapDevice;
use super::{Metrics, describe, run_replicates, runtime_folder, sleep_until};
use crate::load;
use crate::metric::Metric;
use crate::plan::{Line, Plan, Replicate};
use crate::spec::{Arm, BackgroundProgram, Combination, Combinations, Foreground, Network};
use crate::tasks::{BackgroundReport, ForegroundReport, Suite, calibrate_rounds};
use brisk_sys::cpu::energy::{Meter, Reading};
use brisk_sys::sched::autogroup;
use brisk_sys::{BootTime, Root};

/// The folder of a guest's disk for downloads, where its scenario has one.
const DOWNLOADS: &str = "/downloads";

/// Runs the replicates of `plan`; see [`super::run`].
pub(super) fn run(
    plan: &Plan,
    combinations: &Combinations,
    root: &Root,
    interrupted: &AtomicBool,
    report: &mut dyn FnMut(&Line) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    may_place(plan, rustix::process::geteuid().is_root())?;
    let folder = runtime_folder(root);
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    // A device without frequencies has nothing that an arm could set.
    let sets = plan.arms.iter().any(|arm| arm.governor.is_some() || !arm.tunables.is_empty() || !arm.policy.is_empty());
    let mut settings = if sets { Some(RunnerSettings::open(&folder, root)?) } else { None };
    if let Some(settings) = &mut settings {
        settings.pin_at_maximum().context("cannot calibrate at the highest frequency")?;
    }
    let turns_per_ms = load::turns_per_ms();
    let rounds = calibrate_rounds(Duration::from_millis(Foreground::Messages.duration_ms().into()))?;
    let suite = match combinations.has_suite(&plan.points) {
        true => Some(Suite::calibrate(Duration::from_millis(Foreground::Suite.duration_ms().into()), &folder)?),
        false => None,
    };
    settings.as_mut().map_or(Ok(()), RunnerSettings::restore)?;
    report(&Line::Device { device: describe(root, None)? })?;
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let meter = Meter::find(root).filter(Meter::accumulates);
    let setup = ReplicateSetup { root, combinations, folder: &folder, program, turns_per_ms, rounds, suite, meter };
    run_replicates(plan, interrupted, report, |replicate, arm, point, finding| {
        let combination = combinations.at(point).with_context(|| format!("there is no combination {point}"))?;
        if let Some(settings) = &mut settings {
            settings.apply(arm).with_context(|| format!("cannot set the arm {}", arm.name))?;
        }
        Ok(setup.replicate(replicate, arm, combination).map(|metrics| finding.metrics = metrics))
    })?;
    settings.as_mut().map_or(Ok(()), RunnerSettings::restore)
}

/// Refuses a device in use where this process could not restore the threads of other users.
fn may_place(plan: &Plan, is_root: bool) -> anyhow::Result<()> {
    if plan.guarded && !is_root && plan.arms.iter().any(|arm| arm.brisk.is_some()) {
        bail!("placement moves the threads of all users: run this as root, or in the lab: brisk prove --lab placement");
    }
    Ok(())
}

/// The surroundings of a replicate.
struct ReplicateSetup<'a> {
    root: &'a Root,
    combinations: &'a Combinations,
    folder: &'a Path,
    program: PathBuf,
    turns_per_ms: u64,
    rounds: u32,
    suite: Option<Suite>,
    /// One that counts energy itself, if the device has one.
    meter: Option<Meter>,
}

impl ReplicateSetup<'_> {
    fn replicate(&self, replicate: &Replicate, arm: &Arm, combination: &Combination) -> anyhow::Result<Metrics> {
        self.combinations.disk.as_ref().map_or(Ok(()), |shared| disk::schedule(self.root, shared, arm))?;
        if let Some(Network { rate_kbit, queue }) = self.combinations.network {
            network::slow_down(rate_kbit, arm.network_queue.unwrap_or(queue))?;
        }
        let swap = arm.swap.as_deref().map(|device| SwapDevice::swap(self.root, device)).transpose()?;
        let mut daemon = match &arm.brisk {
            Some(configuration) => Some(Daemon::start(self.root, self.folder, configuration)?),
            None => None,
        };
        // Before the tasks, which must have ended when their groups are removed.
        let groups = ArmGroups::make(self.root, self.combinations, arm)?;
        let background = if arm.alone { &[][..] } else { &combination.background };
        let start = |&what: &BackgroundProgram| {
            let task = self.start_background(arm, what)?;
            groups.enter_background(task.pid(), what).map(|()| task)
        };
        let mut background_programs = background.iter().map(start).collect::<anyhow::Result<Vec<_>>>()?;
        sleep_until(BootTime::now() + Duration::from_micros(replicate.settle_us));
        for (task, _) in background_programs.iter().zip(background).filter(|(_, what)| !what.is_music()) {
            self.deprioritise_by_hand(arm, task.pid())?;
        }
        background_programs.iter_mut().try_for_each(RunningTask::begin)?;
        let begun = BootTime::now();
        let energy_before = self.read_energy()?;
        let front = self.start_foreground(arm, combination.foreground)?;
        groups.enter_foreground(front.pid())?;
        if let (Some(daemon), false) = (&daemon, groups.show_foreground()) {
            daemon.set_foreground(front.pid())?;
        }
        let sampled = Sampled {
            foreground: front.pid(),
            has_child: combination.foreground == Foreground::Browsing,
            background: background_programs.first().map(|program| program.pid()),
        };
        let samples = CoreSamples::start(self.root, sampled);
        let front = front.end();
        let counts = samples.end();
        let front: ForegroundReport = front?;
        let lasted_ms = BootTime::now().since(begun).as_secs_f64() * 1000.0;
        let energy_after = self.read_energy()?;
        let reports =
            background_programs.into_iter().map(RunningTask::end).collect::<anyhow::Result<Vec<BackgroundReport>>>()?;
        if let Some(daemon) = &mut daemon {
            daemon.actions()?;
        }
        groups.remove()?;
        swap.map_or(Ok(()), SwapDevice::off)?;
        let mut metrics = figures(front, &reports, lasted_ms);
        metrics.extend(counts.into_iter().flat_map(core_figures));
        if let (Some(meter), Some(before), Some(after)) = (&self.meter, energy_before, energy_after) {
            let energy_mj = meter.energy_uj(&before, &after) as f64 / 1000.0;
            metrics.insert(Metric::RunEnergy.key().to_owned(), energy_mj);
        }
        Ok(metrics)
    }

    fn read_energy(&self) -> anyhow::Result<Option<Reading>> {
        Ok(self.meter.as_ref().map(|meter| meter.read(self.root)).transpose()?)
    }

    /// Sets what the arm sets for the background process `pid`.
    fn deprioritise_by_hand(&self, arm: &Arm, pid: u32) -> anyhow::Result<()> {
        if let Some(nice) = arm.background_nice {
            if !autogroup::is_enabled(self.root) {
                bail!("sessions are not scheduled as groups here: kernel.sched_autogroup_enabled is not 1");
            }
            self.root.write(format!("/proc/{pid}/autogroup"), &nice.to_string())?;
        }
        arm.background_io_priority.map_or(Ok(()), |wanted| disk::set_priority(self.root, pid, wanted))
    }

    fn start_foreground(&self, arm: &Arm, what: Foreground) -> anyhow::Result<RunningTask> {
        match &self.suite {
            Some(suite) if what == Foreground::Suite => RunningTask::spawn(suite.command(), what.name().to_owned()),
            _ => self.start(&arm.launcher, &["--front", what.name()]),
        }
    }

    fn start_background(&self, arm: &Arm, what: BackgroundProgram) -> anyhow::Result<RunningTask> {
        let is_own = !what.is_music() && !arm.background_launcher.is_empty();
        let launcher = if is_own { &arm.background_launcher } else { &arm.launcher };
        let task = self.start(launcher, &["--beside", what.name()])?;
        if self.combinations.grouped {
            self.root.write(format!("/proc/{}/oom_score_adj", task.pid()), &CACHED_ADJ.to_string())?;
        }
        Ok(task)
    }

    /// Starts a task through `launcher`, which must exec it: the task is identified by its process.
    fn start(&self, launcher: &[String], what: &[&str]) -> anyhow::Result<RunningTask> {
        let mut words = launcher.iter().map(OsStr::new).chain([self.program.as_os_str()]);
        let mut command = Command::new(words.next().context("there is nothing to start")?);
        command.args(words).arg("task").args(what).arg("--turns-per-ms").arg(self.turns_per_ms.to_string());
        command.arg("--rounds").arg(self.rounds.to_string()).stdin(Stdio::piped());
        let downloads = Path::new(DOWNLOADS);
        command.arg("--folder").arg(if downloads.is_dir() { downloads } else { self.folder });
        if let Some(disk) = &self.combinations.disk {
            command.arg("--disk").arg(Path::new("/dev").join(&disk.name));
        }
        RunningTask::spawn(command, format!("brisk task {}", what.join(" ")))
    }
}

fn figures(front: ForegroundReport, reports: &[BackgroundReport], lasted_ms: f64) -> Metrics {
    let mut metrics = Metrics::from([(Metric::Foreground.key().to_owned(), front.foreground_ms)]);
    if let Some(median_ms) = front.median_ms {
        metrics.insert(Metric::ForegroundMedian.key().to_owned(), median_ms);
    }
    if let Some(switches) = front.switches {
        metrics.insert(Metric::Migrations.key().to_owned(), switches.migrations as f64);
        metrics.insert(Metric::Preemptions.key().to_owned(), switches.preemptions as f64);
    }
    if let Some(percent) = front.cpu_while_runnable_percent {
        metrics.insert(Metric::CpuWhileRunnable.key().to_owned(), percent);
    }
    if !reports.is_empty() {
        let cpu_ms: f64 = reports.iter().map(|beside| beside.cpu_ms).sum();
        metrics.insert(Metric::Background.key().to_owned(), 100.0 * cpu_ms / lasted_ms);
    }
    if reports.iter().any(|beside| beside.moved_bytes.is_some()) {
        let moved_bytes: u64 = reports.iter().filter_map(|beside| beside.moved_bytes).sum();
        let mib_per_s = moved_bytes as f64 / f64::from(1 << 20) / (lasted_ms / 1000.0);
        metrics.insert(Metric::BackgroundRate.key().to_owned(), mib_per_s);
    }
    let (periods, missed) =
        reports.iter().fold((0, 0), |(periods, missed), beside| (periods + beside.periods, missed + beside.missed));
    if periods > 0 {
        metrics.insert(Metric::MusicMissed.key().to_owned(), 100.0 * f64::from(missed) / f64::from(periods));
    }
    metrics
}

fn core_figures(counts: CoreCounts) -> impl Iterator<Item = (String, f64)> {
    let figures = [
        (Metric::CoreChanges, Some(counts.changes)),
        (Metric::CoreChangesChild, counts.child_changes),
        (Metric::CoreChangesBackground, counts.background_changes),
        (Metric::SharedCores, counts.shared),
        (Metric::AllOnOneCore, counts.all_shared),
    ];
    figures.into_iter().filter_map(|(metric, count)| Some((metric.key().to_owned(), f64::from(count?))))
}

/// A running task; dropping it ends it.
pub(super) struct RunningTask {
    child: Child,
    commands: Option<ChildStdin>,
    what: String,
}

impl RunningTask {
    pub(super) fn spawn(mut command: Command, what: String) -> anyhow::Result<Self> {
        let program = command.get_program().to_owned();
        let child = command.stdout(Stdio::piped()).spawn();
        let mut child = child.with_context(|| format!("cannot start {}", program.display()))?;
        let commands = child.stdin.take();
        Ok(Self { child, commands, what })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Starts the period that its report covers.
    pub(super) fn begin(&mut self) -> anyhow::Result<()> {
        let commands = self.commands.as_mut().context("it has ended")?;
        commands.write_all(b"begin\n").with_context(|| format!("{} does not accept commands", self.what))
    }

    /// Ends it, and returns its report.
    pub(super) fn end<T: DeserializeOwned>(mut self) -> anyhow::Result<T> {
        drop(self.commands.take());
        let stdout = self.child.stdout.take().context("it has no stdout")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let status = self.child.wait()?;
        if !status.success() {
            bail!("{} ended with {status}", self.what);
        }
        serde_json::from_slice(line.as_bytes()).with_context(|| format!("{} printed {line:?}", self.what))
    }
}

impl Drop for RunningTask {
    fn drop(&mut self) {
        drop(self.commands.take());
        // A task that has exited cannot be killed, and is only waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Workload;
    use brisk_sys::sched::thread_switches::Switches;

    // Verifies PLACE-6.
    #[test]
    fn only_root_measures_placement_here() {
        let combinations =
            Combinations { settle_ms: [0, 0], disk: None, network: None, grouped: false, list: Vec::new() };
        let arm = |text: &str| toml::from_str(&format!("name = \"a\"\ntitle = \"a\"\n{text}")).unwrap();
        for (text, guarded, is_root, refused) in [
            ("brisk = {}", true, false, true),
            ("brisk = {}", true, true, false),
            ("brisk = {}", false, false, false),
            ("", true, false, false),
        ] {
            let plan = Plan {
                independent: false,
                experiment: "x".into(),
                arms: vec![arm(text)],
                points: Vec::new(),
                scenario: None,
                workload: Workload::Combinations(combinations.clone()),
                guarded,
                replicates: Vec::new(),
            };
            assert_eq!(may_place(&plan, is_root).is_err(), refused, "{text} {guarded} {is_root}");
        }
    }

    #[test]
    fn the_figures_of_all_neighbours_are_combined() {
        let beside = |cpu_ms, periods, missed| BackgroundReport { cpu_ms, periods, missed, moved_bytes: None };
        let switches = Some(Switches { migrations: 3, preemptions: 40 });
        let front = ForegroundReport {
            foreground_ms: 900.0,
            median_ms: None,
            switches,
            cpu_while_runnable_percent: Some(62.5),
        };
        let found = figures(front, &[beside(50.0, 40, 1), beside(700.0, 0, 0)], 1000.0);
        let expected = [
            ("background_percent", 75.0),
            ("cpu_while_runnable_percent", 62.5),
            ("foreground_ms", 900.0),
            ("migrations", 3.0),
            ("music_missed_percent", 2.5),
            ("preemptions", 40.0),
        ];
        assert_eq!(found, expected.map(|(key, figure)| (key.to_owned(), figure)).into());
        let alone = ForegroundReport { switches: None, cpu_while_runnable_percent: None, ..front };
        assert_eq!(figures(alone, &[], 1000.0).len(), 1, "alone");
        let waiting = ForegroundReport { median_ms: Some(11.0), ..alone };
        let moved = BackgroundReport { moved_bytes: Some(6 << 20), ..beside(20.0, 0, 0) };
        let found = figures(waiting, &[moved, moved], 2000.0);
        assert_eq!((found["foreground_median_ms"], found["background_mib_per_s"]), (11.0, 6.0));
    }
}
