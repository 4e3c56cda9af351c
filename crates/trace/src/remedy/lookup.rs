//! What lookup would have removed: the calls of servicemanager, for as many as its cache answers, each for a hit's cost.

use std::ops::Range;

use super::{Case, Found, Unknown};
use crate::explain::Part;
use crate::model::{Event, Kind, Tid};
use crate::path::What;
use crate::threads::State;
use brisk_base::random::Random;
use brisk_mechanism::lookup::config::{CacheMode, EvictionPolicy};
use brisk_mechanism::lookup::simulation::{self, Scope, SimulatedCache};
use brisk_mechanism::lookup::{LookupConfig, Replacement, Traces};

/// The most instructions of a hit: LOOKUP-4, which is measured.
const HIT_INSTRUCTIONS: u64 = 5_000;
/// What the recording of one event adds to a lookup, in the lab: 8 events of a lookup make it 8,800 instructions longer.
const EVENT_INSTRUCTIONS: u64 = 1_100;
/// The built-in workload whose names stand for those of the trace: applications that start.
const WORKLOAD: &str = "starts";
const SEED: u64 = 1;

/// One lookup of the path.
struct Lookup {
    /// The pieces of its wait.
    wait: Range<usize>,
    /// From its call to the driver's answer, both recorded by the thread that asks.
    from_ns: u64,
    to_ns: u64,
    /// The speed of that thread before it waited.
    khz: Option<u32>,
}

pub(super) fn estimate(case: &Case<'_>, config: &LookupConfig) -> Result<Found, Unknown> {
    let lookups = lookups(case);
    if lookups.is_empty() {
        return match case.trace.counts.binder_calls {
            0 => Err("the trace has no calls of binder (binder_transaction)".to_owned()),
            _ => Ok(Found::nothing("no service lookup is on the path")),
        };
    }
    let khz = lookups.iter().filter_map(|lookup| lookup.khz).min().filter(|khz| *khz > 0);
    let Some(lowest_khz) = khz else {
        return Err("the trace does not tell the frequency of the CPUs, which a hit's cost depends on".to_owned());
    };
    let hit_ratio = hit_ratio(config);
    let mut removed_ns = vec![0.0; case.explanation.parts.len()];
    for lookup in &lookups {
        let not_removed = HIT_INSTRUCTIONS + EVENT_INSTRUCTIONS * events(case, lookup);
        let left_ns = not_removed as f64 * 1e6 / f64::from(lookup.khz.unwrap_or(lowest_khz));
        let shares = shares(case, lookup);
        let whole_ns: f64 = shares.iter().map(|(_, ns)| ns).sum();
        let removed = hit_ratio * (1.0 - left_ns / whole_ns.max(1.0)).max(0.0);
        shares.iter().for_each(|(part, ns)| removed_ns[*part] += ns * removed);
    }
    let assumes = vec![
        format!(
            "names repeat as in the workload {WORKLOAD} of `brisk lookup simulate` ({:.1} % hits), as the trace has none",
            hit_ratio * 100.0
        ),
        format!(
            "a hit takes {HIT_INSTRUCTIONS} instructions and an event's recording {EVENT_INSTRUCTIONS}, one in each cycle"
        ),
    ];
    let nothing_because = Some("a hit would have taken as long".to_owned());
    Ok(Found { removed_ns: removed_ns.iter().map(|ns| *ns as u64).collect(), nothing_because, assumes })
}

/// The lookups of the explained thread that the path leads through, in the order of time.
fn lookups(case: &Case<'_>) -> Vec<Lookup> {
    let parts = &case.explanation.parts;
    let is_lookup = |part: &Part| part.on_behalf.as_ref().is_some_and(|it| it.is_service_lookup());
    let mut lookups: Vec<Lookup> = Vec::new();
    let (mut ended, mut khz) = (None, None);
    for (place, (piece, step)) in case.pieces.iter().zip(&case.explanation.path).enumerate() {
        match piece.via {
            Some(via) if step.shares.iter().any(|(part, _)| is_lookup(&parts[*part])) => {
                match lookups.last_mut().filter(|_| ended == Some(via.ended)) {
                    Some(lookup) => lookup.wait.end = place + 1,
                    None => {
                        let (from_ns, to_ns) = call(case, via.ended);
                        lookups.push(Lookup { wait: place..place + 1, from_ns, to_ns, khz });
                    }
                }
                ended = Some(via.ended);
            }
            Some(_) => {}
            None => {
                if let What::Running { khz: now, .. } = piece.what {
                    khz = now;
                }
            }
        }
    }
    lookups
}

/// When the explained thread made the call whose wait ended at a position, and when it had the answer; the wait's own times
/// where the trace does not tell.
fn call(case: &Case<'_>, ended: u32) -> (u64, u64) {
    let Case { trace, timelines, window, .. } = case;
    let thread = &timelines.threads[window.thread as usize];
    let Some(number) = thread.before(ended) else { return (window.from_ns, window.from_ns) };
    let at = |number: usize| thread.transitions.get(number).map_or(trace.events.len() as u32, |it| it.at);
    let own = |positions: Range<u32>| {
        let events = &trace.events[positions.start as usize..positions.end as usize];
        events.iter().filter(|event| event.tid == thread.tid)
    };
    let before = if number > 0 { own(at(number - 1)..at(number)) } else { own(0..0) };
    let called = before.rev().find(|event| matches!(event.kind, Kind::BinderCall(_)));
    let after = thread.transitions.iter().enumerate().skip(number + 1);
    let run = after.clone().find(|(_, it)| matches!(it.state, State::Running { .. })).map(|(number, _)| number);
    let mut answered = run.map_or(own(0..0), |run| own(at(run)..at(run + 1)));
    let answered = answered.find(|event| matches!(event.kind, Kind::BinderReceived { .. }));
    let time = |event: Option<&Event>, or: u32| event.map_or(trace.time_ns(or), |event| event.time_ns);
    (time(called, at(number)), time(answered, ended))
}

/// How many events the thread that asks, and those that it waited for, recorded meanwhile: without the recorder they cost nothing.
fn events(case: &Case<'_>, lookup: &Lookup) -> u64 {
    let Case { trace, timelines, window, pieces, .. } = case;
    let threads = pieces[lookup.wait.clone()].iter().map(|piece| piece.thread).chain([window.thread]);
    let mut tids: Vec<Tid> = threads.map(|thread| timelines.threads[thread as usize].tid).collect();
    tids.sort_unstable();
    tids.dedup();
    let first = trace.events.partition_point(|event| event.time_ns < lookup.from_ns);
    let events = trace.events[first..].iter().take_while(|event| event.time_ns <= lookup.to_ns);
    events.filter(|event| tids.contains(&event.tid)).count() as u64
}

/// The parts that a lookup is of, with its nanoseconds: its wait, and what the thread did in the driver before and after it.
fn shares(case: &Case<'_>, lookup: &Lookup) -> Vec<(usize, f64)> {
    let Lookup { wait, from_ns, to_ns, .. } = lookup;
    let mut shares = Vec::new();
    let mut take = |place: usize| {
        let (piece, step) = (&case.pieces[place], &case.explanation.path[place]);
        let own_ns = piece.to_ns.min(*to_ns).saturating_sub(piece.from_ns.max(*from_ns));
        let share = match wait.contains(&place) {
            true => 1.0,
            false => own_ns as f64 / (piece.to_ns - piece.from_ns) as f64,
        };
        shares.extend(step.shares.iter().map(|(part, ns)| (*part, *ns as f64 * share)));
        own_ns > 0
    };
    wait.clone().for_each(|place| {
        take(place);
    });
    let before = (0..wait.start).rev().take_while(|place| case.pieces[*place].via.is_none());
    let _ = before.take_while(|place| take(*place)).count();
    let after = (wait.end..case.pieces.len()).take_while(|place| case.pieces[*place].via.is_none());
    let _ = after.take_while(|place| take(*place)).count();
    shares
}

/// How many lookups the cache answers, 0 to 1.
fn hit_ratio(config: &LookupConfig) -> f64 {
    let replacement = match config.policy {
        EvictionPolicy::Lru => Replacement::Lru,
        EvictionPolicy::Lfu => Replacement::Lfu,
    };
    // Without the manager's consent an answer is for callers with the same credentials only.
    let scope = if config.mode == CacheMode::Transparent { Scope::Caller } else { Scope::Shared };
    let entries = usize::try_from(config.entries).unwrap_or(usize::MAX);
    let cache = SimulatedCache { replacement, entries, scope };
    let traces = Traces::built_in();
    let Some(workload) = traces.traces.iter().find(|trace| trace.name == WORKLOAD) else { return 0.0 };
    let events = workload.events(&traces, &mut Random::new(SEED));
    simulation::run(&[cache], &events).first().map_or(0.0, |tally| tally.hit_ratio())
}
