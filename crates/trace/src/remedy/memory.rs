//! What memory would have removed. Its policy decides by free memory, zram and what each process holds, and acts long before a
//! window, on which pages are in memory when it begins. No trace of the scheduler tells that: its decisions cannot be replayed, and
//! only that there is nothing to remove can be said.

use super::{Case, Found, Unknown};
use crate::explain::Cause;
use crate::model::MemoryCounter;
use crate::words::ms;

pub(super) fn estimate(case: &Case<'_>) -> Result<Found, Unknown> {
    let ns_of = |is_wanted: fn(Cause) -> bool| -> u64 {
        let parts = case.explanation.parts.iter().filter(|part| is_wanted(part.cause));
        parts.map(|part| part.ns).sum()
    };
    let waited_ns = ns_of(|cause| matches!(cause, Cause::Reclaim | Cause::SwapIn));
    let read_ns = ns_of(|cause| matches!(cause, Cause::PageFault | Cause::Storage));
    let rise = |counter| case.trace.rise(counter, case.window.from_ns, case.window.to_ns);
    // That a page is read again is seen in the counter alone.
    let may_have_read_again = read_ns > 0 && rise(MemoryCounter::ReadAgain) != Some(0);
    if waited_ns == 0 && !may_have_read_again {
        return Ok(Found::nothing("no direct reclaim and no swap-in is on the path"));
    }
    let mut why =
        "the trace does not tell the free memory and what each process holds, by which memory decides".to_owned();
    if waited_ns > 0 {
        why += &format!("; {} went to direct reclaim and swap-in", ms(waited_ns));
    }
    if may_have_read_again {
        why += &format!("; {} went to reads, perhaps of pages that had been evicted", ms(read_ns));
    }
    let rises = [MemoryCounter::ReadAgain, MemoryCounter::SwappedIn, MemoryCounter::StalledUs];
    let rises: Vec<String> = rises.into_iter().filter_map(|counter| Some(told(counter, rise(counter)?))).collect();
    if !rises.is_empty() {
        why += &format!("; all processes together had at most {} meanwhile", rises.join(", "));
    }
    Err(why)
}

/// A counter's rise in words.
fn told(counter: MemoryCounter, rise: u64) -> String {
    match counter {
        MemoryCounter::StalledUs => format!("{} of stalls", ms(rise.saturating_mul(1000))),
        counter => format!("{rise} {}", counter.name()),
    }
}
