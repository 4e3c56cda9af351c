//! Samples memory: the kernel's figures, and their changes within the last second.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use brisk_mechanism::memory::config::KillerConfig;
use brisk_mechanism::memory::headroom::{headroom, swap_ratio};
use brisk_mechanism::memory::killer::Sample;
use brisk_mechanism::memory::killer::lmkd::Reading;
use brisk_mechanism::memory::victim::{MemoryPressure, VictimMode};
use brisk_sys::cpu::hotplug;
use brisk_sys::memory::swaps::Swap;
use brisk_sys::memory::vmstat::ReclaimCounters;
use brisk_sys::memory::zoneinfo::Watermarks;
use brisk_sys::memory::{meminfo, process_memory, psi, swaps, vmstat, zoneinfo, zram};
use brisk_sys::open_file::OpenFiles;
use brisk_sys::{BootTime, DeviceError, Root};

/// The time span for stalls and refaults.
const SPAN: Duration = Duration::from_secs(1);
/// The most samples that are kept.
const MAXIMUM_SAMPLES: usize = 64;

/// Counters at one moment.
#[derive(Debug, Clone, Copy)]
struct Counters {
    at: BootTime,
    some_us: u64,
    full_us: u64,
    file_refaults: u64,
    scanned: u64,
}

/// The samples of the last second, and figures that rarely change.
#[derive(Debug)]
pub(super) struct Sampler {
    texts: OpenFiles,
    before: VecDeque<Counters>,
    /// The mode needs reclaim counters and stall times. Both are expensive: the kernel adds up per-CPU counters.
    needs_reclaim_counters: bool,
    /// The online CPUs, each of which may allocate memory.
    cpu_count: usize,
    watermarks: Watermarks,
    kernel_threads: BTreeSet<u32>,
}

impl Sampler {
    /// The sampler for a killer with `config`.
    pub(super) fn of(config: &KillerConfig) -> Self {
        Self {
            texts: OpenFiles::default(),
            before: VecDeque::new(),
            needs_reclaim_counters: config.mode != VictimMode::Brisk || config.refault_percent > 0,
            cpu_count: 1,
            watermarks: Watermarks::default(),
            kernel_threads: BTreeSet::new(),
        }
    }

    /// Reads figures that are too expensive to read before a kill: watermarks, and the pids of kernel threads.
    ///
    /// # Errors
    /// [`DeviceError`] when they cannot be read.
    pub(super) fn prepare(&mut self, root: &Root) -> Result<(), DeviceError> {
        self.watermarks = zoneinfo::watermarks(root)?;
        self.cpu_count = hotplug::online(root).map_or(1, |online| online.len());
        let pids = process_memory::pids(root)?;
        self.kernel_threads =
            pids.into_iter().filter(|&pid| matches!(process_memory::read(root, pid), Ok(None))).collect();
        Ok(())
    }

    /// The number of online CPUs at the last [`Sampler::prepare`].
    pub(super) fn cpu_count(&self) -> usize {
        self.cpu_count
    }

    /// True when `pid` was a kernel thread at the last [`Sampler::prepare`].
    pub(super) fn is_kernel_thread(&self, pid: u32) -> bool {
        self.kernel_threads.contains(&pid)
    }

    /// Samples memory.
    ///
    /// # Errors
    /// [`DeviceError`] when /proc/meminfo cannot be read.
    pub(super) fn take(&mut self, root: &Root, now: BootTime) -> Result<Sample, DeviceError> {
        let memory = meminfo::read_open(root, &mut self.texts)?;
        // Swap that cannot be read is taken as none, which makes the headroom smaller, not larger.
        let swaps = swaps::read_open(root, &mut self.texts).unwrap_or_default();
        let names = swaps.iter().filter_map(Swap::zram_name);
        let zram: Vec<_> = names.filter_map(|name| zram::held(root, name.to_owned(), &mut self.texts).ok()).collect();
        let (pressure, reclaim) = match self.needs_reclaim_counters {
            true => {
                let pressure = self.texts.read(root, psi::MEMORY_FILE).ok().and_then(|text| psi::parse(&text));
                (pressure, vmstat::read(root).unwrap_or_default())
            }
            false => (None, ReclaimCounters::default()),
        };
        let counters = Counters {
            at: now,
            some_us: pressure.map_or(0, |pressure| pressure.some.total_us),
            full_us: pressure.map_or(0, |pressure| pressure.full.total_us),
            file_refaults: reclaim.file_refaults,
            scanned: reclaim.scanned,
        };
        let reclaiming = self.before.back().is_none_or(|last| last.scanned < counters.scanned);
        let earlier = self.push_counters(counters);
        let percent = |now_us: u64, then_us: u64| {
            let span_us = counters.at.since(earlier.at).max(SPAN / 2).as_micros() as f64;
            100.0 * now_us.saturating_sub(then_us) as f64 / span_us
        };
        let full_percent = percent(counters.full_us, earlier.full_us);
        Ok(Sample {
            memory_pressure: MemoryPressure {
                free_kib: memory.free_kib,
                file_kib: memory.file_kib,
                some_percent: percent(counters.some_us, earlier.some_us),
                full_percent,
                swap_ratio: swap_ratio(&swaps, &zram),
            },
            headroom_kib: headroom(&memory, self.watermarks, &swaps, &zram).total_kib,
            refaulted_kib: counters.file_refaults.saturating_sub(earlier.file_refaults).saturating_mul(page_kib()),
            reclaiming,
            reading: Reading { at: now, memory, reclaim, watermarks: self.watermarks, full_percent },
        })
    }

    /// Keeps `counters`, and returns those of a second ago: the latest that are at least that old, else the oldest.
    fn push_counters(&mut self, counters: Counters) -> Counters {
        self.before.push_back(counters);
        let is_old = |other: &Counters| counters.at.since(other.at) >= SPAN;
        while self.before.len() > MAXIMUM_SAMPLES || self.before.get(1).is_some_and(is_old) {
            self.before.pop_front();
        }
        self.before.front().copied().unwrap_or(counters)
    }
}

/// The size of a page.
pub(super) fn page_kib() -> u64 {
    rustix::param::page_size() as u64 / 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_compared_with_those_of_a_second_ago() {
        let mut sampler = Sampler::of(&KillerConfig::default());
        let at = |ms| Counters {
            at: BootTime::from_milliseconds(ms),
            some_us: ms,
            full_us: 0,
            file_refaults: 0,
            scanned: 0,
        };
        for (now, earlier) in
            [(100, 100), (600, 100), (1100, 100), (1650, 600), (9000, 1650), (9010, 1650), (10_005, 9000)]
        {
            assert_eq!(sampler.push_counters(at(now)).some_us, earlier, "{now}");
        }
    }

    #[test]
    fn memory_of_this_system_is_sampled() {
        let mut sampler = Sampler::of(&KillerConfig::default());
        sampler.prepare(&Root::system()).unwrap();
        assert!(sampler.watermarks.high_kib > 0 && !sampler.is_kernel_thread(std::process::id()));
        let sample = sampler.take(&Root::system(), BootTime::now()).unwrap();
        assert!(sample.memory_pressure.free_kib > 0 && sample.refaulted_kib == 0, "{sample:?}");
        assert!((0.0..=100.0).contains(&sample.memory_pressure.some_percent));
    }
}
