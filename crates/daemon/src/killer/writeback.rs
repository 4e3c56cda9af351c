//! Writes unused pages on zram back to flash, on an idle CPU and within a daily budget.
//!
//! The amount is recorded as written before the write: if the killer dies during the write, the amount counts as spent.

use std::time::Duration;

use super::WritebackSetup;
use super::sampler::page_kib;
use crate::state_file::{StateFile, load_state};
use brisk_mechanism::memory::candidates;
use brisk_mechanism::memory::config::WritebackConfig;
use brisk_mechanism::memory::constant_pages::{ConstantPages, SwapExtents};
use brisk_mechanism::memory::writeback_budget::{self, Clock, WritebackBudget};
use brisk_sys::cpu::idle_time::IdleTime;
use brisk_sys::kernel;
use brisk_sys::memory::zram_writeback::{self, Pages, incompressible_first};
use brisk_sys::memory::{pagemap, process_reclaim, zram};
use brisk_sys::process::ProcessIdentity;
use brisk_sys::time::wall_s;
use brisk_sys::{BootTime, DeviceError, Root, process};

/// Applications with less than this on swap are skipped.
const WORTHWHILE_KIB: u64 = 1 << 10;
/// The amount recorded at once, which is the most that a kill of this process wastes from the budget.
const BATCH_KIB: u64 = 1 << 10;
/// After this many equal samples with idle CPUs, only one in this many is taken.
const UNCHANGED_SAMPLES: u32 = 6;
/// The pause after an error of the device.
const ERROR_PAUSE: Duration = Duration::from_secs(3600);

/// Writes back until the process ends.
pub(super) fn start(root: &Root, config: &WritebackConfig, prepared: WritebackSetup) -> std::io::Result<()> {
    let (root, config) = (root.clone(), config.clone());
    std::thread::Builder::new().name("writeback".to_owned()).spawn(move || {
        if let Err(error) = super::become_idle() {
            return tracing::warn!("nothing is written back: {error}");
        }
        let Some(mut writeback) = Writeback::new(root, config, prepared.limits) else { return };
        let mut last_reason = String::new();
        loop {
            std::thread::sleep(Duration::from_secs(writeback.config.period_s));
            let why = writeback.sample().err().unwrap_or_default();
            if !why.is_empty() && why != last_reason {
                if is_expected(prepared, &writeback.root) {
                    tracing::warn!("nothing is written back: {why}");
                } else {
                    tracing::info!("nothing is written back: memory.zram.backing_device names no device");
                }
            }
            last_reason = why;
        }
    })?;
    Ok(())
}

struct Writeback {
    root: Root,
    config: WritebackConfig,
    limits: bool,
    known: ConstantPages,
    /// The cached applications with their swap use, and the number of equal samples with idle CPUs.
    cached: Vec<(ProcessIdentity, u64)>,
    unchanged_samples: u32,
    idle_time: IdleTime,
    wear: WritebackBudget,
    /// The recorded wear.
    saved: WritebackBudget,
    file: StateFile,
    boot: String,
    /// After an error of the device: the end of the pause, and the error.
    error_pause: Option<(BootTime, String)>,
}

impl Writeback {
    /// `None` when the budget spent before is not known.
    fn new(root: Root, config: WritebackConfig, limits: bool) -> Option<Self> {
        let wear = load_state(&root, writeback_budget::FILE, WritebackBudget::parse);
        if wear.is_none() && root.exists(root.state_file(writeback_budget::FILE.name)) {
            return None;
        }
        let wear = wear.unwrap_or_default();
        let file = StateFile::new(&root, writeback_budget::FILE, wear.to_text());
        let boot = kernel::boot_id(&root).unwrap_or_else(|| "unknown".to_owned());
        Some(Self {
            root,
            config,
            limits,
            known: ConstantPages::default(),
            cached: Vec::new(),
            unchanged_samples: 0,
            idle_time: IdleTime::default(),
            saved: wear.clone(),
            wear,
            file,
            boot,
            error_pause: None,
        })
    }

    /// Samples the cached applications, and writes back the pages that are due.
    fn sample(&mut self) -> Result<(), String> {
        let name = zram_writeback::device(&self.root)?.name;
        self.learn();
        if let Some((until, why)) = &self.error_pause
            && BootTime::now() < *until
        {
            return Err(why.clone());
        }
        let due = self.known.due();
        let clock = Clock { boot: &self.boot, now: BootTime::now(), wall_s: wall_s() };
        if due.is_empty()
            || self.wear.left_kib(clock, self.config.daily_kib) < writeback_budget::RECORD_KIB + page_kib()
        {
            return Ok(());
        }
        let outcome = self.write_back(&name, &incompressible_first(&self.root, &name, due));
        if self.wear.settle(&self.saved) {
            self.save();
        }
        match outcome {
            Ok(true) => self.known.settle(),
            // The budget is spent: the rest stays due.
            Ok(false) => {}
            Err(error) => {
                let why = self.root.with_device_paths(&error.with_advice());
                self.error_pause = Some((BootTime::now() + ERROR_PAUSE, why.clone()));
                return Err(why);
            }
        }
        Ok(())
    }

    /// Records the spent budget. True when that succeeded.
    fn save(&mut self) -> bool {
        let is_saved = self.file.save(self.wear.to_text());
        if is_saved {
            self.saved = self.wear.clone();
        }
        is_saved
    }

    /// Learns the swap slots of cached applications' pages.
    fn learn(&mut self) {
        let root = &self.root;
        let are_cpus_idle = self.idle_time.are_cpus_idle(root, BootTime::now());
        self.unchanged_samples = if are_cpus_idle { self.unchanged_samples + 1 } else { 0 };
        if self.unchanged_samples > UNCHANGED_SAMPLES && !self.unchanged_samples.is_multiple_of(UNCHANGED_SAMPLES) {
            return;
        }
        let found = candidates(root, self.config.lowest_adj, false, &|_| false, &mut Vec::new()).unwrap_or_default();
        let cached: Vec<_> = found.iter().filter_map(|it| Some((process::life(root, it.pid)?, it.swap_kib))).collect();
        if cached != self.cached {
            (self.cached, self.unchanged_samples) = (cached.clone(), 0);
        }
        self.known.update_cached(
            |known| cached.iter().any(|(life, _)| life == known),
            |known| process::life(root, known.pid) == Some(*known),
        );
        for (life, swap_kib) in cached {
            if swap_kib >= WORTHWHILE_KIB
                && self.known.needs_sample(&life, swap_kib)
                && let Ok(extents) = extents(root, life.pid)
            {
                self.known.sample(life, swap_kib, extents);
            }
        }
    }

    /// Writes the pages of `slots` back to the backing device of `name`; false when the budget ran out before.
    fn write_back(&mut self, name: &str, slots: &[u32]) -> Result<bool, DeviceError> {
        let mut pages = Pages::of(&self.root, name)?;
        for batch in slots.chunks((BATCH_KIB / page_kib()).max(1) as usize) {
            let clock = Clock { boot: &self.boot, now: BootTime::now(), wall_s: wall_s() };
            let granted_kib = self.wear.reserve(clock, self.config.daily_kib, batch.len() as u64 * page_kib());
            let granted = (granted_kib / page_kib()) as usize;
            // Without a record nothing is written.
            if granted == 0 || !self.save() {
                self.wear.refund(granted_kib);
                return Ok(false);
            }
            let before_kib = self.written_kib(name)?;
            if self.limits {
                zram_writeback::limit(&self.root, name, granted_kib)?;
            }
            let outcome = batch[..granted].iter().try_for_each(|&slot| pages.write_back(slot));
            let written_kib = self.written_kib(name)?.saturating_sub(before_kib);
            self.wear.refund(granted_kib.saturating_sub(written_kib));
            outcome?;
            if granted < batch.len() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The amount that the kernel has written to the backing device of `name`.
    fn written_kib(&self, name: &str) -> Result<u64, DeviceError> {
        let zram = zram::device(&self.root, name.to_owned())?;
        Ok(zram.backing.map_or(0, |backing| backing.written_kib))
    }
}

/// True when write-back is expected: the configuration names a backing device, or a zram device has one already. Otherwise
/// the lack of one is no fault.
fn is_expected(prepared: WritebackSetup, root: &Root) -> bool {
    let has_backing = || zram::devices(root).is_ok_and(|devices| devices.iter().any(|zram| zram.backing.is_some()));
    prepared.names_backing || has_backing()
}

/// The swap slots of the pages of process `pid`.
fn extents(root: &Root, pid: u32) -> Result<SwapExtents, DeviceError> {
    let mut extents = SwapExtents::default();
    let ranges = process_reclaim::anonymous_ranges(root, pid)?;
    pagemap::swapped(root, pid, &ranges, &mut |page, slot| extents.add(page, slot))?;
    Ok(extents)
}

#[cfg(test)]
mod tests {
    use super::*;
    use brisk_sys::test_trees::root_of;

    // Verifies MEMORY-6.
    #[test]
    fn a_missing_backing_device_is_a_fault_only_if_configured() {
        for (backing_dev, names_backing, expected) in
            [("none\n", false, false), ("none\n", true, true), ("/dev/mmcblk0p9\n", false, true)]
        {
            let files = [
                ("sys/block/zram0/disksize", "0\n"),
                ("sys/block/zram0/backing_dev", backing_dev),
                ("sys/block/zram0/bd_stat", "1 2 3\n"),
            ];
            let (_folder, root) = root_of(&files);
            let prepared = WritebackSetup { limits: false, names_backing };
            assert_eq!(is_expected(prepared, &root), expected, "{backing_dev:?} {names_backing}");
        }
    }
}
