//! How often the scheduler migrated and preempted a thread (/proc/TID/sched, `CONFIG_SCHED_DEBUG`).

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

use crate::Root;

/// Counters of one thread, or of several together, since they were created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Switches {
    /// Times that they continued on another CPU.
    pub migrations: u64,
    /// Times that another task got the CPU while they were runnable.
    pub preemptions: u64,
}

impl AddAssign for Switches {
    fn add_assign(&mut self, other: Self) {
        self.migrations += other.migrations;
        self.preemptions += other.preemptions;
    }
}

/// The sum over all current threads of process `pid`; `None` where the kernel does not report it.
pub fn of_process(root: &Root, pid: u32) -> Option<Switches> {
    let mut all = Switches::default();
    for tid in root.list(format!("/proc/{pid}/task")).ok()? {
        // A thread that exits meanwhile has none.
        let Ok(text) = root.read(format!("/proc/{pid}/task/{tid}/sched")) else { continue };
        all += parse(&text)?;
    }
    (all != Switches::default()).then_some(all)
}

/// Parses the file; its lines vary by kernel.
pub fn parse(text: &str) -> Option<Switches> {
    let value = |name: &str| {
        let of = |line: &str| {
            line.split_once(':').filter(|(key, _)| key.trim_end() == name).map(|(_, value)| value.trim().parse().ok())
        };
        text.lines().find_map(of)?
    };
    Some(Switches { migrations: value("se.nr_migrations")?, preemptions: value("nr_involuntary_switches")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    // Verifies PLACE-7.
    #[test]
    fn both_counters_are_found_among_the_others() {
        let text = "node (7, #threads: 11)\n---------\nse.exec_start    :   100.5\nse.nr_migrations  :     3\n\
                    nr_switches    :  90\nnr_voluntary_switches  :  50\nnr_involuntary_switches   :  40\npolicy : 0\n";
        assert_eq!(parse(text), Some(Switches { migrations: 3, preemptions: 40 }));
        for broken in ["", "se.nr_migrations : 3\n", "se.nr_migrations : x\nnr_involuntary_switches : 1\n"] {
            assert_eq!(parse(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn switches_of_this_process_are_read_where_supported() {
        let root = Root::system();
        let told = of_process(&root, std::process::id());
        assert_eq!(told.is_some(), root.exists("/proc/self/sched"), "{told:?}");
        assert_eq!(of_process(&root, u32::MAX), None);
    }
}
