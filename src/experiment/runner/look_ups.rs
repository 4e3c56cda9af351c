//! Look-ups: an arm's context manager and services are started, looked up, and ended again.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, bail};

use super::describe;
use crate::device::Root;
use crate::device::binder::cache::{self, CacheSettings};
use crate::device::binder::{Connection, WireFormat};
use crate::device::ticks::TickUnit;
use crate::experiment::claim::Metric;
use crate::experiment::lookup::{Cast, Client, LookUps, Manager};
use crate::experiment::plan::{Line, Measured, Plan, Replicate};
use crate::experiment::spec::{self, LookUpArm};
use crate::mechanism::lookup::services::names;

/// The context that is measured.
const DEVICE: &str = "/dev/binder";
const CONTEXT: &str = "binder";
const MAP_BYTES: usize = 128 * 1024;

/// Runs the replicates of `plan`; see [`super::run`].
pub(super) fn run(
    plan: &Plan,
    workload: &spec::LookUps,
    root: &Root,
    interrupted: &AtomicBool,
    report: &mut dyn FnMut(&Line) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    report(&Line::Device { device: describe(root, None)? })?;
    for replicate in &plan.replicates {
        if interrupted.load(Ordering::Relaxed) {
            break;
        }
        let (Some(arm), Some(point)) = (plan.arms.get(replicate.arm), plan.points.get(replicate.point)) else {
            bail!("replicate {} names an arm or a point that the plan has not", replicate.id);
        };
        let look_up = arm.look_up.as_ref().with_context(|| format!("arm {} does not say who answers", arm.name))?;
        report(&Line::Started { started: replicate.id })?;
        let outcome = measure(replicate, workload, look_up, root).with_context(|| format!("arm {}", arm.name));
        let (metrics, rejected) = match outcome {
            Ok(metrics) => (metrics, None),
            Err(error) => (BTreeMap::new(), Some(format!("{error:#}"))),
        };
        report(&Line::Measured(Measured {
            replicate: replicate.id,
            arm: arm.name.clone(),
            point: point.to_string(),
            metrics,
            rejected,
        }))?;
    }
    Ok(())
}

fn measure(
    replicate: &Replicate,
    workload: &spec::LookUps,
    arm: &LookUpArm,
    root: &Root,
) -> anyhow::Result<BTreeMap<String, f64>> {
    let format = WireFormat::named(&arm.format).with_context(|| format!("there is no format {}", arm.format))?;
    let settings = CacheSettings { root, context: CONTEXT, files: &arm.cache, profile: format.transparent_profile() };
    settings.apply()?;
    let device = Path::new(DEVICE);
    let _cast = Cast::start(device, format, &Manager::named(&arm.manager), workload.services as usize)?;
    let mut client = Client::new(Connection::open(device, MAP_BYTES)?, format);
    let names = names(workload.services as usize);
    let plan =
        LookUps { code: format.check_code(), names: &names, count: workload.count as usize, seed: replicate.seed };
    let answered =
        || cache::status_of(root, CONTEXT).map_or(0, |status| status.counters.get("hits").copied().unwrap_or(0));
    let before = answered();
    let measured = plan.measure(&mut client)?;
    let hits = answered() - before;
    let misses = plan.misses(&mut client, workload.misses as usize, &mut || Ok(settings.forget()?))?;
    if measured.unit != TickUnit::Instructions {
        bail!("the processor's counter does not count instructions here");
    }
    let is_on = arm.cache.get("mode").is_some_and(|mode| mode != "off");
    if is_on != (hits > 0) {
        bail!("the driver's cache answered {hits} look-ups with the settings {:?}", arm.cache);
    }
    let figures = [
        (Metric::LookUp, measured.call.p50),
        (Metric::LookUpMean, measured.call.mean),
        (Metric::LookUpP99, measured.call.p99),
        (Metric::Miss, misses.p50),
        (Metric::EmptyCall, measured.floors.empty_call),
        (Metric::ReferencePair, measured.floors.reference_pair),
    ];
    Ok(figures.map(|(metric, figure)| (metric.key().to_owned(), figure)).into())
}
