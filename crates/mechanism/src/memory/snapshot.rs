//! A snapshot of memory: the figures of the device and of every process that holds some, read once.

use std::collections::BTreeMap;

use super::headroom::{Headroom, headroom, swap_ratio};
use super::victim::{Candidate, MemoryPressure};
use brisk_sys::memory::meminfo::{self, MemoryInfo};
use brisk_sys::memory::psi::{self, Pressure};
use brisk_sys::memory::swaps::{self, Swap};
use brisk_sys::memory::zram::{self, Zram};
use brisk_sys::memory::{process_memory, zoneinfo};
use brisk_sys::{DeviceError, Root, process};

/// The state of memory at one moment.
#[derive(Debug)]
pub struct MemorySnapshot {
    /// The kernel's figures.
    pub memory: MemoryInfo,
    /// Memory that applications can still allocate.
    pub headroom: Headroom,
    /// How long tasks wait; `None` where the kernel does not report it.
    pub pressure: Option<Pressure>,
    /// zram devices that are set up.
    pub zram: Vec<Zram>,
    /// The input of the killers.
    pub memory_pressure: MemoryPressure,
    /// Every process that holds memory but this one.
    pub candidates: Vec<Candidate>,
    /// What exists but could not be read, in words.
    pub faults: Vec<String>,
}

impl MemorySnapshot {
    /// Reads the device below `root`; proportional figures, which are expensive, only when `with_pss`.
    ///
    /// # Errors
    /// [`DeviceError`] when /proc/meminfo, /proc/zoneinfo or /proc cannot be read.
    pub fn take(root: &Root, with_pss: bool) -> Result<Self, DeviceError> {
        let mut faults = Vec::new();
        let memory = meminfo::read(root)?;
        let watermarks = zoneinfo::watermarks(root)?;
        let swaps: Vec<Swap> = read_or_report(root, swaps::read(root), &mut faults).unwrap_or_default();
        let mut zram = read_or_report(root, zram::devices(root), &mut faults).unwrap_or_default();
        zram.retain(|zram| zram.disk_size_bytes > 0);
        let pressure = read_or_report(root, psi::memory(root), &mut faults);
        let memory_pressure = MemoryPressure {
            free_kib: memory.free_kib,
            file_kib: memory.file_kib,
            some_percent: pressure.map_or(0.0, |pressure| pressure.some.average_10s_percent),
            full_percent: pressure.map_or(0.0, |pressure| pressure.full.average_10s_percent),
            swap_ratio: swap_ratio(&swaps, &zram),
        };
        Ok(Self {
            headroom: headroom(&memory, watermarks, &swaps, &zram),
            memory,
            pressure,
            zram,
            memory_pressure,
            candidates: grouped(root, candidates(root, i16::MIN, with_pss, &|_| false, &mut faults)?),
            faults,
        })
    }
}

/// Adds the control group of each.
fn grouped(root: &Root, mut candidates: Vec<Candidate>) -> Vec<Candidate> {
    candidates.iter_mut().for_each(|candidate| candidate.group = process::group(root, candidate.pid));
    candidates
}

/// The value, where it could be read. A missing file is no fault.
fn read_or_report<T>(root: &Root, outcome: Result<T, DeviceError>, faults: &mut Vec<String>) -> Option<T> {
    match outcome {
        Ok(value) => return Some(value),
        Err(error) if error.is_missing() => {}
        Err(error) => faults.push(root.with_device_paths(&error)),
    }
    None
}

/// Every process but this one that holds memory and whose `oom_score_adj` is not below `lowest_adj`.
/// Skips processes that `is_known_thread` reports as kernel threads.
///
/// # Errors
/// [`DeviceError`] when /proc cannot be listed; read errors of a single process are in `faults`.
pub fn candidates(
    root: &Root,
    lowest_adj: i16,
    with_pss: bool,
    is_known_thread: &dyn Fn(u32) -> bool,
    faults: &mut Vec<String>,
) -> Result<Vec<Candidate>, DeviceError> {
    let mut candidates = Vec::new();
    // One fault per file is enough: a hundred processes fail for the same reason.
    let mut faulty = BTreeMap::new();
    for pid in process_memory::pids(root)? {
        if root.is_system() && pid == std::process::id() || is_known_thread(pid) {
            continue;
        }
        match candidate(root, pid, lowest_adj, with_pss) {
            Ok(candidate) => candidates.extend(candidate),
            // It has exited in the meantime.
            Err(error) if error.is_missing() => {}
            Err(error) => {
                let name = error.path().file_name().map(|name| name.to_string_lossy().into_owned());
                faulty.entry(name).or_insert_with(|| root.with_device_paths(&error));
            }
        }
    }
    faults.extend(faulty.into_values());
    Ok(candidates)
}

fn candidate(root: &Root, pid: u32, lowest_adj: i16, with_pss: bool) -> Result<Option<Candidate>, DeviceError> {
    // The cheapest check first: it rejects most processes before a kill.
    let oom_score_adj = process_memory::oom_score_adj(root, pid)?;
    if oom_score_adj < lowest_adj {
        return Ok(None);
    }
    let Some((owner, memory)) = process_memory::read_with_owner(root, pid)? else { return Ok(None) };
    let exact = with_pss.then(|| process_memory::proportional(root, pid).ok()).flatten();
    Ok(Some(Candidate {
        pid,
        name: owner.name.map_or_else(|| process::command(root, pid), Ok)?,
        uid: owner.uid,
        oom_score_adj,
        rss_kib: memory.rss_kib,
        rss_anonymous_kib: memory.rss_anonymous_kib,
        swap_kib: memory.swap_kib,
        pss_kib: exact.map(|exact| exact.pss_kib),
        swap_pss_kib: exact.map(|exact| exact.swap_pss_kib),
        ..Candidate::default()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Verifies MEMORY-1.
    #[test]
    fn this_system_is_read() {
        let mut child = std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let snapshot = MemorySnapshot::take(&Root::system(), true).unwrap();
        let found = snapshot.candidates.iter().find(|candidate| candidate.pid == child.id());
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(found.is_some_and(|cat| cat.rss_kib > 0), "{found:?}");
        assert!(snapshot.candidates.iter().all(|candidate| candidate.pid != std::process::id()));
        let most_kib = i64::try_from(snapshot.memory.total_kib).unwrap();
        assert!(snapshot.headroom.total_kib <= most_kib + snapshot.headroom.swap_kib, "{:?}", snapshot.headroom);
    }
}
