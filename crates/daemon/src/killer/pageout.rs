//! Swaps out cached applications before memory is short, on an idle CPU.
//!
//! A launch needs memory at once, and direct reclaim would compress pages while the user waits. So a thread that runs only on
//! an idle CPU (SCHED_IDLE) keeps some memory free: it swaps out the applications that were in the foreground longest ago. The
//! scheduler preempts it as soon as another task needs the CPU.
//!
//! If an application has its own cgroup, the kernel reclaims the group's least recently used pages, including those that its
//! processes share; otherwise this thread swaps out the private pages of each process one by one.

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use brisk_mechanism::memory::candidates;
use brisk_mechanism::memory::config::PageoutConfig;
use brisk_mechanism::memory::pageout::{self, WORTHWHILE_KIB, is_worthwhile};
use brisk_mechanism::memory::policy::PAGEOUT;
use brisk_mechanism::memory::victim::Candidate;
use brisk_sys::cgroup::{hierarchy, memory};
use brisk_sys::cpu::idle_time::IdleTime;
use brisk_sys::memory::meminfo;
use brisk_sys::memory::meminfo::MemoryInfo;
use brisk_sys::memory::process_reclaim::{SwapDirection, advise, anonymous_ranges};
use brisk_sys::process::process_kill::ProcessHandle;
use brisk_sys::{BootTime, Root};

/// The sampling period while memory changes, ...
const PERIOD: Duration = Duration::from_millis(200);
/// ... and the longest one, to which it doubles while memory does not change, to avoid wake-ups of an idle device.
const LONGEST_PERIOD: Duration = Duration::from_secs(2);
/// The pause after a vain attempt before processes are read again, unless they hold more memory: an application that goes to the
/// background can be swapped out then, and holds no more. It doubles with each further vain attempt, ...
const FIRST_RETRY_PAUSE: Duration = Duration::from_secs(1);
/// ... up to this one, ...
const RETRY_PAUSE: Duration = Duration::from_secs(10);
/// ... or while the CPUs are idle, up to this one.
const IDLE_RETRY_PAUSE: Duration = Duration::from_secs(60);
/// The amount reclaimed from a group at once.
const STEP_KIB: u64 = 512;

/// Keeps `target_kib` free until the process ends.
pub(super) fn start(root: &Root, config: &PageoutConfig) -> std::io::Result<()> {
    let (root, config) = (root.clone(), config.clone());
    std::thread::Builder::new().name(PAGEOUT.to_owned()).spawn(move || {
        if let Err(error) = super::become_idle() {
            return tracing::warn!("cannot start proactive swap-out: {error}");
        }
        let (mut backoff, mut idle_time) = (SamplingBackoff::default(), IdleTime::default());
        let mut vain: Option<FailedAttempt> = None;
        loop {
            std::thread::sleep(backoff.period);
            let Ok(memory) = meminfo::read(&root) else { continue };
            let now = BootTime::now();
            let longest = if idle_time.are_cpus_idle(&root, now) { IDLE_RETRY_PAUSE } else { RETRY_PAUSE };
            if !vain.is_some_and(|vain| vain.lasts(now, longest, &memory)) {
                vain = sample(&root, &config, &memory).map(|left| FailedAttempt::after(vain, now, &left));
            }
            backoff.step(&memory);
        }
    })?;
    Ok(())
}

/// A vain attempt: everything possible was swapped out, and that was not enough. With the memory that applications still held.
#[derive(Debug, Clone, Copy)]
struct FailedAttempt {
    at: BootTime,
    anonymous_kib: u64,
    /// Until the next attempt.
    pause: Duration,
}

impl FailedAttempt {
    /// An attempt that left `memory`; `previous` is the one before, if that was in vain as well.
    fn after(previous: Option<Self>, at: BootTime, memory: &MemoryInfo) -> Self {
        let previous = previous.filter(|previous| !previous.is_outgrown(memory));
        let pause = previous.map_or(FIRST_RETRY_PAUSE, |previous| (previous.pause * 2).min(IDLE_RETRY_PAUSE));
        Self { at, anonymous_kib: memory.anonymous_kib, pause }
    }

    /// True while another attempt would find the same.
    fn lasts(self, now: BootTime, longest: Duration, memory: &MemoryInfo) -> bool {
        now.since(self.at) < self.pause.min(longest) && !self.is_outgrown(memory)
    }

    /// True when applications hold more memory than then.
    fn is_outgrown(self, memory: &MemoryInfo) -> bool {
        memory.anonymous_kib >= self.anonymous_kib + WORTHWHILE_KIB
    }
}

/// How often memory is sampled.
#[derive(Debug, Clone, Copy)]
struct SamplingBackoff {
    period: Duration,
    /// The free and anonymous memory at the last change.
    free_kib: u64,
    anonymous_kib: u64,
}

impl Default for SamplingBackoff {
    fn default() -> Self {
        Self { period: PERIOD, free_kib: 0, anonymous_kib: 0 }
    }
}

impl SamplingBackoff {
    /// Adapts the period to a sample of `memory`.
    fn step(&mut self, memory: &MemoryInfo) {
        let is_unchanged = memory.free_kib.abs_diff(self.free_kib) < WORTHWHILE_KIB
            && memory.anonymous_kib.abs_diff(self.anonymous_kib) < WORTHWHILE_KIB;
        *self = if is_unchanged {
            Self { period: (self.period * 2).min(LONGEST_PERIOD), ..*self }
        } else {
            Self { period: PERIOD, free_kib: memory.free_kib, anonymous_kib: memory.anonymous_kib }
        };
    }
}

/// Swaps out applications if `memory` is short, which reads every process. Returns the memory after an attempt that was in vain.
fn sample(root: &Root, config: &PageoutConfig, memory: &MemoryInfo) -> Option<MemoryInfo> {
    if !is_short(memory, config) {
        return None;
    }
    swap_out_candidates(root, config);
    meminfo::read(root).ok().filter(|memory| is_short(memory, config))
}

fn is_short(memory: &MemoryInfo, config: &PageoutConfig) -> bool {
    pageout::is_short(config, memory.free_kib, memory.swap_free_kib)
}

fn is_short_now(root: &Root, config: &PageoutConfig) -> bool {
    meminfo::read(root).is_ok_and(|memory| is_short(&memory, config))
}

fn swap_out_candidates(root: &Root, config: &PageoutConfig) {
    let mut found = candidates(root, config.lowest_adj, false, &|_| false, &mut Vec::new()).unwrap_or_default();
    pageout::sort(&mut found);
    let groups = hierarchy::unified(root).filter(|_| config.by_group);
    let mut done = BTreeSet::new();
    for candidate in found.iter().filter(|candidate| is_worthwhile(candidate)) {
        if !is_short_now(root, config) {
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

/// The cgroup of process `pid`, if it can be reclaimed and all its members are among those `found`.
fn own_group(root: &Root, mount: &Path, pid: u32, found: &[Candidate]) -> Option<PathBuf> {
    let group = memory::reclaimable(root, mount, pid)?;
    let is_found = |pid| found.iter().any(|candidate| candidate.pid == pid);
    hierarchy::members(root, &group).ok()?.into_iter().all(is_found).then_some(group)
}

fn reclaim(root: &Root, config: &PageoutConfig, group: &Path) {
    while is_short_now(root, config) && memory::reclaim(root, group, STEP_KIB).is_ok() {}
}

fn page_out(root: &Root, config: &PageoutConfig, candidate: &Candidate) {
    let (Ok(hold), Ok(ranges)) = (ProcessHandle::on(candidate.pid), anonymous_ranges(root, candidate.pid)) else {
        return;
    };
    for range in ranges {
        for step in range.steps() {
            if !is_short_now(root, config) || advise(hold.as_fd(), step, SwapDirection::Out).is_err() {
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
    fn a_vain_attempt_is_repeated_when_applications_hold_more() {
        let at = BootTime::from_milliseconds;
        let memory = |anonymous_kib| MemoryInfo { anonymous_kib, ..MemoryInfo::default() };
        let vain = FailedAttempt { pause: IDLE_RETRY_PAUSE, ..FailedAttempt::after(None, at(50_000), &memory(90_000)) };
        for (now_ms, longest, anonymous_kib, lasts) in [
            (50_200, RETRY_PAUSE, 90_000, true),
            (59_999, RETRY_PAUSE, 91_023, true),
            (50_200, RETRY_PAUSE, 91_024, false),
            (60_000, RETRY_PAUSE, 80_000, false),
            (60_000, IDLE_RETRY_PAUSE, 80_000, true),
            (60_000, IDLE_RETRY_PAUSE, 91_024, false),
            (110_000, IDLE_RETRY_PAUSE, 80_000, false),
        ] {
            assert_eq!(
                vain.lasts(at(now_ms), longest, &memory(anonymous_kib)),
                lasts,
                "{now_ms} ms, {anonymous_kib} KiB"
            );
        }
    }

    /// Nothing tells that an application has gone to the background, where it can be swapped out.
    // Verifies MEMORY-5.
    #[test]
    fn a_vain_attempt_is_repeated_soon_at_first() {
        let memory = |anonymous_kib| MemoryInfo { anonymous_kib, ..MemoryInfo::default() };
        let mut vain = None;
        let mut pause_s = |anonymous_kib| {
            let attempt = FailedAttempt::after(vain, BootTime::from_milliseconds(0), &memory(anonymous_kib));
            vain = Some(attempt);
            attempt.pause.as_secs()
        };
        assert_eq!([(); 8].map(|()| pause_s(90_000)), [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(pause_s(91_024), 1, "applications hold more");
        assert_eq!(pause_s(80_000), 2);
    }

    // Verifies COST-2.
    #[test]
    fn unchanged_memory_is_sampled_with_exponential_back_off() {
        let mut backoff = SamplingBackoff::default();
        let mut period_ms = |free_kib, anonymous_kib| {
            backoff.step(&MemoryInfo { free_kib, anonymous_kib, ..MemoryInfo::default() });
            backoff.period.as_millis()
        };
        assert_eq!([(); 6].map(|()| period_ms(300_000, 90_000)), [200, 400, 800, 1600, 2000, 2000]);
        assert_eq!(period_ms(299_500, 90_500), 2000, "less than a MiB");
        assert_eq!(period_ms(298_900, 90_500), 200, "slowly, but more than a MiB since the last change");
        assert_eq!([(); 2].map(|()| period_ms(298_900, 90_500)), [400, 800]);
        assert_eq!(period_ms(298_900, 92_000), 200, "applications hold more");
    }
}
