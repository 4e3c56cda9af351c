//! Who was made by a thread: its process's other threads and its descendants (`/proc/PID/task`, and
//! `/proc/PID/task/TID/children`, which needs CONFIG_PROC_CHILDREN).

use std::time::Duration;

use super::{BootTime, Root, process};

/// More kin than this is not followed.
const MOST: usize = 4096;
/// Start times are counted in these.
const TICK: Duration = Duration::from_millis(process::TICK_MS);

/// A thread that came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kin {
    /// Its number.
    pub tid: u32,
    /// Field 22 of /proc/TID/stat in clock ticks.
    pub start_time_ticks: u64,
}

/// The kin of thread `tid` that came to be after `since`, itself excluded. Who has ended is missing.
pub fn born_since(root: &Root, tid: u32, since: BootTime) -> Vec<Kin> {
    let status = root.read(format!("/proc/{tid}/status")).unwrap_or_default();
    let Some(process) = status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse::<u32>().ok()) else {
        return Vec::new();
    };
    let numbers = |text: &str| -> Vec<u32> { text.split_whitespace().filter_map(|word| word.parse().ok()).collect() };
    let (mut processes, mut kin, mut seen) = (vec![process], Vec::new(), 0);
    while let Some(pid) = processes.pop() {
        for member in root.list(format!("/proc/{pid}/task")).unwrap_or_default().iter().flat_map(|name| numbers(name)) {
            seen += 1;
            if seen > MOST {
                return kin;
            }
            let children = root.read(format!("/proc/{pid}/task/{member}/children")).unwrap_or_default();
            processes.extend(numbers(&children));
            let Ok(start_time_ticks) = process::start_time_ticks(root, member) else { continue };
            let ticks = u32::try_from(start_time_ticks + 1).unwrap_or(u32::MAX);
            let born_by = BootTime::default() + TICK * ticks;
            if member != tid && born_by >= since {
                kin.push(Kin { tid: member, start_time_ticks });
            }
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
        let since = |milliseconds| {
            let mut tids: Vec<u32> =
                born_since(&root, 10, BootTime::from_milliseconds(milliseconds)).iter().map(|kin| kin.tid).collect();
            tids.sort_unstable();
            tids
        };
        assert_eq!(since(2000), [12, 20, 30], "21 is older");
        assert_eq!(since(4500), [30]);
        assert_eq!(since(0), [12, 20, 21, 30]);
        assert_eq!(born_since(&root, 99, BootTime::default()), []);
    }
}
