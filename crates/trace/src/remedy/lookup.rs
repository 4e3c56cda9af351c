//! What lookup would have removed: the waits for servicemanager, for as many lookups as its cache answers, each for a hit's cost.

use super::{Case, Found, Unknown};
use crate::path::What;
use brisk_base::random::Random;
use brisk_mechanism::lookup::config::EvictionPolicy;
use brisk_mechanism::lookup::simulation::{self, Scope, SimulatedCache};
use brisk_mechanism::lookup::{LookupConfig, Replacement, Traces};

/// The most instructions of a hit: LOOKUP-4, which is measured.
const HIT_INSTRUCTIONS: u64 = 5_000;
/// The built-in workload whose names stand for those of the trace: applications that start.
const WORKLOAD: &str = "starts";
const SEED: u64 = 1;

pub(super) fn estimate(case: &Case<'_>, config: &LookupConfig) -> Result<Found, Unknown> {
    let parts = &case.explanation.parts;
    let lookups = case.explanation.waits.iter().filter(|(on_behalf, _)| on_behalf.is_service_lookup());
    let lookups: u64 = lookups.map(|(_, times)| times).sum();
    if lookups == 0 {
        return match case.trace.counts.binder_calls {
            0 => Err("the trace has no calls of binder (binder_transaction)".to_owned()),
            _ => Ok(Found::nothing("no service lookup is on the path")),
        };
    }
    let khz = case.pieces.iter().filter(|piece| piece.via.is_none()).filter_map(|piece| match piece.what {
        What::Running { khz, .. } => khz,
        _ => None,
    });
    let Some(khz) = khz.min().filter(|khz| *khz > 0) else {
        return Err("the trace does not tell the frequency of the CPUs, which a hit's cost depends on".to_owned());
    };
    let hit_ns = HIT_INSTRUCTIONS * 1_000_000 / u64::from(khz);
    let hit_ratio = hit_ratio(config);
    let is_lookup = |part: &crate::explain::Part| part.on_behalf.as_ref().is_some_and(|it| it.is_service_lookup());
    let waited_ns: u64 = parts.iter().filter(|part| is_lookup(part)).map(|part| part.ns).sum();
    let kept = 1.0 - lookups as f64 * hit_ns as f64 / waited_ns.max(1) as f64;
    let share = hit_ratio * kept.max(0.0);
    let removed_ns = parts.iter().map(|part| if is_lookup(part) { (part.ns as f64 * share) as u64 } else { 0 });
    let assumes = vec![
        format!(
            "names repeat as in the workload {WORKLOAD} of `brisk lookup simulate` ({:.1} % hits), as the trace has none",
            hit_ratio * 100.0
        ),
        format!("a hit takes {HIT_INSTRUCTIONS} instructions, one in each cycle at {} MHz", khz / 1000),
    ];
    let nothing_because = Some("a hit would have taken as long".to_owned());
    Ok(Found { removed_ns: removed_ns.collect(), nothing_because, assumes })
}

/// How many lookups the cache answers, 0 to 1.
fn hit_ratio(config: &LookupConfig) -> f64 {
    let replacement = match config.policy {
        EvictionPolicy::Lru => Replacement::Lru,
        EvictionPolicy::Lfu => Replacement::Lfu,
    };
    let entries = usize::try_from(config.entries).unwrap_or(usize::MAX);
    let cache = SimulatedCache { replacement, entries, scope: Scope::Shared };
    let traces = Traces::built_in();
    let Some(workload) = traces.traces.iter().find(|trace| trace.name == WORKLOAD) else { return 0.0 };
    let events = workload.events(&traces, &mut Random::new(SEED));
    simulation::run(&[cache], &events).first().map_or(0.0, |tally| tally.hit_ratio())
}
