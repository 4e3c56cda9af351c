//! Boot experiments on the user's own device: each replicate is a real reboot.
//!
//! Each boot makes one step: it judges itself, if it is a replicate's, then arms the next one and reboots ([`series`]). After a
//! reboot, a unit or a script ([`means`]) runs `brisk prove --here --resume`. Only these files are changed and, where arms
//! differ in it, how Android's zygote preloads ([`preload`]). An arm's settings are reverted as soon as its boot has started,
//! so that no arm outlives one boot.

pub mod preload;
pub mod resume_method;
pub mod series;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde::Deserialize;

use super::conduct::{Findings, Run};
use super::metric::Metric;
use super::plan::{Line, Measured, Replicate};
use super::point::Point;
use super::runner;
use super::schedule::share;
use super::spec::{Arm, Experiment, Reboots};
use super::store::Store;
use brisk_base::notes::note;
use brisk_daemon::boot::{HoldOptions, watch};
use brisk_mechanism::boot::governor_hold::{self, HandOverStep};
use brisk_sys::cpu::cpufreq::Policies;
use brisk_sys::kernel;
use brisk_sys::system::android_properties;
use brisk_sys::{BootTime, Root};
use resume_method::ResumeMethod;
use series::{ArmedReplicate, Retry, Series, SeriesStep};

/// Period of the checks for an interrupt.
const POLL_PERIOD: Duration = Duration::from_millis(100);
/// `brisk boot hold` writes its report within this time of a completed boot.
const HOLD_REPORT_TIMEOUT: Duration = Duration::from_secs(10);
/// A requested reboot happens within this time.
const REBOOT_TIMEOUT: Duration = Duration::from_secs(600);

/// A series in the current boot.
#[derive(Debug)]
pub struct SeriesRunner<'a> {
    /// The device.
    pub root: &'a Root,
    /// What resumes the series after a reboot.
    pub means: ResumeMethod,
    /// This program.
    pub program: PathBuf,
    /// The run that is measured.
    pub run: Run<'a>,
    /// Becomes true when this program is to end.
    pub interrupted: &'a AtomicBool,
}

/// How a series, or its part in this boot, ended.
#[derive(Debug, PartialEq, Eq)]
pub enum SeriesEnding {
    /// Every replicate is measured.
    Complete,
    /// A replicate failed twice: the last reason.
    Failed(String),
    /// This program was ended, most likely by the reboot.
    Interrupted,
}

/// The outcome of a replicate's boot.
enum BootOutcome {
    Measured(Measured),
    Refused(String),
    Interrupted,
}

/// The part of the report of `brisk boot hold` that is used here.
#[derive(Debug, Deserialize)]
struct HoldReport {
    handed_back: Option<Vec<String>>,
    faults: Vec<String>,
}

/// Whether a series is under way on this device.
pub fn is_series_active(root: &Root) -> bool {
    ResumeMethod::of(root).is_some_and(|means| Series::is_active(&means.folder(root)))
}

/// What can be compared on a device.
#[derive(Debug, PartialEq, Eq)]
pub struct ComparableArms {
    /// The arms, by name.
    pub arms: Vec<String>,
    /// The other arms with the reason, for the user.
    pub unsupported_arms: Vec<String>,
}

/// The arms of `experiment` that this device supports. Its own boots have to be those of the stock arm.
///
/// # Errors
/// When a series would show nothing: why, and what to do.
pub fn comparable_arms(experiment: &Experiment, root: &Root) -> anyhow::Result<ComparableArms> {
    let policies = Policies::read(root).list;
    let can_be_held = policies.iter().any(|policy| governor_hold::step(policy, None) == HandOverStep::Hold);
    let unsupported_reason = |arm: &Arm| {
        let no_hold = "no cpufreq policy of this device can be held at performance";
        let hold = (arm.boot_hold && !can_be_held).then_some(no_hold);
        hold.or_else(|| preload::unsupported_reason(root, arm.preload))
    };
    let mut comparable_arms = ComparableArms { arms: Vec::new(), unsupported_arms: Vec::new() };
    for arm in &experiment.arms {
        match unsupported_reason(arm) {
            None => comparable_arms.arms.push(arm.name.clone()),
            Some(why) => comparable_arms.unsupported_arms.push(format!("{}: {why}", arm.name)),
        }
    }
    let baseline = &experiment.arms[experiment.baseline()].name;
    ensure!(
        comparable_arms.arms.len() > 1 && comparable_arms.arms.contains(baseline),
        "boots of this device would not differ; {}",
        comparable_arms.unsupported_arms.join("; ")
    );
    let command_line = root.read("/proc/cmdline").unwrap_or_default();
    let by_kernel = command_line.contains("boot hold") || command_line.contains("androidboot.brisk=hold");
    let by_property = android_properties::value(root, "ro.boot.brisk").as_deref() == Some("hold");
    let folders = root.list("/etc/systemd/system").unwrap_or_default();
    let wants = |folder: &String| root.path(format!("/etc/systemd/system/{folder}/brisk-boot-hold.service"));
    let is_enabled = folders.iter().filter(|folder| folder.ends_with(".wants")).any(|it| wants(it).is_symlink());
    ensure!(
        !by_kernel && !by_property && !is_enabled,
        "this device boots with brisk boot hold already, so there is no stock boot: disable that first (systemctl \
         disable brisk-boot-hold, or remove the word from the kernel's command line)"
    );
    Ok(comparable_arms)
}

impl SeriesRunner<'_> {
    /// Judges the boot under way if it is a replicate's, then arms the next replicate and reboots.
    ///
    /// # Errors
    /// When something cannot be written, or the device does not reboot. The caller then removes the series.
    pub fn continue_series(&self, store: &mut Store, findings: &mut Findings) -> anyhow::Result<SeriesEnding> {
        let reboots = self.run.experiment.reboots.context("an experiment with reboots says [reboots]")?;
        let boot = kernel::boot_id(self.root).context("this kernel does not say which boot this is")?;
        if findings.device().is_none() {
            add(Line::Device { device: runner::describe(self.root, None)? }, store, findings)?;
        }
        let series = Series::read(&self.folder())?.unwrap_or_default();
        let again = match series.step(&boot) {
            SeriesStep::Arm(again) => again,
            SeriesStep::Reboot => return self.reboot(series),
            SeriesStep::Judge(armed) => match self.judge(&series, &armed, reboots)? {
                BootOutcome::Interrupted => return Ok(SeriesEnding::Interrupted),
                BootOutcome::Measured(measured) => add(Line::Measured(measured), store, findings).map(|()| None)?,
                BootOutcome::Refused(reason) => {
                    eprintln!("this boot does not count: {reason}");
                    let measured = self.measured(&self.replicate(armed.replicate)?);
                    let again = armed.next_retry();
                    if again.is_none() {
                        let rejected = Measured { rejected: Some(reason.clone()), ..measured };
                        add(Line::Measured(rejected), store, findings)?;
                        return Ok(SeriesEnding::Failed(reason));
                    }
                    let note = format!("A boot of {} did not count and was run again: {reason}.", measured.arm);
                    add(Line::Note { note }, store, findings)?;
                    again
                }
            },
        };
        store.sync()?;
        let series = Series { armed: None, again, ..series };
        series.write(&self.folder())?;
        let left = self.left(findings);
        let next = match again {
            Some(Retry { replicate, tries }) => (self.replicate(replicate)?, tries),
            None => match left.first() {
                Some(&next) => (next, 0),
                None => return Ok(SeriesEnding::Complete),
            },
        };
        let (count, seconds) = (left.len(), reboots.settle_s);
        note!("{count} reboots are left, the next one is in {seconds} s; brisk prove --here --stop ends it");
        if !self.sleep_unless_interrupted(Duration::from_secs(seconds.into())) {
            return Ok(SeriesEnding::Interrupted);
        }
        self.arm(series, next, boot)
    }

    /// Records the replicate of the next boot, sets its arm, and reboots.
    fn arm(&self, series: Series, (replicate, tries): (Replicate, u32), boot: String) -> anyhow::Result<SeriesEnding> {
        let in_order = !self.means.signals_shutdown();
        let armed = ArmedReplicate { replicate: replicate.id, tries, armed_by: boot, in_order };
        let series = Series { armed: Some(armed), again: None, ..series };
        series.write(&self.folder())?;
        let arm = &self.run.experiment.arms[replicate.arm];
        self.means.set_hold(self.root, &self.program, arm.boot_hold)?;
        if preload::is_compared(self.run.experiment) {
            self.means.set_preload(self.root, arm.preload.mode())?;
        }
        self.reboot(series)
    }

    /// The replicates that are missing in `findings`, in order; warm-ups come first.
    fn left(&self, findings: &Findings) -> Vec<Replicate> {
        let all = self.schedule().into_iter();
        all.filter(|replicate| !findings.has(replicate.id)).collect()
    }

    fn schedule(&self) -> Vec<Replicate> {
        share(&self.run.design(), 0, 1, &BTreeSet::new())
    }

    fn replicate(&self, id: u32) -> anyhow::Result<Replicate> {
        let found = self.schedule().into_iter().find(|replicate| replicate.id == id);
        found.with_context(|| format!("replicate {id} is none of this experiment's"))
    }

    fn folder(&self) -> PathBuf {
        self.means.folder(self.root)
    }

    /// A replicate's line before its figures are measured.
    fn measured(&self, replicate: &Replicate) -> Measured {
        Measured {
            replicate: replicate.id,
            arm: self.run.experiment.arms[replicate.arm].name.clone(),
            point: Point::Boot.to_string(),
            metrics: Default::default(),
            events: Default::default(),
            courses: Default::default(),
            processes: Default::default(),
            rejected: None,
        }
    }

    /// Waits until the current boot is complete, then determines its duration and whether it is one of its arm.
    fn judge(&self, series: &Series, armed: &ArmedReplicate, reboots: Reboots) -> anyhow::Result<BootOutcome> {
        // Whatever the outcome of this boot, the next one has the device's own settings.
        self.means.unset(self.root, &self.program)?;
        let judging = ArmedReplicate { in_order: false, ..armed.clone() };
        Series { armed: Some(judging), again: None, ..series.clone() }.write(&self.folder())?;
        if !armed.in_order {
            let reason = "it did not follow from the requested reboot: the power was cut, or the user reset the device";
            return Ok(BootOutcome::Refused(reason.to_owned()));
        }
        let limit = Duration::from_secs(reboots.limit_s.into());
        let sign = self.means.sign();
        let watched = watch(&HoldOptions {
            root: self.root.clone(),
            first_process: false,
            recording: None,
            hold: None,
            signs: vec![sign.clone()],
            timeout: limit.saturating_sub(BootTime::now().since(BootTime::default())),
        })?;
        if self.interrupted.load(Ordering::Relaxed) {
            return Ok(BootOutcome::Interrupted);
        }
        if watched.ended != sign.to_string() {
            let reason = format!("it had not completed {} s after the kernel's start", reboots.limit_s);
            return Ok(BootOutcome::Refused(reason));
        }
        let replicate = self.replicate(armed.replicate)?;
        let arm = &self.run.experiment.arms[replicate.arm];
        let found = || {
            let mut metrics = self.means.boot_times(&watched)?;
            self.check_hold(arm.boot_hold)?;
            if preload::is_compared(self.run.experiment) {
                let took_ms = preload::took_ms(self.root, arm.preload.mode())?;
                metrics.insert(Metric::Preload.key().to_owned(), took_ms);
            }
            anyhow::Ok(metrics)
        };
        Ok(match found() {
            Ok(metrics) => BootOutcome::Measured(Measured { metrics, ..self.measured(&replicate) }),
            Err(error) => BootOutcome::Refused(format!("{error:#}")),
        })
    }

    /// Checks that governors were held in this boot if and only if the arm asks for it.
    fn check_hold(&self, wanted: bool) -> anyhow::Result<()> {
        let path = resume_method::hold_report(self.root);
        if !wanted {
            ensure!(!path.exists(), "governors were held, but this arm is stock");
            return Ok(());
        }
        let limit = BootTime::now() + HOLD_REPORT_TIMEOUT;
        loop {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            // The report is written in pieces, and other text may follow it.
            let mut reports = serde_json::Deserializer::from_slice(text.as_bytes()).into_iter();
            if let Some(Ok(HoldReport { handed_back, faults })) = reports.next() {
                let held = handed_back.unwrap_or_default();
                ensure!(!held.is_empty() && faults.is_empty(), "brisk boot hold held {held:?}: {}", faults.join("; "));
                return Ok(());
            }
            ensure!(BootTime::now() < limit, "brisk boot hold does not report that it has held anything");
            std::thread::sleep(POLL_PERIOD);
        }
    }

    /// Waits; false when this program is interrupted meanwhile.
    fn sleep_unless_interrupted(&self, length: Duration) -> bool {
        let until = BootTime::now() + length;
        while BootTime::now() < until {
            if self.interrupted.load(Ordering::Relaxed) {
                return false;
            }
            std::thread::sleep(POLL_PERIOD);
        }
        true
    }

    /// Requests the reboot, which ends this program, and records that it ended in order.
    fn reboot(&self, mut series: Series) -> anyhow::Result<SeriesEnding> {
        if self.interrupted.load(Ordering::Relaxed) {
            return Ok(SeriesEnding::Interrupted);
        }
        self.means.reboot(self.root)?;
        if self.sleep_unless_interrupted(REBOOT_TIMEOUT) {
            bail!("this device does not reboot, though it was asked to");
        }
        if let Some(armed) = &mut series.armed {
            armed.in_order = true;
            series.write(&self.folder())?;
        }
        Ok(SeriesEnding::Interrupted)
    }
}

/// Stores a line, and adds it to the findings.
fn add(line: Line, store: &mut Store, findings: &mut Findings) -> anyhow::Result<()> {
    store.add(&line)?;
    findings.add(line);
    Ok(())
}

#[cfg(test)]
mod tests;
