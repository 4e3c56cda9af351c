//! Lookups: starts an arm's context manager and services, looks services up, and ends them.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, bail};

use super::driver::Driver;
use super::{Metrics, describe, run_replicates};
use crate::lookup::{Client, Lookups, Replay, Replayed, Steps, crowd};
use crate::metric::Metric;
use crate::plan::{Line, Plan, Replicate};
use crate::point::Point;
use crate::spec;
use brisk_base::random::Random;
use brisk_mechanism::lookup::Traces;
use brisk_mechanism::lookup::services::names;
use brisk_sys::Root;
use brisk_sys::cpu::ticks::TickUnit;

/// A file of any binder driver; writing its own value to it changes nothing.
const PARAMETER: &str = "/sys/module/binder_linux/parameters/debug_mask";

/// Runs the replicates of `plan`; see [`super::run`].
pub(super) fn run(
    plan: &Plan,
    workload: &spec::Lookups,
    root: &Root,
    interrupted: &AtomicBool,
    report: &mut dyn FnMut(&Line) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    report(&Line::Device { device: describe(root, None)? })?;
    run_replicates(plan, interrupted, report, |replicate, arm, point, finding| {
        let driver = Driver::of(root, arm)?;
        let measured = measure(replicate, point, workload, driver, root);
        Ok(measured.map(|figures| finding.metrics = figures).with_context(|| format!("arm {}", arm.name)))
    })
}

/// An arm that is ready for lookups.
struct Arm<'a> {
    driver: Driver<'a>,
    workload: &'a spec::Lookups,
    root: &'a Root,
    seed: u64,
}

fn measure(
    replicate: &Replicate,
    point: &Point,
    workload: &spec::Lookups,
    driver: Driver<'_>,
    root: &Root,
) -> anyhow::Result<Metrics> {
    let arm = Arm { driver, workload, root, seed: replicate.seed };
    let _processes = arm.driver.start(workload.services)?;
    let names = names(workload.services as usize);
    let before = arm.driver.answered();
    let mut figures = match *point {
        Point::Lookups(_) => arm.sequential_lookups(&names)?,
        Point::Clients(clients) => vec![(Metric::LookupTime, arm.crowd(&names, clients)?)],
        Point::Application(index) => arm.application(&names, index)?,
        Point::Work(_)
        | Point::Idle(_)
        | Point::Openings(_)
        | Point::Readings(_)
        | Point::Combination(_)
        | Point::Boot => {
            bail!("a plan of lookups has a point of another workload")
        }
    };
    let hits = arm.driver.answered() - before;
    let is_on = arm.driver.is_cache_enabled();
    // All lookups of an application may be misses.
    if hits > 0 && !is_on || hits == 0 && is_on && !matches!(point, Point::Application(_)) {
        bail!("the driver's cache answered {hits} lookups with the settings {:?}", arm.driver.arm.cache);
    }
    if let Point::Application(_) = point
        && is_on
    {
        figures.push((Metric::HitShare, 100.0 * hits as f64 / f64::from(workload.count)));
    }
    Ok(figures.into_iter().map(|(metric, figure)| (metric.key().to_owned(), figure)).collect())
}

impl Arm<'_> {
    fn lookups<'a>(&self, names: &'a [String]) -> Lookups<'a> {
        Lookups { code: self.driver.format.check_code(), names, count: self.workload.count as usize, seed: self.seed }
    }

    /// One client: lookups, then misses.
    fn sequential_lookups(&self, names: &[String]) -> anyhow::Result<Vec<(Metric, f64)>> {
        let mut client = Client::open(&self.driver.device, self.driver.format)?;
        let plan = self.lookups(names);
        let measured = plan.measure(&mut client)?;
        let settings = self.driver.settings();
        // What a process did before affects the cost of its lookup: without a cache it writes to a file as well.
        let parameter = if self.driver.arm.cache.is_empty() { Some(self.root.read(PARAMETER)?) } else { None };
        let mut flush = || {
            let done = parameter.as_ref().map(|held| self.root.write(PARAMETER, held));
            Ok(done.unwrap_or_else(|| settings.flush())?)
        };
        let misses = plan.misses(&mut client, self.workload.misses as usize, &mut flush)?;
        if measured.unit != TickUnit::Instructions {
            bail!("the processor's counter does not count instructions here");
        }
        // Last, because it makes further lookups.
        let has_steps = self.workload.steps && self.driver.arm.cache.is_empty();
        let steps = if has_steps { plan.steps(&mut client, self.root)? } else { None };
        let mut figures = steps.map_or_else(Vec::new, |steps| step_shares(&steps, measured.request.mean));
        figures.extend([
            (Metric::Lookup, measured.call.p50),
            (Metric::LookupMean, measured.call.mean),
            (Metric::LookupP99, measured.call.p99),
            (Metric::Miss, misses.p50),
            (Metric::EmptyCall, measured.floors.empty_call),
            (Metric::ReferencePair, measured.floors.reference_pair),
        ]);
        Ok(figures)
    }

    fn crowd(&self, names: &[String], clients: u32) -> anyhow::Result<f64> {
        Ok(crowd(&self.driver.device, self.driver.format, &self.lookups(names), clients)?)
    }

    /// The first lookups of a modelled application, as the users whose processes make them.
    fn application(&self, names: &[String], index: usize) -> anyhow::Result<Vec<(Metric, f64)>> {
        let traces = Traces::built_in();
        let trace = traces.traces.get(index).with_context(|| format!("there is no application {index}"))?;
        let events = trace.events(&traces, &mut Random::new(self.seed));
        fs::set_permissions(&self.driver.device, Permissions::from_mode(0o666))
            .context("cannot open the device to all users")?;
        let replay = Replay { device: &self.driver.device, format: self.driver.format, names, events: &events };
        let Replayed { calls, top_quarter_share } = replay.run(self.workload.count as usize)?;
        let mut figures =
            vec![(Metric::Lookup, calls.p50), (Metric::LookupMean, calls.mean), (Metric::LookupP99, calls.p99)];
        figures.extend(top_quarter_share.map(|share| (Metric::TopQuarterShare, 100.0 * share)));
        Ok(figures)
    }
}

/// The shares of the paper's five steps and of the way back in a lookup, in %, by means. Building the request, which takes
/// `request`, is of the first step. Without a probe, steps 4 and 5 are left out.
fn step_shares(steps: &Steps, request: f64) -> Vec<(Metric, f64)> {
    let Steps { entry, switch, search, caller, reference, added, back, .. } = *steps;
    let added_mean = added.map_or(0.0, |added| added.mean);
    let mut parts = vec![
        (Metric::StepOneShare, request + entry.mean),
        (Metric::StepTwoShare, switch.mean + search.mean),
        (Metric::StepThreeShare, caller.mean),
        (Metric::WayBackShare, back.mean),
    ];
    let rest = reference.mean + added_mean;
    let whole: f64 = parts.iter().map(|(_, time)| time).sum::<f64>() + rest;
    if added.is_some() {
        parts.extend([(Metric::StepFourShare, reference.mean), (Metric::StepFiveShare, added_mean)]);
    }
    parts.into_iter().map(|(metric, time)| (metric, 100.0 * time / whole)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lookup::Summary;

    fn steps(added: Option<f64>) -> Steps {
        let of = |mean: f64| Summary { p50: 0.0, p99: 0.0, mean };
        Steps {
            entry: of(3.0),
            switch: of(20.0),
            search: of(30.0),
            caller: of(4.0),
            reference: of(8.0),
            added: added.map(of),
            back: of(30.0),
            lookups: 1,
            event_cost: 9.0,
        }
    }

    // Verifies LOOKUP-8.
    #[test]
    fn the_steps_of_a_lookup_sum_to_the_whole_of_it() {
        let shares = step_shares(&steps(Some(3.0)), 2.0);
        let share = |metric| shares.iter().find(|(known, _)| *known == metric).unwrap().1;
        for (metric, expected) in [
            (Metric::StepOneShare, 5.0),
            (Metric::StepTwoShare, 50.0),
            (Metric::StepThreeShare, 4.0),
            (Metric::StepFourShare, 8.0),
            (Metric::StepFiveShare, 3.0),
            (Metric::WayBackShare, 30.0),
        ] {
            assert!((share(metric) - expected).abs() < 1e-9, "{metric:?}: {shares:?}");
        }
        let without = step_shares(&steps(None), 5.0);
        assert_eq!(without.len(), 4);
        assert!((without[1].1 - 50.0).abs() < 1e-9, "{without:?}");
    }
}
