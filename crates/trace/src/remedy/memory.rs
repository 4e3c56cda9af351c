//! What memory would have removed: before the window it would have swapped out cached applications, so that more memory was free
//! then, and the kernel reclaims only what is taken beyond that.
//!
//! The recorder notes what memory decides by when it begins and ends, and ten times a second how much is free and reclaimed.

use super::{Case, Found, Unknown};
use crate::explain::Cause;
use crate::model::{MemoryCounter, MemoryFacts};
use crate::path::{Behind, Piece, What};
use crate::threads::{Index, State};
use crate::words::ms;
use brisk_mechanism::memory::MemoryConfig;
use brisk_mechanism::memory::config::PageoutConfig;
use brisk_mechanism::memory::pageout::{self, PageoutResult};
use brisk_mechanism::memory::plan::ASSUMED_RATIO;

/// How the kernel's threads that reclaim are called, one for each node.
const KSWAPD: &str = "kswapd";

pub(super) fn estimate(case: &Case<'_>, config: &MemoryConfig) -> Result<Found, Unknown> {
    let pieces = case.pieces.iter().filter(|piece| is_reclaim(case, piece));
    let reclaim_ns: u64 = pieces.map(|piece| piece.to_ns - piece.from_ns).sum();
    let others = others(case);
    if reclaim_ns == 0 {
        return match others.as_str() {
            "" => Ok(Found::nothing("no direct reclaim and no swap-in is on the path")),
            others => Err(format!("what swap-out ahead of need spares of swap-in and reads cannot be told; {others}")),
        };
    }
    let facts = facts(case);
    let ratio = facts.as_ref().and_then(|facts| facts.swap_ratio).unwrap_or(ASSUMED_RATIO);
    let (Some(facts), Some(reclaim)) = (&facts, Reclaim::of(case, ratio)) else {
        let why = "the trace does not tell the free memory and what each process holds, by which memory decides";
        let more = if others.is_empty() { String::new() } else { format!("; {others}") };
        return Err(format!("{why}; {} went to reclaim{more}", ms(reclaim_ns)));
    };
    if facts.swap_total_kib == 0 {
        return Err(format!(
            "there is no swap, and what zram changes is not estimated; {} went to reclaim",
            ms(reclaim_ns)
        ));
    }
    let pageout = configured(&config.killer.pageout, facts);
    let free_kib = facts.free_kib;
    let swapped_out = pageout::predict(&pageout, (free_kib, facts.swap_free_kib), ratio, &facts.processes);
    let won_kib = swapped_out.free_kib - free_kib;
    if won_kib == 0 {
        return Ok(Found::nothing(why_nothing(&pageout, free_kib, facts)));
    }
    let until_ns = reclaim.done_ns(won_kib as f64 / facts.page_kib as f64).unwrap_or(case.window.to_ns);
    let mut removed_ns = vec![0; case.explanation.parts.len()];
    for (piece, step) in case.pieces.iter().zip(&case.explanation.path).filter(|(piece, _)| is_reclaim(case, piece)) {
        if let Some(&(part, _)) = step.shares.first() {
            removed_ns[part] += piece.to_ns.min(until_ns).saturating_sub(piece.from_ns);
        }
    }
    let mut assumes = vec![assumed_target(&config.killer.pageout, &pageout)];
    assumes.extend(assumed(free_kib, &swapped_out, facts.swap_ratio));
    if !others.is_empty() {
        assumes.push(format!("swap-in and reads stay as they are: {others}"));
    }
    Ok(Found { removed_ns, nothing_because: Some("the path reclaims only what exceeds that".to_owned()), assumes })
}

/// True where the path reclaims memory, or waits for a CPU behind the kernel's thread that does.
fn is_reclaim(case: &Case<'_>, piece: &Piece) -> bool {
    match piece.what {
        What::Reclaim => true,
        What::Runnable { behind: Behind::Thread(thread), .. } => is_kswapd(case, thread),
        _ => false,
    }
}

fn is_kswapd(case: &Case<'_>, thread: Index) -> bool {
    let tid = case.timelines.threads[thread as usize].tid;
    case.trace.name_at(tid, case.window.to_ns).is_some_and(|name| name.starts_with(KSWAPD))
}

/// What else of the path memory may have to do with, in words; empty where that is nothing.
fn others(case: &Case<'_>) -> String {
    let ns_of = |is_wanted: fn(Cause) -> bool| -> u64 {
        let parts = case.explanation.parts.iter().filter(|part| is_wanted(part.cause));
        parts.map(|part| part.ns).sum()
    };
    let swap_in_ns = ns_of(|cause| cause == Cause::SwapIn);
    let read_ns = ns_of(|cause| matches!(cause, Cause::PageFault | Cause::Storage));
    let rise = |counter| case.trace.rise(counter, case.window.from_ns, case.window.to_ns);
    // That a page is read again is seen in the counter alone.
    let may_have_read_again = read_ns > 0 && rise(MemoryCounter::ReadAgain) != Some(0);
    let mut words = Vec::new();
    if swap_in_ns > 0 {
        words.push(format!("{} went to swap-in", ms(swap_in_ns)));
    }
    if may_have_read_again {
        words.push(format!("{} went to reads, perhaps of pages that had been evicted", ms(read_ns)));
    }
    if !words.is_empty() {
        let rises = [MemoryCounter::ReadAgain, MemoryCounter::SwappedIn, MemoryCounter::StalledUs];
        let rises: Vec<String> = rises.into_iter().filter_map(|counter| Some(told(counter, rise(counter)?))).collect();
        if !rises.is_empty() {
            words.push(format!("all processes together had at most {} meanwhile", rises.join(", ")));
        }
    }
    words.join("; ")
}

/// A counter's rise in words.
fn told(counter: MemoryCounter, rise: u64) -> String {
    match counter {
        MemoryCounter::StalledUs => format!("{} of stalls", ms(rise.saturating_mul(1000))),
        counter => format!("{rise} {}", counter.name()),
    }
}

/// The device and its processes when the window begins.
fn facts(case: &Case<'_>) -> Option<MemoryFacts> {
    let Case { trace, window, .. } = case;
    let mut facts = trace.memory_facts_near(window.from_ns, window.to_ns)?.clone();
    let counts = trace.memory.iter().filter(|count| count.counter == MemoryCounter::Free);
    if let Some(free) = counts.take_while(|count| count.time_ns <= window.from_ns).last() {
        facts.free_kib = free.value.saturating_mul(facts.page_kib);
    }
    if facts.time_ns > window.from_ns {
        // What has been swapped out since was in memory, first of those that are swapped out first.
        let pages = trace.rise(MemoryCounter::SwappedOut, window.from_ns, facts.time_ns).unwrap_or(0);
        let mut left_kib = pages.saturating_mul(facts.page_kib);
        facts.swap_free_kib = facts.swap_free_kib.saturating_add(left_kib).min(facts.swap_total_kib);
        for process in &mut facts.processes {
            let back_kib = left_kib.min(process.swap_kib);
            process.rss_anonymous_kib = process.rss_anonymous_kib.saturating_add(back_kib);
            process.swap_kib -= back_kib;
            left_kib -= back_kib;
        }
    }
    Some(facts)
}

/// The kernel's reclaim in the window.
struct Reclaim {
    /// When kswapd or a thread itself reclaims, in the order of their beginnings.
    runs: Vec<(u64, u64)>,
    /// Without what zram took for the pages.
    pages_per_ns: f64,
}

impl Reclaim {
    /// `None` where the trace does not count reclaimed pages. A byte on swap costs `swap_ratio` of memory.
    fn of(case: &Case<'_>, swap_ratio: f64) -> Option<Self> {
        let Case { trace, window, .. } = case;
        let [before, after] = trace.around(MemoryCounter::Reclaimed, window.from_ns, window.to_ns)?;
        let all = runs(case, before.time_ns, after.time_ns);
        let all_ns: u64 = all.iter().map(|(from_ns, to_ns)| to_ns - from_ns).sum();
        let swapped_out = trace.rise(MemoryCounter::SwappedOut, window.from_ns, window.to_ns).unwrap_or(0);
        let pages = after.value.saturating_sub(before.value) as f64 - swapped_out as f64 * swap_ratio;
        Some(Self {
            runs: runs(case, window.from_ns, window.to_ns),
            pages_per_ns: pages.max(0.0) / all_ns.max(1) as f64,
        })
    }

    /// When the window's reclaim has freed so many pages.
    fn done_ns(&self, pages: f64) -> Option<u64> {
        let mut left_ns = pages / self.pages_per_ns;
        for (from_ns, to_ns) in &self.runs {
            let ns = (to_ns - from_ns) as f64;
            if ns >= left_ns {
                return Some(from_ns + left_ns as u64);
            }
            left_ns -= ns;
        }
        None
    }
}

/// When kswapd or a thread itself reclaims between two times, in the order of their beginnings.
fn runs(case: &Case<'_>, from_ns: u64, to_ns: u64) -> Vec<(u64, u64)> {
    let mut runs = Vec::new();
    for (number, thread) in case.timelines.threads.iter().enumerate() {
        let is_kswapd = is_kswapd(case, number as Index);
        let ends =
            thread.transitions.iter().skip(1).map(|next| case.trace.time_ns(next.at)).chain([case.trace.end_ns()]);
        for (transition, end_ns) in thread.transitions.iter().zip(ends) {
            if let State::Running { is_reclaiming, .. } = transition.state
                && (is_kswapd || is_reclaiming)
            {
                let (from_ns, to_ns) = (case.trace.time_ns(transition.at).max(from_ns), end_ns.min(to_ns));
                runs.extend((from_ns < to_ns).then_some((from_ns, to_ns)));
            }
        }
    }
    runs.sort_unstable();
    runs
}

/// What is configured; where swap-out ahead of need is off, its suggested target.
fn configured(config: &PageoutConfig, facts: &MemoryFacts) -> PageoutConfig {
    let target_kib = match config.target_kib {
        0 => PageoutConfig::suggested_target_kib(facts.total_kib),
        target_kib => target_kib,
    };
    PageoutConfig { target_kib, ..config.clone() }
}

fn why_nothing(pageout: &PageoutConfig, free_kib: u64, facts: &MemoryFacts) -> String {
    let PageoutConfig { target_kib, lowest_adj, .. } = pageout;
    if free_kib >= *target_kib {
        return format!("{free_kib} KiB were free, no less than memory keeps free ({target_kib} KiB)");
    }
    match facts.swap_free_kib > pageout.step_kib() {
        false => "swap was full".to_owned(),
        true => format!("no application of oom_score_adj {lowest_adj} or more held memory that swap-out frees"),
    }
}

fn assumed_target(config: &PageoutConfig, pageout: &PageoutConfig) -> String {
    let target_kib = pageout.target_kib;
    match config.target_kib {
        0 => format!("memory.killer.pageout.target_kib is {target_kib}, a tenth of memory: as it is now, it is off"),
        _ => format!("memory.killer.pageout.target_kib is {target_kib}, as configured, and the killer is on"),
    }
}

fn assumed(free_kib: u64, swapped_out: &PageoutResult, ratio: Option<f64>) -> [String; 2] {
    let names: Vec<&str> = swapped_out.taken.iter().map(|(name, _)| name.as_str()).collect();
    let taken_kib: u64 = swapped_out.taken.iter().map(|(_, kib)| kib).sum();
    let source = if ratio.is_some() { "measured" } else { "assumed" };
    let percent = ratio.unwrap_or(ASSUMED_RATIO) * 100.0;
    [
        format!(
            "before the window the CPUs were idle for long enough to swap out {taken_kib} KiB of {}, of which {percent:.0} % stay \
             in memory as compressed ({source}): {} KiB are free then, not {free_kib}",
            names.join(", "),
            swapped_out.free_kib
        ),
        "the kernel then reclaims pages as quickly as it did, and memory's own work takes no time".to_owned(),
    ]
}

#[cfg(test)]
mod tests;
