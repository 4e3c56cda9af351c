//! What a whole device has around its applications: services that they look up, and others at work in the background.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use super::super::combinations::Playing;
use crate::device::Root;
use crate::device::binder::WireFormat;
use crate::device::binder::cache::{self, CacheSettings};
use crate::device::energy::{Meter, Reading};
use crate::experiment::lookup::{Cast, Manager};
use crate::experiment::spec::{Arm, LookUpArm, Neighbour, Together};
use crate::experiment::tasks::Beside;

const DEVICES: &str = "/dev";

/// A whole device around the applications, until it is dropped.
pub(super) struct Surroundings {
    neighbours: Vec<Playing>,
    meter: Meter,
    before: Reading,
    hits_before: u64,
    _services: Cast,
}

/// What the surroundings measured of a replicate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Told {
    pub(super) energy_mj: f64,
    /// Of the periods of music, those that were missed.
    pub(super) music_missed_percent: Option<f64>,
}

impl Surroundings {
    /// Sets the driver's cache as `arm` says, and starts the manager, the services and the background.
    pub(super) fn start(root: &Root, together: &Together, arm: &Arm, turns_per_ms: u64) -> anyhow::Result<Self> {
        let look_up = of(arm)?;
        let (device, format) = binder(look_up)?;
        // The cache is as the arm says, whatever the arm before has left.
        let profile = format.transparent_profile();
        CacheSettings { root, context: &look_up.device, files: &look_up.cache, profile }.apply()?;
        let manager = Manager::named(&look_up.manager);
        let services = Cast::start(&device, format, &manager, together.services as usize)?;
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
        let hits_before = hits(root, look_up);
        Ok(Self { neighbours, meter, before, hits_before, _services: services })
    }

    /// Ends the background, and says what was measured.
    pub(super) fn end(self, root: &Root, arm: &Arm) -> anyhow::Result<Told> {
        let energy_uj = self.meter.energy_uj(&self.before, &self.meter.read(root)?);
        let told = self.neighbours.into_iter().map(Playing::end).collect::<anyhow::Result<Vec<Beside>>>()?;
        let (periods, missed) =
            told.iter().fold((0, 0), |(periods, missed), one| (periods + one.periods, missed + one.missed));
        let hits = hits(root, of(arm)?) - self.hits_before;
        let is_on = keeps_answers(arm);
        if is_on != (hits > 0) {
            bail!(
                "the driver's cache answered {hits} look-ups, and the arm has it {}",
                if is_on { "on" } else { "off" }
            );
        }
        let music_missed_percent = (periods > 0).then(|| 100.0 * f64::from(missed) / f64::from(periods));
        Ok(Told { energy_mj: energy_uj as f64 / 1000.0, music_missed_percent })
    }
}

/// How an application of `arm` finds its services, as arguments of `brisk application`.
pub(super) fn arguments(together: &Together, arm: &Arm) -> anyhow::Result<Vec<String>> {
    let look_up = of(arm)?;
    let (device, format) = binder(look_up)?;
    Ok(vec![
        format!("--look-ups={}", together.look_ups),
        format!("--services={}", together.services),
        format!("--binder={}", device.display()),
        format!("--format={}", format.name),
    ])
}

/// True when the arm, or its daemon, sets the driver's cache.
fn keeps_answers(arm: &Arm) -> bool {
    let by_daemon = arm.brisk.as_ref().and_then(|brisk| brisk.get("lookup")?.get("enabled")?.as_bool());
    let by_arm = arm.look_up.as_ref().and_then(|look_up| look_up.cache.get("mode"));
    by_daemon == Some(true) || by_arm.is_some_and(|mode| mode != "off")
}

fn hits(root: &Root, look_up: &LookUpArm) -> u64 {
    cache::status_of(root, &look_up.device).map_or(0, |status| status.counters.get("hits").copied().unwrap_or(0))
}

fn of(arm: &Arm) -> anyhow::Result<&LookUpArm> {
    arm.look_up.as_ref().with_context(|| format!("arm {} does not say who answers look-ups", arm.name))
}

fn binder(look_up: &LookUpArm) -> anyhow::Result<(PathBuf, &'static WireFormat)> {
    let Some(format) = WireFormat::named(&look_up.format) else { bail!("there is no format {}", look_up.format) };
    Ok((Path::new(DEVICES).join(&look_up.device), format))
}
