//! Answers the questions of mechanisms, one at a time, by reading /proc and /sys.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use brisk_mechanism::contract::facts::ThreadOfProcess;
use brisk_mechanism::{Facts, Question};
use brisk_sys::cgroup::memory::samples;
use brisk_sys::cgroup::{hierarchy, id, pressure};
use brisk_sys::io::{disk_stats, io_priority, process_io};
use brisk_sys::memory::{process_memory, zram_writeback};
use brisk_sys::network::{queues, sockets};
use brisk_sys::process::kinship::KinCache;
use brisk_sys::process::{ProcessIdentity, life};
use brisk_sys::system::other_managers;
use brisk_sys::{BootTime, Root, Target, process};

/// The answer to `question`.
pub fn answer(root: &Root, question: &Question) -> Facts {
    match question {
        Question::StorageWait { processes } => {
            let group = pressure::common_group(root, processes);
            let waited = group.as_ref().and_then(|group| pressure::io_stall_time(root, group));
            Facts::StorageWait { group, waited }
        }
        Question::StorageUse { group, parents } => storage_use(root, group.as_ref(), parents),
        Question::Threads { processes } => {
            Facts::Threads { threads: processes.iter().flat_map(|&of| threads_of(root, of)).collect() }
        }
        Question::NetworkUse { processes, sockets } => network_use(root, processes, *sockets),
        Question::ControlGroups { ids } => {
            let mount = hierarchy::unified(root).unwrap_or_default();
            let groups = id::find(root, &mount, ids);
            Facts::ControlGroups { mount, groups }
        }
        Question::MemoryGroups => {
            let groups = hierarchy::unified(root).map(|mount| samples(root, &mount)).unwrap_or_default();
            Facts::MemoryGroups { groups }
        }
        Question::OtherManagers => Facts::OtherManagers { found: other_managers::find(root) },
        Question::WritebackLimit => {
            let switch = zram_writeback::device(root).map(|zram| zram_writeback::limit_switch(&zram.name));
            let is_off = |file: &String| root.read(file).is_ok_and(|value| value == "0");
            Facts::WritebackLimit { switch: switch.ok().filter(is_off).map(|file| Target::Tunable(file.into())) }
        }
    }
}

/// The storage traffic of every process. One that this process may not read, it may not change either.
fn storage_use(root: &Root, group: Option<&PathBuf>, parents: &[(ProcessIdentity, BootTime)]) -> Facts {
    let members = group.and_then(|group| hierarchy::members(root, group).ok()).unwrap_or_default();
    let mut families = KinCache::default();
    let children = parents.iter().map(|(of, since)| (*of, families.created_since(root, of.pid, *since))).collect();
    let mut busy = Duration::ZERO;
    disk_stats::parse(root.read("/proc/diskstats").unwrap_or_default().as_bytes(), &mut |disk| {
        if disk_stats::is_whole_disk(root, &String::from_utf8_lossy(disk.name)) {
            let [.., busy_ms, _] = disk.counters;
            busy += Duration::from_millis(busy_ms);
        }
    });
    let own = std::process::id();
    let bytes = |pid: u32| {
        let (life, moved) = (life(root, pid)?, process_io::read(root, pid).ok()?);
        Some((life, moved.read_bytes + moved.written_bytes))
    };
    let pids = process_memory::pids(root).unwrap_or_default();
    let moved = pids.into_iter().filter(|pid| *pid != own).filter_map(bytes).collect();
    Facts::StorageUse { busy, moved, members: members.into_iter().collect(), children }
}

/// What waits in the network's queues, what was sent where that is wanted, and the control groups of `processes`.
fn network_use(root: &Root, processes: &BTreeSet<u32>, wants_sockets: bool) -> Facts {
    let mount = hierarchy::unified(root).unwrap_or_default();
    let group = |pid: &u32| {
        let group = hierarchy::unified_group(root, *pid)?;
        Some((id::of(root, &id::folder(&mount, &group))?, group))
    };
    let mut groups: Vec<(u64, PathBuf)> = processes.iter().filter_map(group).collect();
    groups.dedup();
    // A kernel that does not report either was named at the probe.
    let queues = queues::read(root).unwrap_or_default();
    let sockets = wants_sockets.then(|| sockets::read(root).unwrap_or_default());
    Facts::NetworkUse { queues, sockets, groups }
}

/// The threads of process `of`; empty for a kernel thread.
fn threads_of(root: &Root, of: ProcessIdentity) -> Vec<ThreadOfProcess> {
    let is_kernel_thread = !matches!(process_memory::read(root, of.pid), Ok(Some(_)));
    if is_kernel_thread || life(root, of.pid) != Some(of) {
        return Vec::new();
    }
    let names = root.list(format!("/proc/{}/task", of.pid)).unwrap_or_default();
    let tids: BTreeSet<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
    let thread = |tid: u32| {
        let start_time_ticks = process::start_time_ticks(root, tid).ok()?;
        let io_priority = io_priority::of(tid).ok()?;
        Some(ThreadOfProcess { tid, start_time_ticks, command: process::command(root, tid).ok()?, io_priority })
    };
    tids.into_iter().filter_map(thread).collect()
}
