//! Runs a plan on this device: a guest of the lab or the user's own.

#[cfg(feature = "lab")]
mod activity_manager;
#[cfg(feature = "lab")]
mod applications;
#[cfg(feature = "lab")]
mod arm_groups;
mod background;
mod boot_hold;
#[cfg(feature = "lab")]
mod boots;
#[cfg(feature = "lab")]
mod cached_applications;
#[cfg(feature = "lab")]
mod cgroup_version_1;
#[cfg(feature = "lab")]
mod combinations;
#[cfg(feature = "lab")]
mod core_samples;
mod daemon;
#[cfg(feature = "lab")]
mod disk;
#[cfg(feature = "lab")]
mod driver;
#[cfg(feature = "lab")]
mod frequency_samples;
#[cfg(feature = "lab")]
mod groups_by_hand;
mod launch;
#[cfg(feature = "lab")]
mod locked_memory;
#[cfg(feature = "lab")]
mod lookups;
#[cfg(feature = "lab")]
pub mod network;
#[cfg(feature = "lab")]
mod process_groups;
mod readings;
#[cfg(feature = "lab")]
mod sampler;
mod settings;
#[cfg(feature = "lab")]
mod surroundings;
#[cfg(feature = "lab")]
mod swap_device;
#[cfg(feature = "lab")]
mod zygote;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::thread::ClockId;
use rustix::time::Timespec;

use super::load::{self, FirstScreen};
use super::metric::Metric;
use super::plan::{Line, Measured, Plan, ProcessCourse, Replicate, StepMetric};
use super::point::Point;
use super::spec::{Arm, Launches, Workload};
use background::Background;
use boot_hold::BootHold;
use brisk_report::proof::DeviceDescription;
use brisk_sys::cpu::energy::{Meter, Reading};
use brisk_sys::memory::meminfo;
use brisk_sys::{BootTime, Root};
use brisk_undo::guardian::Guardian;
use brisk_undo::journal::Holder;
use daemon::Daemon;
use settings::RunnerSettings;

/// The launched program's name, for the daemon's filters (`filter.commands`).
const APPLICATION: &str = "application";
/// The runner's own name, for the daemon's filters (`filter.parents`).
const LAUNCHER: &std::ffi::CStr = c"launcher";

/// Period of the readings of a meter of momentary power.
const POWER_PERIOD: Duration = Duration::from_millis(100);

/// Number and period of the wake-ups before a rest.
const WAKE_UPS: (u32, Duration) = (20, Duration::from_millis(25));

/// The state of a run of launches.
struct Runner<'a> {
    workload: &'a Launches,
    root: &'a Root,
    folder: PathBuf,
    settings: RunnerSettings,
    meter: Option<Meter>,
    turns_per_ms: u64,
    application: PathBuf,
}

/// Runs the replicates of `plan` in their order and passes every line to `report` as soon as it is known. Ends early, with
/// everything restored, when `interrupted` becomes true.
///
/// # Errors
/// When the device lacks what the workload needs (cpufreq, binder), an arm cannot be set, or a line cannot be reported. A
/// failure within one replicate rejects only that replicate.
pub fn run(
    plan: &Plan,
    root: &Root,
    interrupted: &AtomicBool,
    report: &mut dyn FnMut(&Line) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    match &plan.workload {
        Workload::Launches(workload) => run_launches(plan, workload, root, interrupted, report),
        Workload::Readings(readings) => readings::run(plan, *readings, root, interrupted, report),
        #[cfg(feature = "lab")]
        Workload::Lookups(workload) => lookups::run(plan, workload, root, interrupted, report),
        #[cfg(feature = "lab")]
        Workload::Applications(openings) => applications::run(plan, openings, root, interrupted, report),
        #[cfg(feature = "lab")]
        Workload::Boots(boots) => boots::run(plan, *boots, root, interrupted, report),
        #[cfg(feature = "lab")]
        Workload::Combinations(list) => combinations::run(plan, list, root, interrupted, report),
        #[cfg(not(feature = "lab"))]
        Workload::Applications(_) | Workload::Boots(_) | Workload::Lookups(_) => {
            bail!(
                "services, applications and zygotes are measured in the lab only, and this brisk was built without it"
            )
        }
    }
}

fn run_launches(
    plan: &Plan,
    workload: &Launches,
    root: &Root,
    interrupted: &AtomicBool,
    report: &mut dyn FnMut(&Line) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    rustix::thread::set_name(LAUNCHER)?;
    let folder = runtime_folder(root);
    let mut settings = RunnerSettings::open(&folder, root)?;
    let _guardian = if plan.guarded { Some(Guardian::start(Holder::Experiment, &folder, root)?) } else { None };
    settings.pin_at_maximum().context("cannot calibrate at the highest frequency")?;
    let turns_per_ms = load::turns_per_ms();
    settings.restore()?;
    let meter = Meter::find(root);
    report(&Line::Device { device: describe(root, meter.as_ref())? })?;
    let application = install(&folder, APPLICATION)?;
    let mut runner = Runner { workload, root, folder, settings, meter, turns_per_ms, application };
    run_replicates(plan, interrupted, report, |replicate, arm, point, finding| {
        runner.replicate(replicate, arm, point, &mut finding.metrics)
    })?;
    runner.settings.restore()
}

/// The figures of a replicate, by [`Metric::key`].
type Metrics = BTreeMap<String, f64>;

/// The findings of one replicate; see [`Measured`].
#[derive(Debug, Default)]
struct Finding {
    metrics: Metrics,
    events: BTreeMap<String, Vec<f64>>,
    courses: BTreeMap<StepMetric, Vec<f64>>,
    processes: BTreeMap<String, ProcessCourse>,
}

/// Passes every replicate of `plan` to `measure`, in order, until `interrupted` becomes true. The inner error of `measure`
/// rejects one replicate; the outer error ends the run.
fn run_replicates(
    plan: &Plan,
    interrupted: &AtomicBool,
    report: &mut dyn FnMut(&Line) -> anyhow::Result<()>,
    mut measure: impl FnMut(&Replicate, &Arm, &Point, &mut Finding) -> anyhow::Result<anyhow::Result<()>>,
) -> anyhow::Result<()> {
    for replicate in &plan.replicates {
        if interrupted.load(Ordering::Relaxed) {
            break;
        }
        let (Some(arm), Some(point)) = (plan.arms.get(replicate.arm), plan.points.get(replicate.point)) else {
            bail!("replicate {} names an unknown arm or point", replicate.id);
        };
        report(&Line::Started { started: replicate.id })?;
        let mut finding = Finding::default();
        let outcome = measure(replicate, arm, point, &mut finding)?;
        let Finding { metrics, events, courses, processes } = finding;
        report(&Line::Measured(Measured {
            replicate: replicate.id,
            arm: arm.name.clone(),
            point: point.to_string(),
            metrics,
            events,
            courses,
            processes,
            rejected: outcome.err().map(|error| format!("{error:#}")),
        }))?;
    }
    Ok(())
}

/// The folder of the runner's journal, its link to the application and the daemon's configuration. Not the daemon's own folder:
/// both hold a journal at the same time.
pub fn runtime_folder(root: &Root) -> PathBuf {
    Holder::Experiment.folder(root)
}

impl Runner<'_> {
    fn replicate(
        &mut self,
        replicate: &Replicate,
        arm: &Arm,
        point: &Point,
        metrics: &mut Metrics,
    ) -> anyhow::Result<anyhow::Result<()>> {
        self.settings.apply(arm).with_context(|| format!("cannot set the arm {}", arm.name))?;
        let mut daemon = match &arm.brisk {
            Some(configuration) => Some(Daemon::start(self.root, &self.folder, configuration)?),
            None => None,
        };
        let hold = if arm.boot_hold { Some(BootHold::start(self.root, &self.folder, None)?) } else { None };
        wake_cpu_for_governors();
        let places = arm.brisk.as_ref().is_some_and(|configuration| configuration.contains_key("placement"));
        let mut outcome = self.measure(replicate, (arm, point), daemon.as_ref().filter(|_| places), metrics);
        if let Some(hold) = hold {
            outcome = outcome.and(hold.end());
        }
        if let Some(daemon) = &mut daemon {
            match daemon.actions() {
                Ok(actions) => drop(metrics.insert(Metric::Actions.key().to_owned(), actions as f64)),
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
        Ok(outcome)
    }

    /// Rests, then measures the point; an error rejects the replicate. `daemon` receives the application as foreground.
    fn measure(
        &self,
        replicate: &Replicate,
        (arm, point): (&Arm, &Point),
        daemon: Option<&Daemon>,
        metrics: &mut Metrics,
    ) -> anyhow::Result<()> {
        #[cfg(feature = "lab")]
        let mut surroundings = surroundings::Surroundings::start(self, arm, replicate.seed)?;
        let rest_until = BootTime::now() + Duration::from_micros(replicate.settle_us);
        let load = self.workload.background.as_ref();
        let background = load.map(|load| Background::start(load, self.turns_per_ms, replicate.seed)).transpose()?;
        sleep_until(rest_until);
        let mut readings = Vec::from_iter(self.reading());
        let started = BootTime::now();
        match *point {
            Point::Work(work_ms) => {
                let window_ms = work_ms + self.workload.window_beyond_work_ms;
                let window = Duration::from_millis(u64::from(window_ms));
                #[cfg(feature = "lab")]
                let (launched, screen) = match surroundings.open(work_ms)? {
                    Some(screen) => (None, screen),
                    None => self.launch(work_ms, &surroundings.arguments(work_ms), daemon)?,
                };
                #[cfg(not(feature = "lab"))]
                let ((launched, screen), _) = (self.launch(work_ms, &[], daemon)?, arm);
                if BootTime::now() >= started + window {
                    bail!("the launch took longer than the window");
                }
                if self.workload.energy {
                    self.sample_energy_until(started + window, &mut readings);
                }
                #[cfg(feature = "lab")]
                surroundings.end(metrics)?;
                drop(launched);
                metrics.insert(Metric::Launch.key().to_owned(), screen.launch_ms(started));
                metrics.insert(Metric::Basic.key().to_owned(), screen.basic_ms(started));
            }
            Point::Idle(idle_ms) => {
                self.sample_energy_until(started + Duration::from_millis(u64::from(idle_ms)), &mut readings);
            }
            Point::Lookups(_)
            | Point::Clients(_)
            | Point::Application(_)
            | Point::Openings(_)
            | Point::Readings(_)
            | Point::Combination(_)
            | Point::Boot => {
                bail!("a plan of launches has a point of another workload")
            }
        }
        drop(background);
        if let (Some(meter), true) = (&self.meter, readings.len() > 1) {
            let energy_uj: u64 = readings.windows(2).map(|pair| meter.energy_uj(&pair[0], &pair[1])).sum();
            metrics.insert(Metric::Energy.key().to_owned(), energy_uj as f64 / 1000.0);
        }
        Ok(())
    }

    /// Launches the application, which lives as long as the result, and waits for its first screen.
    fn launch(
        &self,
        work_ms: u32,
        arguments: &[String],
        daemon: Option<&Daemon>,
    ) -> anyhow::Result<(Option<launch::Application>, FirstScreen)> {
        let mut launched = launch::Application::start(self, work_ms, arguments)?;
        daemon.map_or(Ok(()), |daemon| daemon.set_foreground(launched.pid()))?;
        let screen = launched.first_screen()?;
        Ok((Some(launched), screen))
    }

    fn reading(&self) -> Option<Reading> {
        self.meter.as_ref()?.read(self.root).ok()
    }

    /// Sleeps until `until` and then reads the meter; a meter of momentary power is also read in between.
    fn sample_energy_until(&self, until: BootTime, readings: &mut Vec<Reading>) {
        if self.meter.as_ref().is_some_and(|meter| !meter.accumulates()) {
            let mut next = BootTime::now() + POWER_PERIOD;
            while next < until {
                sleep_until(next);
                readings.extend(self.reading());
                next = next + POWER_PERIOD;
            }
        }
        sleep_until(until);
        readings.extend(self.reading());
    }
}

/// Wakes the CPU a few times. Governors do not wake an idle CPU to sample it: without this, a launch after a long rest might
/// begin at the frequency of the previous arm.
fn wake_cpu_for_governors() {
    let (count, period) = WAKE_UPS;
    for _ in 0..count {
        sleep_until(BootTime::now() + period);
    }
}

/// Sleeps until the moment `until`, or until a signal comes.
fn sleep_until(until: BootTime) {
    let nanoseconds = until.nanoseconds();
    let moment = Timespec { tv_sec: (nanoseconds / 1_000_000_000) as i64, tv_nsec: (nanoseconds % 1_000_000_000) as _ };
    // The only failure of a valid moment is EINTR; the caller then goes on as if the time had come.
    let _ = rustix::thread::clock_nanosleep_absolute(ClockId::Boottime, &moment);
}

/// Makes this program launchable under the name of an application.
fn install(folder: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let link = folder.join(name);
    let _ = fs::remove_file(&link);
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    symlink(program, &link).with_context(|| format!("cannot make {}", link.display()))?;
    Ok(link)
}

pub(super) fn describe(root: &Root, meter: Option<&Meter>) -> anyhow::Result<DeviceDescription> {
    let system = rustix::system::uname();
    let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
    let processors = root.read("/proc/cpuinfo")?;
    let field = |text: &str, key: &str| {
        let line = text.lines().find(|line| line.starts_with(key))?;
        line.split_once(':').map(|(_, value)| value.trim().to_owned())
    };
    let name = ["model name", "Hardware", "Model"].iter().find_map(|key| field(&processors, key));
    Ok(DeviceDescription {
        place: "here".into(),
        kernel: format!("{} {}", text(system.release()), text(system.version())),
        processor: name.unwrap_or_else(|| text(system.machine())),
        cpu_count: u32::try_from(std::thread::available_parallelism()?.get())?,
        memory_kib: meminfo::read(root).map_or(0, |memory| memory.total_kib),
        energy_source: meter.map(|meter| meter.source().label().to_owned()),
    })
}
