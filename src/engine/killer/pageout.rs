//! Swapping out what nobody looks at before memory is short, in time that nobody else wants.
//!
//! A launch needs memory at once. When reclaim has to find it meanwhile, it compresses while a person waits; so a thread
//! that runs only on an idle CPU (SCHED_IDLE) keeps some free, from the applications that were in front longest ago. It is
//! given up the moment that anybody else wants the CPU, for it is then simply not run.

use std::os::fd::AsFd;
use std::time::Duration;

use crate::device::process_kill::Hold;
use crate::device::process_reclaim::{Wish, advise, anonymous_ranges};
use crate::device::{Root, meminfo, scheduling};
use crate::mechanism::memory::candidates;
use crate::mechanism::memory::config::PageoutConfig;
use crate::mechanism::memory::victim::Candidate;

/// How often memory is looked at.
const PERIOD: Duration = Duration::from_millis(200);
/// Applications with less than this in memory are not worth a look.
const WORTHWHILE_KIB: u64 = 1 << 10;

/// Keeps `target_kib` free until the process ends.
pub(super) fn start(root: &Root, config: &PageoutConfig) -> std::io::Result<()> {
    let (root, config) = (root.clone(), config.clone());
    std::thread::Builder::new().name("pageout".to_owned()).spawn(move || {
        if let Err(error) = scheduling::run_when_idle() {
            return tracing::warn!("nothing is swapped out ahead of need: {error}");
        }
        loop {
            std::thread::sleep(PERIOD);
            if lacks(&root, &config) {
                refill(&root, &config);
            }
        }
    })?;
    Ok(())
}

/// True while less than the target is free and there is swap left.
fn lacks(root: &Root, config: &PageoutConfig) -> bool {
    meminfo::read(root)
        .is_ok_and(|memory| memory.free_kib < config.target_kib && memory.swap_free_kib > config.step_kib())
}

fn refill(root: &Root, config: &PageoutConfig) {
    let mut found = candidates(root, config.lowest_adj, false, &|_| false, &mut Vec::new()).unwrap_or_default();
    found.retain(|candidate| candidate.rss_anonymous_kib >= WORTHWHILE_KIB);
    // Who was in front longest ago has the highest adj.
    found.sort_by_key(|candidate| std::cmp::Reverse(candidate.oom_score_adj));
    for candidate in &found {
        if !lacks(root, config) {
            return;
        }
        page_out(root, config, candidate);
    }
}

fn page_out(root: &Root, config: &PageoutConfig, candidate: &Candidate) {
    let (Ok(hold), Ok(ranges)) = (Hold::on(candidate.pid), anonymous_ranges(root, candidate.pid)) else { return };
    for range in ranges {
        for step in range.steps() {
            if !lacks(root, config) || advise(hold.as_fd(), step, Wish::Out).is_err() {
                return;
            }
        }
    }
}
