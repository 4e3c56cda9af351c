//! How long all CPUs together have been idle, from /proc/uptime (proc_uptime(5)): one line, whatever the number of CPUs.

use std::time::Duration;

use super::hotplug;
use crate::fields::Fields;
use crate::{BootTime, Root};

/// The result is kept for this long: the kernel counts in hundredths of a second.
const PERIOD: Duration = Duration::from_millis(900);
/// With less than this much of one CPU in use, all CPUs are idle.
const IN_USE: f64 = 0.03;

/// Whether the CPUs are idle, from one sample to the next.
#[derive(Debug, Default)]
pub struct IdleTime {
    before: Option<(BootTime, Duration)>,
    are_idle: bool,
}

impl IdleTime {
    /// True when next to no task has run on the system below `root` in about the second before `now`. Where the kernel does not
    /// expose idle time, the CPUs count as busy.
    pub fn are_cpus_idle(&mut self, root: &Root, now: BootTime) -> bool {
        if self.before.is_none_or(|(at, _)| now.since(at) >= PERIOD) {
            let text = root.read("/proc/uptime").unwrap_or_default();
            let present = parse(text.as_bytes()).map(|idle| (now, idle));
            let before = std::mem::replace(&mut self.before, present);
            let in_use = before.zip(present).and_then(|((from, idle_from), (to, idle_to))| {
                let cpu_count = hotplug::online(root).ok()?.len() as f64;
                Some(cpu_count - idle_to.saturating_sub(idle_from).as_secs_f64() / to.since(from).as_secs_f64())
            });
            self.are_idle = in_use.is_some_and(|in_use| in_use < IN_USE);
        }
        self.are_idle
    }
}

/// Parses the idle time, the second of the file's two numbers of seconds.
pub fn parse(text: &[u8]) -> Option<Duration> {
    let mut fields = Fields::of(text.trim_ascii_end());
    fields.skip_fields(1)?;
    let seconds: f64 = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok().filter(|_| fields.next().is_none())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn idle_time_is_the_second_number() {
        assert_eq!(parse(b"13977.58 52134.07\n"), Some(Duration::from_millis(52_134_070)));
        for text in ["", "1.0", "1.0 x", "1.0 -1", "1.0 2.0 3.0", "1.0 inf", "1.0 NaN"] {
            assert_eq!(parse(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn cpus_are_idle_when_next_to_none_is_used() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        fs::create_dir_all(root.path("/proc")).unwrap();
        fs::create_dir_all(root.path("/sys/devices/system/cpu")).unwrap();
        fs::write(root.path("/sys/devices/system/cpu/online"), "0-1\n").unwrap();
        let mut idle_time = IdleTime::default();
        for (now_ms, idle_s, are_idle) in [
            (1000, "10.00", false),
            (2000, "12.00", true),
            // Within PERIOD the result is kept.
            (2500, "12.00", true),
            (3000, "13.98", true),
            (4000, "15.94", false),
            (6000, "19.90", true),
            (8000, "21.90", false),
            (9000, "garbage", false),
            (10_000, "26.00", false),
            (11_000, "28.00", true),
        ] {
            fs::write(root.path("/proc/uptime"), format!("99.99 {idle_s}\n")).unwrap();
            let found = idle_time.are_cpus_idle(&root, BootTime::from_milliseconds(now_ms));
            assert_eq!(found, are_idle, "{now_ms}: {idle_s}");
        }
    }
}
