//! A whole device around its applications: services that they look up, and background programs.

use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use super::super::combinations::Playing;
use super::super::driver::Driver;
use super::cost::Cost;
use crate::lookup::Cast;
use crate::spec::{Arm, Neighbour, Together};
use crate::tasks::Beside;
use brisk_sys::Root;
use brisk_sys::cpu::energy::{Meter, Reading};

/// A whole device around the applications, until it is dropped.
pub(super) struct ApplicationSurroundings {
    neighbours: Vec<Playing>,
    meter: Meter,
    before: Reading,
    hits_before: u64,
    lookups: u32,
    _services: Cast,
}

/// The surroundings' figures for a replicate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Told {
    pub(super) energy_mj: f64,
    /// The share of missed periods of music.
    pub(super) music_missed_percent: Option<f64>,
    /// Lookups of each opening.
    pub(super) lookups: u32,
    /// The CPU time of the daemon and its processes, where there is a daemon.
    pub(super) cost: Option<Cost>,
}

impl ApplicationSurroundings {
    /// Sets the driver's cache for `arm`, and starts the manager, the services and the background.
    pub(super) fn start(root: &Root, together: &Together, arm: &Arm, turns_per_ms: u64) -> anyhow::Result<Self> {
        let driver = Driver::of(root, arm)?;
        let services = driver.start(together.services)?;
        let start = |what: &Neighbour| {
            let mut command = Command::new(std::env::current_exe()?);
            command.args(["task", "--beside", what.name(), "--rounds", "1", "--turns-per-ms"]);
            command.arg(turns_per_ms.to_string()).stdin(Stdio::piped());
            Playing::spawn(command, format!("brisk task --beside {}", what.name()))
        };
        let mut neighbours = together.background.iter().map(start).collect::<anyhow::Result<Vec<_>>>()?;
        neighbours.iter_mut().try_for_each(Playing::begin)?;
        let meter = Meter::find(root).context("this device has no meter of energy")?;
        let before = meter.read(root)?;
        let hits_before = driver.answered();
        let lookups = together.lookups;
        Ok(Self { neighbours, meter, before, hits_before, lookups, _services: services })
    }

    /// Ends the background, and returns the figures together with the daemon's `cost`.
    pub(super) fn end(self, root: &Root, arm: &Arm, cost: Option<Cost>) -> anyhow::Result<Told> {
        let energy_uj = self.meter.energy_uj(&self.before, &self.meter.read(root)?);
        let told = self.neighbours.into_iter().map(Playing::end).collect::<anyhow::Result<Vec<Beside>>>()?;
        let (periods, missed) =
            told.iter().fold((0, 0), |(periods, missed), one| (periods + one.periods, missed + one.missed));
        let driver = Driver::of(root, arm)?;
        let hits = driver.answered() - self.hits_before;
        let is_on = driver.keeps_answers() || daemon_keeps_answers(arm);
        if is_on != (hits > 0) {
            bail!(
                "the driver's cache answered {hits} lookups, but the arm has it {}",
                if is_on { "on" } else { "off" }
            );
        }
        let music_missed_percent = (periods > 0).then(|| 100.0 * f64::from(missed) / f64::from(periods));
        let energy_mj = energy_uj as f64 / 1000.0;
        Ok(Told { energy_mj, music_missed_percent, lookups: self.lookups, cost })
    }
}

/// How an application of `arm` finds its services, as arguments of `brisk application`.
pub(super) fn arguments(root: &Root, together: &Together, arm: &Arm) -> anyhow::Result<Vec<String>> {
    let Driver { device, format, .. } = Driver::of(root, arm)?;
    Ok(vec![
        format!("--lookups={}", together.lookups),
        format!("--services={}", together.services),
        format!("--binder={}", device.display()),
        format!("--format={}", format.name),
    ])
}

/// True when the arm's daemon switches the driver's cache on.
fn daemon_keeps_answers(arm: &Arm) -> bool {
    let enabled = arm.brisk.as_ref().and_then(|brisk| brisk.get("lookup")?.get("enabled")?.as_bool());
    enabled == Some(true)
}
