//! What memory would have removed. Its policy decides by free memory, zram and what each process holds, and acts long before a
//! window, on which pages are in memory when it begins. No trace of the scheduler tells that: its decisions cannot be replayed, and
//! only that there is nothing to remove can be said.

use super::{Case, Found, Unknown};
use crate::explain::Cause;
use crate::words::ms;

pub(super) fn estimate(case: &Case<'_>) -> Result<Found, Unknown> {
    let of_memory = |cause: Cause| matches!(cause, Cause::Reclaim | Cause::SwapIn);
    let parts = case.explanation.parts.iter().filter(|part| of_memory(part.cause));
    let waited_ns: u64 = parts.map(|part| part.ns).sum();
    match waited_ns {
        0 => Ok(Found::nothing("no direct reclaim and no swap-in is on the path")),
        _ => Err(format!(
            "the trace does not tell the free memory and what each process holds, by which memory decides; {} went to direct \
             reclaim and swap-in",
            ms(waited_ns)
        )),
    }
}
