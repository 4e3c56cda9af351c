//! The five steps of a lookup, as in the paper's figure 3, separated by the driver's own trace events.
//!
//! Tracing takes time itself. Its total is measured (lookups with and without events) and subtracted from the steps that
//! contain events.

use serde::Serialize;

use super::client::Timing;
use super::summary::{Summary, figures};
use brisk_sys::Root;
use brisk_sys::binder::abi::bc;
use brisk_sys::cpu::ticks::Ticks;
use brisk_sys::error::DeviceError;
use brisk_sys::system::trace_events::{TraceEvent, TraceInstance};

/// Events of one lookup: its transaction, received twice (by the manager and by the client), and the manager's reply.
const EVENTS: f64 = 4.0;
/// Room for some ten thousand events a CPU.
const BUFFER_KIB: u32 = 2048;

/// The steps, each from the end of the previous one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Steps {
    /// Into the driver: the system call, the references of the previous lookup, the request copied to the manager.
    pub entry: Summary,
    /// To the manager: it is woken, switched to, and receives the request.
    pub switch: Summary,
    /// The manager searches and builds its answer.
    pub search: Summary,
    /// The answer: into the driver, its reference translated for the client, switched back, received.
    pub reply: Summary,
    /// Lookups whose steps are all recorded.
    pub lookups: usize,
    /// The time of one event, which is subtracted.
    pub event_cost: f64,
}

/// Starts recording the events that separate the steps.
///
/// # Errors
/// [`DeviceError`] without tracing, binder's events, or a clock that the client can read.
pub fn record(root: &Root) -> Result<TraceInstance, DeviceError> {
    let trace = TraceInstance::make(root, "brisk-lookup", BUFFER_KIB)?;
    trace.count_ticks()?;
    trace.enable("binder/binder_transaction", "reply == 0")?;
    trace.enable("binder/binder_transaction_received", "")?;
    trace.enable("binder/binder_command", &format!("cmd == {}", bc::REPLY))?;
    Ok(trace)
}

/// The steps of the lookups `timings` of the client `tid`, whose `events` were recorded; `untraced` is the median of lookups
/// without recording. `None` when no lookup reached a manager.
pub fn steps(events: &[TraceEvent], timings: &[Timing], tid: u32, untraced: f64, ticks: &Ticks) -> Option<Steps> {
    let moments: Vec<[u64; 5]> = timings.iter().filter_map(|timing| moments(events, timing, tid)).collect();
    let traced = figures(moments.iter().map(|m| ticks.of(m[4] - m[0])).collect());
    let event_cost = ((traced.p50 - untraced) / EVENTS).max(0.0);
    // An event's time stamp is its start, so its cost falls into the step after it.
    let step = |index: usize, events: f64| {
        let of = |m: &[u64; 5]| (ticks.of(m[index + 1] - m[index]) - events * event_cost).max(0.0);
        figures(moments.iter().map(of).collect())
    };
    (!moments.is_empty()).then(|| Steps {
        entry: step(0, 0.0),
        switch: step(1, 1.0),
        search: step(2, 1.0),
        reply: step(3, 2.0),
        lookups: moments.len(),
        event_cost,
    })
}

/// The start times of a lookup's steps, and the end of the last one.
fn moments(events: &[TraceEvent], timing: &Timing, tid: u32) -> Option<[u64; 5]> {
    let (began, ended) = (timing.asked_at, timing.asked_at + timing.call);
    let first = events.partition_point(|event| event.timestamp < began);
    let mut within = events[first..].iter().take_while(|event| event.timestamp <= ended);
    let sent = within.find(|event| event.name == "binder_transaction" && event.tid == tid)?;
    let received = within.find(|event| event.name == "binder_transaction_received" && event.tid != tid)?;
    let replied = within.find(|event| event.name == "binder_command" && event.tid == received.tid)?;
    Some([began, sent.timestamp, received.timestamp, replied.timestamp, ended])
}

#[cfg(test)]
mod tests {
    use super::*;
    use brisk_sys::cpu::ticks::TickUnit;

    fn event(timestamp: u64, tid: u32, name: &str) -> TraceEvent {
        TraceEvent { command: "x".into(), tid, timestamp, name: name.into(), text: String::new() }
    }

    // Verifies LOOKUP-8.
    #[test]
    fn steps_are_separated_and_the_tracing_cost_is_subtracted() {
        let timing = |asked_at, call| Timing { asked_at, call, ..Timing::default() };
        let lookup = |at: u64| {
            [
                event(at + 1000, 1, "binder_transaction"),
                event(at + 3100, 2, "binder_transaction_received"),
                event(at + 4200, 2, "binder_command"),
                event(at + 6000, 1, "binder_transaction_received"),
            ]
        };
        let events: Vec<TraceEvent> = [0, 10_000].into_iter().flat_map(lookup).collect();
        // The third lookup was a hit and did not reach the manager.
        let timings = [timing(0, 6400), timing(10_000, 6400), timing(20_000, 700)];
        let ticks = Ticks { unit: TickUnit::Instructions, per_unit: 1.0 };
        let steps = steps(&events, &timings, 1, 6000.0, &ticks).unwrap();
        assert_eq!((steps.lookups, steps.event_cost), (2, 100.0));
        let medians = [steps.entry, steps.switch, steps.search, steps.reply].map(|figures| figures.p50);
        assert_eq!(medians, [1000.0, 2000.0, 1000.0, 2000.0]);
        assert_eq!(medians.iter().sum::<f64>(), 6000.0);
        assert_eq!(super::steps(&events, &timings[2..], 1, 700.0, &ticks), None);
    }
}
