//! The threads that a thread may have created: its process's other threads and its descendants (`/proc/PID/task`, and
//! `/proc/PID/task/TID/children`, which needs CONFIG_PROC_CHILDREN).

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{BootTime, Root, process};

/// More kin than this is not followed.
const MAX_KIN: usize = 4096;
/// The unit of start times.
const TICK: Duration = Duration::from_millis(process::TICK_MS);

/// A related thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Kin {
    /// Its number.
    pub tid: u32,
    /// Field 22 of /proc/TID/stat in clock ticks.
    pub start_time_ticks: u64,
}

impl Kin {
    fn is_created_since(&self, since: BootTime) -> bool {
        let ticks = u32::try_from(self.start_time_ticks + 1).unwrap_or(u32::MAX);
        BootTime::default() + TICK * ticks >= since
    }
}

/// Kin in one sample: threads of one process have the same kin, so it is read once.
#[derive(Debug, Default)]
pub struct KinCache(BTreeMap<u32, Vec<Kin>>);

impl KinCache {
    /// The kin of thread `tid` that was created after `since`, without `tid`. Threads that have exited are missing.
    pub fn created_since(&mut self, root: &Root, tid: u32, since: BootTime) -> Vec<Kin> {
        let status = root.read(format!("/proc/{tid}/status")).unwrap_or_default();
        let process = status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse::<u32>().ok());
        let Some(process) = process else { return Vec::new() };
        let family = self.0.entry(process).or_insert_with(|| of_process(root, process));
        family.iter().filter(|kin| kin.tid != tid && kin.is_created_since(since)).copied().collect()
    }
}

/// The threads of `process` and of its descendants.
fn of_process(root: &Root, process: u32) -> Vec<Kin> {
    let numbers = |text: &str| -> Vec<u32> { text.split_whitespace().filter_map(|word| word.parse().ok()).collect() };
    let (mut processes, mut kin, mut seen) = (vec![process], Vec::new(), 0);
    while let Some(pid) = processes.pop() {
        for member in root.list(format!("/proc/{pid}/task")).unwrap_or_default().iter().flat_map(|name| numbers(name)) {
            seen += 1;
            if seen > MAX_KIN {
                return kin;
            }
            let children = root.read(format!("/proc/{pid}/task/{member}/children")).unwrap_or_default();
            processes.extend(numbers(&children));
            let Ok(start_time_ticks) = process::start_time_ticks(root, member) else { continue };
            kin.push(Kin { tid: member, start_time_ticks });
        }
    }
    kin
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn descendants_and_siblings_that_are_younger_are_kin() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        // Each (process, thread, start, children): 12 is a thread of 10, 20 its child, 30 a grandchild.
        for (pid, tid, start, children) in
            [(10, 10, 100, "20 "), (10, 12, 300, ""), (20, 20, 400, ""), (20, 21, 150, "30"), (30, 30, 500, "")]
        {
            fs::create_dir_all(root.path(format!("/proc/{tid}"))).unwrap();
            fs::create_dir_all(root.path(format!("/proc/{pid}/task/{tid}"))).unwrap();
            fs::write(root.path(format!("/proc/{tid}/status")), format!("Name:\tx\nTgid:\t{pid}\n")).unwrap();
            fs::write(root.path(format!("/proc/{pid}/task/{tid}/children")), children).unwrap();
            let fields = "S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0";
            fs::write(root.path(format!("/proc/{tid}/stat")), format!("{tid} (x) {fields} {start} 0 0")).unwrap();
        }
        let mut families = KinCache::default();
        let mut since = |tid, milliseconds| {
            let kin = families.created_since(&root, tid, BootTime::from_milliseconds(milliseconds));
            let mut tids: Vec<u32> = kin.iter().map(|kin| kin.tid).collect();
            tids.sort_unstable();
            tids
        };
        assert_eq!(since(10, 2000), [12, 20, 30], "21 is older");
        assert_eq!(since(10, 4500), [30]);
        assert_eq!(since(10, 0), [12, 20, 21, 30]);
        assert_eq!(since(12, 0), [10, 20, 21, 30], "of the same family");
        assert_eq!(since(20, 0), [21, 30]);
        assert_eq!(since(99, 0), [0u32; 0]);
    }
}
