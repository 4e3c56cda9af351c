//! Swapping out cached applications before memory is short, on an idle CPU.
//!
//! A launch needs memory at once. When reclaim has to find it meanwhile, it compresses while a person waits; so a thread
//! that runs only on an idle CPU (SCHED_IDLE) keeps some free, from the applications that were in the foreground longest ago. It
//! gives way the moment that another task wants the CPU, for it is then simply not run.
//!
//! Where an application has a control group of its own, the kernel takes from that what was used longest ago, and what its
//! processes share as well; elsewhere each process's own pages go, page after page.

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::device::cgroup::{hierarchy, memory};
use crate::device::meminfo::MemoryInfo;
use crate::device::process_kill::Hold;
use crate::device::process_reclaim::{Wish, advise, anonymous_ranges};
use crate::device::{BootTime, Root, meminfo};
use crate::insertion_sort::insertion_sort;
use crate::mechanism::memory::candidates;
use crate::mechanism::memory::config::PageoutConfig;
use crate::mechanism::memory::policy::PAGEOUT;
use crate::mechanism::memory::victim::Candidate;

/// How often memory is looked at.
const PERIOD: Duration = Duration::from_millis(200);
/// Processes are not read again before so long after a time in vain, unless they hold more.
const REST: Duration = Duration::from_secs(10);
/// Applications with less than this in memory are left alone.
const WORTHWHILE_KIB: u64 = 1 << 10;
/// What is taken from a group at once.
const STEP_KIB: u64 = 512;

/// Keeps `target_kib` free until the process ends.
pub(super) fn start(root: &Root, config: &PageoutConfig) -> std::io::Result<()> {
    let (root, config) = (root.clone(), config.clone());
    std::thread::Builder::new().name(PAGEOUT.to_owned()).spawn(move || {
        if let Err(error) = super::become_idle() {
            return tracing::warn!("cannot start proactive swap-out: {error}");
        }
        let mut vain = None;
        loop {
            std::thread::sleep(PERIOD);
            vain = look(&root, &config, vain);
        }
    })?;
    Ok(())
}

/// A time at which all that could go had gone and that was not enough, with what was left to applications.
#[derive(Debug, Clone, Copy)]
struct Vain {
    at: BootTime,
    anonymous_kib: u64,
}

impl Vain {
    /// True while looking again would find the same.
    fn lasts(self, now: BootTime, memory: &MemoryInfo) -> bool {
        now.since(self.at) < REST && memory.anonymous_kib < self.anonymous_kib + WORTHWHILE_KIB
    }
}

/// Looks at memory, and swaps out what is to go. Every process is looked at for that, so not in vain time after time.
fn look(root: &Root, config: &PageoutConfig, vain: Option<Vain>) -> Option<Vain> {
    let memory = meminfo::read(root).ok().filter(|memory| is_short(memory, config))?;
    let now = BootTime::now();
    if vain.is_some_and(|vain| vain.lasts(now, &memory)) {
        return vain;
    }
    refill(root, config);
    let left = meminfo::read(root).ok().filter(|memory| is_short(memory, config))?;
    Some(Vain { at: now, anonymous_kib: left.anonymous_kib })
}

/// True when less than the target is free and there is swap left.
fn is_short(memory: &MemoryInfo, config: &PageoutConfig) -> bool {
    memory.free_kib < config.target_kib && memory.swap_free_kib > config.step_kib()
}

fn lacks(root: &Root, config: &PageoutConfig) -> bool {
    meminfo::read(root).is_ok_and(|memory| is_short(&memory, config))
}

fn refill(root: &Root, config: &PageoutConfig) {
    let mut found = candidates(root, config.lowest_adj, false, &|_| false, &mut Vec::new()).unwrap_or_default();
    // The application that was in the foreground longest ago has the highest adj.
    insertion_sort(&mut found, |one, next| one.oom_score_adj < next.oom_score_adj);
    let groups = hierarchy::unified(root).filter(|_| config.by_group);
    let mut done = BTreeSet::new();
    for candidate in found.iter().filter(|candidate| candidate.rss_anonymous_kib >= WORTHWHILE_KIB) {
        if !lacks(root, config) {
            return;
        }
        match groups.as_deref().and_then(|mount| own_group(root, mount, candidate.pid, &found)) {
            Some(group) if done.contains(&group) => {}
            Some(group) => {
                reclaim(root, config, &group);
                done.insert(group);
            }
            None => page_out(root, config, candidate),
        }
    }
}

/// The group that process `pid` is in, if it can be taken from and all its members are among those `found`.
fn own_group(root: &Root, mount: &Path, pid: u32, found: &[Candidate]) -> Option<PathBuf> {
    let group = memory::reclaimable(root, mount, pid)?;
    let is_found = |pid| found.iter().any(|candidate| candidate.pid == pid);
    hierarchy::members(root, &group).ok()?.into_iter().all(is_found).then_some(group)
}

fn reclaim(root: &Root, config: &PageoutConfig, group: &Path) {
    while lacks(root, config) && memory::reclaim(root, group, STEP_KIB).is_ok() {}
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

#[cfg(test)]
mod tests {
    use super::*;

    // Verifies MEMORY-5.
    #[test]
    fn after_a_time_in_vain_it_waits_until_applications_hold_more() {
        let at = BootTime::from_milliseconds;
        let vain = Vain { at: at(50_000), anonymous_kib: 90_000 };
        for (now_ms, anonymous_kib, lasts) in
            [(50_200, 90_000, true), (59_999, 91_023, true), (50_200, 91_024, false), (60_000, 80_000, false)]
        {
            let memory = MemoryInfo { anonymous_kib, ..MemoryInfo::default() };
            assert_eq!(vain.lasts(at(now_ms), &memory), lasts, "{now_ms} ms, {anonymous_kib} KiB");
        }
    }
}
