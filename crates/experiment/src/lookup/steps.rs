//! The five steps of a lookup, as in the paper's figure 3, and the way back, separated by the driver's own trace events.
//!
//! Recording takes time itself. So the same lookups are made in several series: without recording, with the events of each
//! transaction, and once for each finer event, which only splits a step of that series. Differences between series are what the
//! events cost, and are subtracted from the steps that contain them.

use serde::Serialize;

use super::client::Timing;
use super::summary::{Summary, figures};
use crate::statistics::median;
use brisk_sys::Root;
use brisk_sys::binder::abi::bc;
use brisk_sys::cpu::ticks::Ticks;
use brisk_sys::error::DeviceError;
use brisk_sys::system::trace_events::{COUNTER, TraceEvent, TraceInstance};

const TRANSACTION: &str = "binder_transaction";
const RECEIVED: &str = "binder_transaction_received";
const REFERENCE: &str = "binder_transaction_ref_to_ref";
const COMMAND: &str = "binder_command";
/// Called by the driver between finding the manager's reference and adding the client's.
const HOOK: &str = "security_binder_transfer_binder";
const PROBE: &str = "brisk/reference_found";
/// The probe's event, as a recording names it.
const FOUND: &str = "reference_found";
/// Events of a lookup in the coarsest series: its transaction and the manager's reply, each received, and the reply's reference.
const EVENTS: f64 = 5.0;
/// Room for some twenty thousand events a CPU.
const BUFFER_KIB: u32 = 2048;

/// The steps, each from the end of the previous one. The paper numbers them 1 (with the request, which the client builds before
/// it), 2 (`switch` and `search`), 3, 4 and 5, and has no number for the way back.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Steps {
    /// Into the driver: the system call, the references of the previous lookup, the manager found.
    pub entry: Summary,
    /// To the manager: the request is copied, the manager is woken, switched to, and receives it.
    pub switch: Summary,
    /// The manager searches, builds its answer and sends it to the driver.
    pub search: Summary,
    /// The driver finds the caller.
    pub caller: Summary,
    /// The answer is copied and parsed, and the manager's reference found. Without [`Steps::added`], with that.
    pub reference: Summary,
    /// The reference is added to the client. `None` where the kernel has no probes: no event of the driver separates it.
    pub added: Option<Summary>,
    /// The client is woken, switched to, and receives the answer.
    pub back: Summary,
    /// Lookups whose steps are all recorded.
    pub lookups: usize,
    /// The time of one event, which is subtracted.
    pub event_cost: f64,
}

/// What a series records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    /// The [`EVENTS`] of each lookup.
    Transactions,
    /// Also the manager's reply as a command, before the caller is found. The event is there for all commands, and to reject the
    /// others takes time as well.
    ReplyCommand,
    /// Also, by a probe, the manager's reference when it is found.
    FoundReference,
}

/// Lookups of one series.
#[derive(Debug)]
pub(super) struct Series {
    pub(super) timings: Vec<Timing>,
    pub(super) events: Vec<TraceEvent>,
}

/// The series whose differences separate the steps; all make the same lookups.
#[derive(Debug)]
pub(super) struct Recordings {
    pub(super) unrecorded: Vec<Timing>,
    pub(super) transactions: Series,
    pub(super) reply_command: Series,
    /// `None` where the kernel has no probes.
    pub(super) found_reference: Option<Series>,
}

/// Starts recording.
///
/// # Errors
/// [`DeviceError`] without tracing, binder's events, or a clock that the client can read.
pub(super) fn record(root: &Root, detail: Detail) -> Result<TraceInstance, DeviceError> {
    let mut trace = TraceInstance::make(root, "brisk-lookup", &[COUNTER], BUFFER_KIB)?;
    for event in [TRANSACTION, RECEIVED, REFERENCE] {
        trace.enable(&format!("binder/{event}"), "")?;
    }
    match detail {
        Detail::Transactions => {}
        Detail::ReplyCommand => trace.enable(&format!("binder/{COMMAND}"), &format!("cmd == {}", bc::REPLY))?,
        Detail::FoundReference => trace.enable_probe(PROBE, HOOK, "")?,
    }
    Ok(trace)
}

impl Recordings {
    /// The steps of the lookups of the client `tid`. `None` when no lookup reached a manager.
    pub(super) fn steps(&self, tid: u32, ticks: &Ticks) -> Option<Steps> {
        let coarse = self.transactions.moments(tid);
        let moments: Vec<[u64; 6]> = coarse.iter().flatten().copied().collect();
        let event_cost = (self.recording_cost(&coarse, ticks)? / EVENTS).max(0.0);
        // An event's time stamp is near its start, so that its cost falls into the step after it.
        let step = |index: usize, events: f64, split: f64| {
            let of = |m: &[u64; 6]| (ticks.of(m[index + 1] - m[index]) - events * event_cost - split).max(0.0);
            figures(moments.iter().map(of).collect())
        };
        let caller = self.reply_command.gaps(tid, COMMAND, TRANSACTION, event_cost, ticks)?;
        let added = self.found_reference.as_ref().and_then(|series| {
            let probe_cost = series.probe_cost(&coarse, tid, ticks)?;
            series.gaps(tid, FOUND, REFERENCE, probe_cost, ticks)
        });
        Some(Steps {
            entry: step(0, 0.0, 0.0),
            switch: step(1, 1.0, 0.0),
            search: step(2, 1.0, caller.mean),
            caller,
            reference: step(3, 1.0, added.map_or(0.0, |added| added.mean)),
            added,
            back: step(4, 2.0, 0.0),
            lookups: moments.len(),
            event_cost,
        })
    }

    /// What all the events of a lookup of the coarsest series cost; `None` when no lookup reached a manager.
    fn recording_cost(&self, coarse: &[Option<[u64; 6]>], ticks: &Ticks) -> Option<f64> {
        let pairs = coarse.iter().zip(&self.unrecorded);
        let costs = pairs.filter_map(|(moments, plain)| {
            let [began, .., ended] = (*moments)?;
            Some(ticks.of(ended - began) - ticks.of(plain.call))
        });
        middle(costs)
    }
}

impl Series {
    /// For each lookup the start times of its steps as far as the coarsest series has them, and the end of the last one.
    fn moments(&self, tid: u32) -> Vec<Option<[u64; 6]>> {
        let of = |timing: &Timing| {
            let mut within = self.within(timing);
            let sent = within.find(|event| event.name == TRANSACTION && event.tid == tid)?;
            let received = within.find(|event| event.name == RECEIVED && event.tid != tid)?;
            let mut of_manager = within.filter(|event| event.tid == received.tid);
            let replied = of_manager.find(|event| event.name == TRANSACTION && event.number("reply") == Some(1))?;
            let referenced = of_manager.find(|event| event.name == REFERENCE)?;
            let ended = timing.asked_at + timing.call;
            let events = [sent, received, replied, referenced].map(|event| event.timestamp);
            let [sent, received, replied, referenced] = events;
            Some([timing.asked_at, sent, received, replied, referenced, ended])
        };
        self.timings.iter().map(of).collect()
    }

    /// The time from the manager's event `from` to its event `to`, without `cost`, for each lookup that has both.
    fn gaps(&self, tid: u32, from: &str, to: &str, cost: f64, ticks: &Ticks) -> Option<Summary> {
        let gap = |timing: &Timing| {
            let mut of_manager = self.within(timing).filter(|event| event.tid != tid);
            let first = of_manager.find(|event| event.name == from)?;
            let last = of_manager.find(|event| event.name == to && event.tid == first.tid)?;
            Some((ticks.of(last.timestamp - first.timestamp) - cost).max(0.0))
        };
        let gaps: Vec<f64> = self.timings.iter().filter_map(gap).collect();
        (!gaps.is_empty()).then(|| figures(gaps))
    }

    /// What this series' probe costs: how much longer than in the `coarse` series a reply's reference takes.
    fn probe_cost(&self, coarse: &[Option<[u64; 6]>], tid: u32, ticks: &Ticks) -> Option<f64> {
        let reference = |moments: &[u64; 6]| ticks.of(moments[4] - moments[3]);
        let probed = self.moments(tid);
        let pairs = probed.iter().zip(coarse);
        middle(pairs.filter_map(|(with, without)| Some(reference(with.as_ref()?) - reference(without.as_ref()?))))
    }

    /// The events during a lookup.
    fn within(&self, timing: &Timing) -> impl Iterator<Item = &TraceEvent> {
        let (began, ended) = (timing.asked_at, timing.asked_at + timing.call);
        let first = self.events.partition_point(|event| event.timestamp < began);
        self.events[first..].iter().take_while(move |event| event.timestamp <= ended)
    }
}

/// The median; `None` of nothing.
fn middle(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    (!values.is_empty()).then(|| median(&values))
}

#[cfg(test)]
mod tests {
    use super::*;
    use brisk_sys::cpu::ticks::TickUnit;

    const TICKS: Ticks = Ticks { unit: TickUnit::Instructions, per_unit: 1.0 };
    /// What an event costs here, what a rejected one does, and the probe.
    const EVENT: u64 = 100;
    const REJECTED: u64 = 30;
    const PROBED: u64 = 140;

    fn event(timestamp: u64, tid: u32, name: &str) -> TraceEvent {
        let text = if name == TRANSACTION && tid == 2 { "reply=1" } else { "reply=0" };
        TraceEvent { command: "x".into(), tid, timestamp, name: name.into(), text: text.into() }
    }

    /// A lookup at `at` of 6000: its entry takes 1000, the way to the manager 1900, the search 1100, the caller 150, the
    /// reference 600, its addition 250, and the way back 1000.
    fn lookup(at: u64, detail: Option<Detail>) -> (Timing, Vec<TraceEvent>) {
        let [transactions, command, probe] = [Detail::Transactions, Detail::ReplyCommand, Detail::FoundReference]
            .map(|it| detail == Some(it) || (it == Detail::Transactions && detail.is_some()));
        let (mut now, mut events) = (at, Vec::new());
        for (took, tid, name, is_recorded, cost) in [
            (1000, 1, TRANSACTION, transactions, EVENT),
            (1900, 2, RECEIVED, transactions, EVENT),
            (1000, 2, "rejected", false, if command { REJECTED } else { 0 }),
            (100, 2, COMMAND, command, EVENT),
            (150, 2, TRANSACTION, transactions, EVENT),
            (600, 2, FOUND, probe, PROBED),
            (250, 2, REFERENCE, transactions, EVENT),
            (900, 1, RECEIVED, transactions, EVENT),
        ] {
            now += took;
            events.extend(is_recorded.then(|| event(now, tid, name)));
            now += if is_recorded || name == "rejected" { cost } else { 0 };
        }
        (Timing { asked_at: at, call: now + 100 - at, ..Timing::default() }, events)
    }

    fn series(detail: Detail) -> Series {
        // The last lookup is a hit, which does not reach the manager.
        let hit = (Timing { asked_at: 20_000, call: 700, ..Timing::default() }, Vec::new());
        let lookups = [lookup(0, Some(detail)), lookup(10_000, Some(detail)), hit];
        let (timings, events): (Vec<_>, Vec<_>) = lookups.into_iter().unzip();
        Series { timings, events: events.concat() }
    }

    fn recordings() -> Recordings {
        let hit = Timing { asked_at: 20_000, call: 700, ..Timing::default() };
        Recordings {
            unrecorded: vec![lookup(0, None).0, lookup(10_000, None).0, hit],
            transactions: series(Detail::Transactions),
            reply_command: series(Detail::ReplyCommand),
            found_reference: Some(series(Detail::FoundReference)),
        }
    }

    // Verifies LOOKUP-8.
    #[test]
    fn steps_are_separated_and_the_tracing_cost_is_subtracted() {
        let steps = recordings().steps(1, &TICKS).unwrap();
        assert_eq!((steps.lookups, steps.event_cost), (2, 100.0));
        let Steps { entry, switch, search, caller, reference, added, back, .. } = steps;
        let found = [entry, switch, search, caller, reference, added.unwrap(), back].map(|step| step.p50);
        assert_eq!(found, [1000.0, 1900.0, 1100.0, 150.0, 600.0, 250.0, 1000.0]);
        assert_eq!(found.iter().sum::<f64>(), 6000.0);
    }

    #[test]
    fn without_a_probe_two_steps_are_one() {
        let steps = Recordings { found_reference: None, ..recordings() }.steps(1, &TICKS).unwrap();
        assert_eq!((steps.reference.p50, steps.added), (850.0, None));
    }

    #[test]
    fn lookups_that_reach_no_manager_have_no_steps() {
        let mut hits = recordings();
        for series in [&mut hits.transactions, &mut hits.reply_command] {
            series.timings.drain(..2);
        }
        assert_eq!(hits.steps(1, &TICKS), None);
    }
}
