//! How often the scheduler moved a thread to another CPU and took its CPU away (/proc/TID/sched, `CONFIG_SCHED_DEBUG`).

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

use crate::Root;

/// What the scheduler did to one thread, or to several together, since they began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Switches {
    /// They went on on another CPU.
    pub migrations: u64,
    /// Another task got the CPU although they wanted to go on.
    pub preemptions: u64,
}

impl AddAssign for Switches {
    fn add_assign(&mut self, other: Self) {
        self.migrations += other.migrations;
        self.preemptions += other.preemptions;
    }
}

/// Those of all threads of process `pid` that are there now; `None` where the kernel does not tell.
pub fn of_process(root: &Root, pid: u32) -> Option<Switches> {
    let mut all = Switches::default();
    for tid in root.list(format!("/proc/{pid}/task")).ok()? {
        // One that ends meanwhile has none.
        let Ok(text) = root.read(format!("/proc/{pid}/task/{tid}/sched")) else { continue };
        all += parse(&text)?;
    }
    (all != Switches::default()).then_some(all)
}

/// What the file says; its lines vary by kernel.
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
    fn switches_are_told_of_this_process_or_of_none() {
        let root = Root::system();
        let told = of_process(&root, std::process::id());
        assert_eq!(told.is_some(), root.exists("/proc/self/sched"), "{told:?}");
        assert_eq!(of_process(&root, u32::MAX), None);
    }
}
