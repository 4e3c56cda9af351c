//! A thread's run time and run-queue delay: /proc/PID/task/TID/schedstat (Documentation/scheduler/sched-stats.rst).

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

/// Counters of one thread since it was created. Kernels without CONFIG_SCHED_INFO show zeros for the last two.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Schedstat {
    /// Time on a CPU, in nanoseconds.
    pub run_ns: u64,
    /// Run-queue delay, in nanoseconds.
    pub wait_ns: u64,
    /// Number of time slices.
    pub slices: u64,
}

impl Schedstat {
    /// The usage since `earlier`, `wall_ns` ago. Counters that went backwards count as zero.
    pub fn since(self, earlier: Self, wall_ns: u64) -> Usage {
        let slices = self.slices.saturating_sub(earlier.slices);
        Usage {
            wall_ns,
            run_ns: self.run_ns.saturating_sub(earlier.run_ns),
            wait_ns: self.wait_ns.saturating_sub(earlier.wait_ns),
            slices: u32::try_from(slices).unwrap_or(u32::MAX),
        }
    }
}

/// A thread's usage in a period.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// The length of the period, in nanoseconds.
    pub wall_ns: u64,
    /// Time on a CPU.
    pub run_ns: u64,
    /// Run-queue delay.
    pub wait_ns: u64,
    /// Number of time slices.
    pub slices: u32,
}

impl Usage {
    /// The thread's CPU demand, 0 to 1: its run time as a share of the period without the run-queue delay.
    pub fn demand(&self) -> f64 {
        let own_ns = self.wall_ns.saturating_sub(self.wait_ns).max(self.run_ns);
        if own_ns == 0 { 0.0 } else { self.run_ns as f64 / own_ns as f64 }
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.wall_ns += other.wall_ns;
        self.run_ns += other.run_ns;
        self.wait_ns += other.wait_ns;
        self.slices += other.slices;
    }
}

/// Parses `RUN_NS WAIT_NS SLICES`.
pub fn parse(text: &[u8]) -> Option<Schedstat> {
    let text = std::str::from_utf8(text).ok()?;
    let mut words = text.split_ascii_whitespace().map(str::parse);
    let mut next = || words.next()?.ok();
    let schedstat = Schedstat { run_ns: next()?, wait_ns: next()?, slices: next()? };
    words.next().is_none().then_some(schedstat)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_numbers_are_read() {
        let expected = Schedstat { run_ns: 123_456, wait_ns: 7, slices: 42 };
        for (text, parsed) in [
            ("123456 7 42\n", Some(expected)),
            ("0 0 0\n", Some(Schedstat::default())),
            ("123456 7\n", None),
            ("1 2 3 4\n", None),
            ("-1 2 3\n", None),
            ("99999999999999999999 2 3\n", None),
            ("", None),
        ] {
            assert_eq!(parse(text.as_bytes()), parsed, "{text:?}");
        }
        assert_eq!(parse(b"\xff 1 2"), None);
    }

    #[test]
    fn demand_excludes_the_run_queue_delay() {
        for (wall_ns, run_ns, wait_ns, expected) in
            [(0, 0, 0, 0.0), (100, 25, 0, 0.25), (100, 20, 60, 0.5), (100, 20, 90, 1.0), (100, 0, 200, 0.0)]
        {
            let usage = Usage { wall_ns, run_ns, wait_ns, slices: 1 };
            assert!((usage.demand() - expected).abs() < 1e-9, "{usage:?}");
        }
    }

    #[test]
    fn usage_is_the_difference_of_counters() {
        let earlier = Schedstat { run_ns: 100, wait_ns: 50, slices: 3 };
        let later = Schedstat { run_ns: 160, wait_ns: 40, slices: u64::MAX };
        let expected = Usage { wall_ns: 1000, run_ns: 60, wait_ns: 0, slices: u32::MAX };
        assert_eq!(later.since(earlier, 1000), expected);
    }
}
