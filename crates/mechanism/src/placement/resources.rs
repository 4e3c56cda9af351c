//! Each process's use of CPUs, memory, storage and GPU, and its intensity, by the thresholds that the thesis defines for CPUs
//! and proposes for every contended resource.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use brisk_base::insertion_sort::insertion_sort;
use brisk_sys::io::process_io::StorageIo;
use brisk_sys::process::drm_clients::{Clients, EngineShare};
use brisk_sys::process::{ProcessIdentity, TICK_MS};

/// Shares of storage are not meaningful while all processes together move fewer bytes per second.
const STORAGE_BYTES_PER_S: f64 = 1024.0 * 1024.0;

/// Cumulative use of one process since its start, and the memory that it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceUse {
    /// Its name.
    pub command: String,
    /// CPU time of all its threads, in clock ticks.
    pub cpu_ticks: u64,
    /// Its own memory, resident or in swap.
    pub memory_kib: u64,
    /// The bytes that it has read and written; `None` where they may not be read or are not accounted.
    pub storage: Option<StorageIo>,
}

/// All processes at one time.
#[derive(Debug, Clone, Default)]
pub struct ResourceSample {
    /// The use of each process.
    pub processes: BTreeMap<ProcessIdentity, ResourceUse>,
    /// The DRM clients.
    pub gpu: Clients,
}

/// How much of a resource a process uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Intensity {
    /// 50 % or more.
    Heavy,
    /// 30 to 50 %.
    Middling,
    /// Below 30 %.
    Light,
}

/// A share of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Share {
    /// 0 to 1; for CPUs, their number.
    pub share: f64,
    /// The intensity of that share.
    pub intensity: Intensity,
}

/// What one process used between two samples.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProcessResources {
    /// The process id.
    pub pid: u32,
    /// Its name.
    pub command: String,
    /// The number of CPUs.
    pub cpu: Share,
    /// The share of all memory.
    pub memory: Share,
    /// Its memory in KiB.
    pub memory_kib: u64,
    /// The share of the bytes that all processes together moved; `None` where they may not be read.
    pub storage: Option<Share>,
    /// Its bytes in KiB per second.
    pub storage_kib_per_s: Option<f64>,
    /// The share of the GPU engine that it used most; `None` where it uses none.
    pub gpu: Option<Share>,
    /// The name of that engine.
    pub gpu_engine: Option<String>,
}

impl Share {
    fn of(share: f64) -> Self {
        let intensity = match share {
            share if share >= 0.5 => Intensity::Heavy,
            share if share >= 0.3 => Intensity::Middling,
            _ => Intensity::Light,
        };
        Self { share, intensity }
    }
}

/// The use of each process that is in both samples, taken `wall` apart, on a device with `memory_total_kib`. Sorted by the
/// number of resources in which it is more than light, then by CPU use.
pub fn between(
    before: &ResourceSample,
    after: &ResourceSample,
    wall: Duration,
    memory_total_kib: u64,
) -> Vec<ProcessResources> {
    let seconds = wall.as_secs_f64();
    let both = || after.processes.iter().filter_map(|(life, now)| Some((life, before.processes.get(life)?, now)));
    let moved: f64 = both().filter_map(|(_, then, now)| moved_bytes(then, now)).sum();
    let is_storage_used = moved >= STORAGE_BYTES_PER_S * seconds;
    let mut gpu = after.gpu.shares_since(&before.gpu, wall);
    let of_process = |(life, then, now): (&ProcessIdentity, &ResourceUse, &ResourceUse)| {
        let bytes = moved_bytes(then, now);
        let (gpu, gpu_engine) =
            gpu.remove(&life.pid).map(|EngineShare { engine, share }| (Share::of(share), engine)).unzip();
        ProcessResources {
            pid: life.pid,
            command: now.command.clone(),
            cpu: Share::of(
                (now.cpu_ticks.saturating_sub(then.cpu_ticks).saturating_mul(TICK_MS)) as f64 / 1000.0 / seconds,
            ),
            memory: Share::of(now.memory_kib as f64 / memory_total_kib.max(1) as f64),
            memory_kib: now.memory_kib,
            storage: bytes.map(|bytes| Share::of(if is_storage_used { bytes / moved } else { 0.0 })),
            storage_kib_per_s: bytes.map(|bytes| bytes / 1024.0 / seconds),
            gpu,
            gpu_engine,
        }
    };
    let mut processes: Vec<ProcessResources> = both().map(of_process).collect();
    insertion_sort(&mut processes, |one, next| {
        let (heaviness, of_next) = (one.heaviness(), next.heaviness());
        heaviness < of_next || heaviness == of_next && one.cpu.share < next.cpu.share
    });
    processes
}

fn moved_bytes(then: &ResourceUse, now: &ResourceUse) -> Option<f64> {
    let (then, now) = (then.storage?, now.storage?);
    let read = now.read_bytes.saturating_sub(then.read_bytes);
    Some((read + now.written_bytes.saturating_sub(then.written_bytes)) as f64)
}

impl ProcessResources {
    /// The number of resources in which it is more than light.
    fn heaviness(&self) -> usize {
        let shares = [Some(self.cpu), Some(self.memory), self.storage, self.gpu];
        shares.into_iter().flatten().filter(|share| share.intensity != Intensity::Light).count()
    }

    /// True when its use is not worth a line.
    pub fn is_idle(&self) -> bool {
        self.heaviness() == 0 && self.cpu.share < 0.01 && self.gpu.is_none_or(|gpu| gpu.share < 0.01)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn taken(cpu_ticks: u64, memory_kib: u64, read_bytes: u64) -> ResourceUse {
        let storage = Some(StorageIo { read_bytes, written_bytes: 0 });
        ResourceUse { command: "some".to_owned(), cpu_ticks, memory_kib, storage }
    }

    fn sample(processes: &[(u32, u64, ResourceUse)]) -> ResourceSample {
        let processes = processes
            .iter()
            .map(|(pid, start, taken)| (ProcessIdentity { pid: *pid, start_time_ticks: *start }, taken.clone()));
        ResourceSample { processes: processes.collect(), gpu: Clients::default() }
    }

    // Verifies ON-4.
    #[test]
    fn each_resource_is_judged_by_itself() {
        let before = sample(&[(1, 1, taken(0, 0, 0)), (2, 1, taken(0, 0, 0)), (3, 1, taken(0, 0, 0))]);
        let after =
            sample(&[(1, 1, taken(60, 100, 0)), (2, 1, taken(40, 600, 2 << 20)), (3, 1, taken(1, 350, 6 << 20))]);
        let found = between(&before, &after, SECOND, 1000);
        let found_to_be: Vec<_> = found
            .iter()
            .map(|process| {
                (process.pid, process.cpu.intensity, process.memory.intensity, process.storage.unwrap().intensity)
            })
            .collect();
        use Intensity::{Heavy, Light, Middling};
        assert_eq!(found_to_be, [(2, Middling, Heavy, Light), (3, Light, Middling, Heavy), (1, Heavy, Light, Light)]);
        assert_eq!(found[1].storage_kib_per_s, Some(6144.0));
    }

    #[test]
    fn a_process_that_moves_the_only_bytes_is_not_heavy() {
        let (before, after) = (sample(&[(1, 1, taken(0, 1, 0))]), sample(&[(1, 1, taken(0, 1, 4096))]));
        let found = between(&before, &after, SECOND, 1000);
        assert_eq!(found[0].storage.unwrap(), Share { share: 0.0, intensity: Intensity::Light });
        assert!(found[0].is_idle());
    }

    #[test]
    fn only_processes_in_both_samples_are_reported() {
        let before = sample(&[(1, 1, taken(90, 1, 0)), (2, 1, taken(0, 1, 0))]);
        // Process 1 has exited, and its pid was reused.
        let after = sample(&[(1, 7, taken(99, 1, 0)), (2, 1, taken(5, 1, 0)), (3, 9, taken(50, 1, 0))]);
        let found = between(&before, &after, SECOND, 1000);
        assert_eq!(found.iter().map(|process| process.pid).collect::<Vec<_>>(), [2]);
    }

    // Verifies ON-4.
    #[test]
    fn what_may_not_be_seen_is_unknown() {
        let hidden = |ticks| ResourceUse { storage: None, ..taken(ticks, 1, 0) };
        let found = between(&sample(&[(1, 1, hidden(0))]), &sample(&[(1, 1, hidden(200))]), SECOND, 0);
        assert_eq!((found[0].storage, found[0].storage_kib_per_s, found[0].gpu), (None, None, None));
        assert!((found[0].cpu.share - 2.0).abs() < 1e-9, "two CPUs");
    }
}
