//! What the hourly row tells of the device and of brisk's own cost: readings at both ends of a period.

use std::collections::BTreeMap;

use brisk_sys::memory::{process_memory, psi};
use brisk_sys::{Root, process};
use brisk_telemetry::row::Hour;

/// Counters since boot, and brisk's present memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Readings {
    /// How long some task, and all tasks, stalled on memory; `None` without PSI.
    memory_us: Option<(u64, u64)>,
    cpu_us: Option<(u64, u64)>,
    io_us: Option<(u64, u64)>,
    /// The CPU time of each of brisk's processes.
    cpu_ms: BTreeMap<u32, u64>,
    resident_kib: u64,
}

impl Readings {
    /// Reads the device below `root`, on which brisk has these processes.
    pub(super) fn read(root: &Root, processes: &[u32]) -> Self {
        let pressure = |of: &str| psi::totals_us(root.read(format!("/proc/pressure/{of}")).ok()?.as_bytes());
        let ticks_per_s = rustix::param::clock_ticks_per_second().max(1);
        let cpu_ms =
            |&pid: &u32| Some((pid, process::stat(root, pid).ok()?.cpu_ticks.saturating_mul(1_000) / ticks_per_s));
        let resident_kib = |&pid: &u32| Some(process_memory::read(root, pid).ok()??.rss_kib);
        Self {
            memory_us: pressure("memory"),
            cpu_us: pressure("cpu"),
            io_us: pressure("io"),
            cpu_ms: processes.iter().filter_map(cpu_ms).collect(),
            resident_kib: processes.iter().filter_map(resident_kib).sum(),
        }
    }

    /// The part of the row that follows from these readings and those `before`. A process that was started since counts whole; the
    /// end of one that has ended is missing.
    pub(super) fn since(&self, before: &Self) -> Hour {
        let ms = |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before?) / 1_000);
        let some = |of: Option<(u64, u64)>| of.map(|(some, _)| some);
        let full = |of: Option<(u64, u64)>| of.map(|(_, full)| full);
        let used_ms = |(pid, now_ms): (&u32, &u64)| {
            // A smaller number belongs to another process with the same id.
            now_ms.checked_sub(before.cpu_ms.get(pid).copied().unwrap_or(0)).unwrap_or(*now_ms)
        };
        Hour {
            memory_some_ms: ms(some(self.memory_us), some(before.memory_us)),
            memory_full_ms: ms(full(self.memory_us), full(before.memory_us)),
            cpu_some_ms: ms(some(self.cpu_us), some(before.cpu_us)),
            io_some_ms: ms(some(self.io_us), some(before.io_us)),
            cpu_ms: self.cpu_ms.iter().map(used_ms).sum(),
            resident_kib: self.resident_kib,
            ..Hour::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brisk_sys::test_trees::root_of;

    // Verifies FLEET-1.
    #[test]
    fn an_hour_is_the_difference_of_two_readings() {
        let stat = |ticks: u64| format!("7 (brisk) S 1 7 7 0 -1 4194560 1 0 0 0 {ticks} 0 0 0 20 0 1 0 50 0 0");
        let pressure = |total: u64| {
            format!(
                "some avg10=0.00 avg60=0.00 avg300=0.00 total={total}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=2000\n"
            )
        };
        let status =
            "Name:\tbrisk\nUid:\t0\t0\t0\t0\nVmRSS:\t    3000 kB\nRssAnon:\t    1000 kB\nVmSwap:\t       0 kB\n";
        let read = |ticks: u64, total: u64| {
            let (stat, pressure) = (stat(ticks), pressure(total));
            let files =
                [("proc/7/stat", stat.as_str()), ("proc/7/status", status), ("proc/pressure/memory", &pressure)];
            let (_folder, root) = root_of(&files);
            Readings::read(&root, &[7, 8])
        };
        let per_tick_ms = 1_000 / rustix::param::clock_ticks_per_second();
        let hour = read(150, 900_000).since(&read(100, 400_000));
        assert_eq!((hour.memory_some_ms, hour.memory_full_ms, hour.cpu_some_ms), (Some(500), Some(0), None));
        assert_eq!((hour.cpu_ms, hour.resident_kib), (50 * per_tick_ms, 3_000));
        assert_eq!(read(20, 0).since(&read(100, 0)).cpu_ms, 20 * per_tick_ms, "another process");
        assert_eq!(read(20, 0).since(&Readings::default()).memory_some_ms, None);
    }
}
