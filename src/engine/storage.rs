//! What the daemon does about storage while something is in front: looks who keeps it waiting, and has him give way.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use super::Engine;
use crate::device::cgroup::{hierarchy, pressure};
use crate::device::kinship::Families;
use crate::device::process::{Life, life};
use crate::device::{BootTime, Root, disk_stats, io_priority, process, process_io, process_memory};
use crate::mechanism::placement::storage::{LOOK, StorageLook, StoragePolicy, StorageThread};
use crate::mechanism::{Decision, Glob, Mechanism, Outcome};

/// What decides, and what it looks at.
#[derive(Debug, Default)]
pub(super) struct Storage {
    /// `None` while storage is not acted upon.
    policy: Option<StoragePolicy>,
    /// The group in front.
    group: Option<PathBuf>,
    /// When storage is looked at next.
    pub(super) next: Option<BootTime>,
}

impl Storage {
    /// Takes what became of decisions.
    pub(super) fn on_outcomes(&mut self, now: BootTime, outcomes: &[Outcome]) {
        self.policy.iter_mut().for_each(|policy| policy.on_outcomes(now, outcomes));
    }
}

impl Engine {
    /// Gives back what is held and does from now on what the configuration says, as far as the disks obey.
    pub(super) fn follow_storage_config(&mut self, now: BootTime) {
        self.leave_storage(now, "the device or the configuration changed");
        let config = &self.layers.config.placement;
        if !config.enabled || !config.storage {
            self.storage = Storage::default();
            return;
        }
        let lowest = io_priority::lowest(&self.options.root);
        if lowest.is_none() {
            tracing::warn!("placement: nobody gives way for storage: no disk has bfq or mq-deadline as its scheduler");
        }
        let policy = lowest.map(|lowest| StoragePolicy::new(config.minimum_gain_percent, lowest));
        self.storage = Storage { policy, ..Storage::default() };
    }

    /// Looks from now on while something is in front.
    pub(super) fn follow_storage(&mut self, now: BootTime) {
        if self.storage.policy.is_none() {
            return;
        }
        let has_front = !self.mechanisms.placement.front().is_empty();
        match (has_front, self.storage.next) {
            (true, None) => self.storage.next = Some(now + LOOK),
            (false, Some(_)) => {
                self.leave_storage(now, "nothing is in front");
                (self.storage.group, self.storage.next) = (None, None);
            }
            _ => {}
        }
    }

    /// Looks at storage.
    pub(super) fn look_at_storage(&mut self, now: BootTime) {
        self.storage.next = Some(now + LOOK);
        let root = &self.options.root;
        let mut front = self.mechanisms.placement.front().clone();
        let group = pressure::group_of_all(root, &front);
        if group != self.storage.group {
            self.storage.group = group;
            return self.leave_storage(now, "something else came to the front");
        }
        let Some(waited) = group.as_ref().and_then(|group| pressure::waited_for_storage(root, group)) else {
            return self.leave_storage(now, "what the foreground waits for storage is not known");
        };
        let Some(policy) = &mut self.storage.policy else { return };
        if !policy.wants_look(now, waited) {
            return;
        }
        // Whoever shares the group is counted with what is in front.
        front.extend(group.and_then(|group| hierarchy::members(root, &group).ok()).unwrap_or_default());
        let mut families = Families::default();
        for (of, since) in policy.parents().collect::<Vec<_>>() {
            policy.note_kin(of, families.born_since(root, of.pid, since));
        }
        let mut decisions = Vec::new();
        let bulk = policy.take(now, look(root, waited), &front, &mut decisions);
        if !bulk.is_empty() {
            let excluded = &self.layers.config.placement.excluded_commands;
            let threads: Vec<_> = bulk.into_iter().flat_map(|life| threads_of(root, life, excluded)).collect();
            policy.make_way(now, &threads, &mut decisions);
        }
        self.carry_out_for_storage(now, &decisions);
    }

    fn leave_storage(&mut self, now: BootTime, why: &str) {
        let mut decisions = Vec::new();
        self.storage.policy.iter_mut().for_each(|policy| policy.begin_anew(why, &mut decisions));
        self.carry_out_for_storage(now, &decisions);
    }

    fn carry_out_for_storage(&mut self, now: BootTime, decisions: &[Decision]) {
        let outcomes = self.executor.execute_each(now, self.mechanisms.placement.name(), decisions);
        self.count(now, &outcomes);
        self.storage.on_outcomes(now, &outcomes);
    }
}

/// Everybody, when those in front have waited so long. Who may not be seen may not be moved either.
fn look(root: &Root, waited: Duration) -> StorageLook {
    let mut look = StorageLook { waited, ..StorageLook::default() };
    disk_stats::parse(root.read("/proc/diskstats").unwrap_or_default().as_bytes(), &mut |disk| {
        if disk_stats::is_whole_disk(root, &String::from_utf8_lossy(disk.name)) {
            let [.., busy_ms, _] = disk.counters;
            look.busy += Duration::from_millis(busy_ms);
        }
    });
    let own = std::process::id();
    for pid in process_memory::pids(root).unwrap_or_default().into_iter().filter(|pid| *pid != own) {
        let (Some(life), Ok(moved)) = (life(root, pid), process_io::read(root, pid)) else { continue };
        look.moved.insert(life, moved.read_bytes + moved.written_bytes);
    }
    look
}

/// The threads of process `of` that may give way: none of the kernel's own, nor of who is left alone.
fn threads_of(root: &Root, of: Life, excluded: &[Glob]) -> Vec<StorageThread> {
    let is_left_alone = |name: &str| excluded.iter().any(|glob| glob.matches(name));
    let is_kernels = !matches!(process_memory::read(root, of.pid), Ok(Some(_)));
    if is_kernels || life(root, of.pid) != Some(of) {
        return Vec::new();
    }
    let tids: BTreeSet<u32> = root
        .list(format!("/proc/{}/task", of.pid))
        .unwrap_or_default()
        .iter()
        .filter_map(|name| name.parse().ok())
        .collect();
    let thread = |tid: u32| {
        let start_time_ticks = process::start_time_ticks(root, tid).ok()?;
        let priority = io_priority::of(tid).ok()?;
        let is_free = !is_left_alone(&process::command(root, tid).ok()?);
        is_free.then_some(StorageThread { tid, start_time_ticks, priority })
    };
    tids.into_iter().filter_map(thread).collect()
}
