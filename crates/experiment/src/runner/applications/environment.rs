//! A whole device around its applications: services that they look up, and background programs.

use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use super::super::combinations::RunningTask;
use super::super::driver::Driver;
use super::super::process_groups::{Place, ProcessGroups};
use super::cost::Cost;
use crate::lookup::LookupProcesses;
use crate::spec::{Arm, BackgroundProgram, DeviceEnvironment};
use crate::tasks::BackgroundReport;
use brisk_sys::Root;
use brisk_sys::cpu::energy::{Meter, Reading};

/// A whole device around the applications, until it is dropped.
pub(super) struct RunningEnvironment {
    background_programs: Vec<RunningTask>,
    meter: Meter,
    before: Reading,
    hits_before: u64,
    lookups: u32,
    _services: LookupProcesses,
}

/// The surroundings' figures for a replicate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct EnvironmentFigures {
    pub(super) energy_mj: f64,
    /// The share of missed periods of music.
    pub(super) music_missed_percent: Option<f64>,
    /// Lookups of each opening.
    pub(super) lookups: u32,
    /// The CPU time of the daemon and its processes, where there is a daemon.
    pub(super) cost: Option<Cost>,
}

impl RunningEnvironment {
    /// Sets the driver's cache for `arm`, and starts the manager, the services and the background.
    pub(super) fn start(
        root: &Root,
        together: &DeviceEnvironment,
        arm: &Arm,
        groups: Option<ProcessGroups<'_>>,
        turns_per_ms: u64,
    ) -> anyhow::Result<Self> {
        let driver = Driver::of(root, arm)?;
        let services = driver.start(together.services)?;
        let start = |what: &BackgroundProgram| {
            let mut command = Command::new(std::env::current_exe()?);
            command.args(["task", "--beside", what.name(), "--rounds", "1", "--turns-per-ms"]);
            command.arg(turns_per_ms.to_string()).arg(format!("--time-dilation={}", together.time_dilation));
            command.stdin(Stdio::piped());
            let task = RunningTask::spawn(command, format!("brisk task --beside {}", what.name()))?;
            if let Some(groups) = groups {
                let place = if what.is_music() { Place::Perceptible } else { Place::Background };
                groups.place(task.pid(), place)?;
            }
            Ok(task)
        };
        let mut background_programs = together.background.iter().map(start).collect::<anyhow::Result<Vec<_>>>()?;
        background_programs.iter_mut().try_for_each(RunningTask::begin)?;
        let meter = Meter::find(root).context("this device has no meter of energy")?;
        let before = meter.read(root)?;
        let hits_before = driver.answered();
        let lookups = together.lookups;
        Ok(Self { background_programs, meter, before, hits_before, lookups, _services: services })
    }

    /// Ends the background, and returns the figures together with the daemon's `cost`.
    pub(super) fn end(self, root: &Root, arm: &Arm, cost: Option<Cost>) -> anyhow::Result<EnvironmentFigures> {
        let energy_uj = self.meter.energy_uj(&self.before, &self.meter.read(root)?);
        let reports = self
            .background_programs
            .into_iter()
            .map(RunningTask::end)
            .collect::<anyhow::Result<Vec<BackgroundReport>>>()?;
        let (periods, missed) =
            reports.iter().fold((0, 0), |(periods, missed), one| (periods + one.periods, missed + one.missed));
        let driver = Driver::of(root, arm)?;
        let hits = driver.answered() - self.hits_before;
        let is_on = driver.is_cache_enabled() || daemon_enables_cache(arm);
        if is_on != (hits > 0) {
            bail!(
                "the driver's cache answered {hits} lookups, but the arm has it {}",
                if is_on { "on" } else { "off" }
            );
        }
        let music_missed_percent = (periods > 0).then(|| 100.0 * f64::from(missed) / f64::from(periods));
        let energy_mj = energy_uj as f64 / 1000.0;
        Ok(EnvironmentFigures { energy_mj, music_missed_percent, lookups: self.lookups, cost })
    }
}

/// How an application of `arm` finds its services, as arguments of `brisk application`.
pub(super) fn arguments(root: &Root, together: &DeviceEnvironment, arm: &Arm) -> anyhow::Result<Vec<String>> {
    let Driver { device, format, .. } = Driver::of(root, arm)?;
    Ok(vec![
        format!("--lookups={}", together.lookups),
        format!("--services={}", together.services),
        format!("--binder={}", device.display()),
        format!("--format={}", format.name),
    ])
}

/// True when the arm's daemon switches the driver's cache on.
fn daemon_enables_cache(arm: &Arm) -> bool {
    let enabled = arm.brisk.as_ref().and_then(|brisk| brisk.get("lookup")?.get("enabled")?.as_bool());
    enabled == Some(true)
}
