//! How busy the CPUs are, from /proc/stat (proc_stat(5)).

use crate::{DeviceError, Root};

/// Clock ticks that all CPUs together have spent since boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuTime {
    /// Not idle.
    pub busy_ticks: u64,
    /// Busy or idle, waiting for I/O included.
    pub total_ticks: u64,
}

impl CpuTime {
    /// The current counters.
    ///
    /// # Errors
    /// [`DeviceError`] when /proc/stat cannot be read or its first line is not as documented.
    pub fn read(root: &Root) -> Result<Self, DeviceError> {
        let text = root.read("/proc/stat")?;
        parse(&text)
            .ok_or_else(|| DeviceError::malformed(&root.path("/proc/stat"), "a first line `cpu N N N N ...`", &text))
    }

    /// The busy share since `earlier`, 0 to 1000; `None` when no tick has passed. Counters that went backwards (iowait may, and
    /// a CPU that goes offline takes its share with it) count as no time.
    pub fn busy_permille_since(self, earlier: Self) -> Option<u16> {
        let total = self.total_ticks.checked_sub(earlier.total_ticks).filter(|&ticks| ticks > 0)?;
        let busy = self.busy_ticks.saturating_sub(earlier.busy_ticks).min(total);
        u16::try_from(u128::from(busy) * 1000 / u128::from(total)).ok()
    }
}

/// Parses the line of all CPUs: user, nice, system, idle, iowait, irq, softirq, steal; guest time is within user.
pub fn parse(text: &str) -> Option<CpuTime> {
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let mut ticks = [0u64; 8];
    let mut words = line.split_ascii_whitespace();
    for (index, place) in ticks.iter_mut().enumerate() {
        match words.next() {
            Some(word) => *place = word.parse().ok()?,
            // Before 2.6.11 there were fewer fields; the first four have always existed.
            None if index >= 4 => break,
            None => return None,
        }
    }
    let total = ticks.iter().try_fold(0u64, |sum, &ticks| sum.checked_add(ticks))?;
    let idle = ticks[3].checked_add(ticks[4])?;
    Some(CpuTime { busy_ticks: total - idle, total_ticks: total })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_first_line_is_summed() {
        let cases = [
            ("cpu  10 1 9 70 10 0 0 0 5 0\ncpu0 1 2 3 4\n", Some((20, 100))),
            ("cpu  10 1 9 80\n", Some((20, 100))),
            ("cpu  10 1 9\n", None),
            ("cpu0 10 1 9 80\n", None),
            ("cpu  10 -1 9 80\n", None),
            ("cpu  18446744073709551615 1 1 1\n", None),
            ("", None),
        ];
        for (text, expected) in cases {
            let found = parse(text).map(|time| (time.busy_ticks, time.total_ticks));
            assert_eq!(found, expected, "{text:?}");
        }
    }

    #[test]
    fn the_share_is_between_samples_and_never_above_one() {
        let time = |busy_ticks, total_ticks| CpuTime { busy_ticks, total_ticks };
        let cases = [
            (time(0, 0), time(25, 100), Some(250)),
            (time(25, 100), time(25, 100), None),
            (time(25, 100), time(20, 90), None),
            (time(25, 100), time(20, 110), Some(0)),
            (time(0, 100), time(50, 110), Some(1000)),
        ];
        for (earlier, later, expected) in cases {
            assert_eq!(later.busy_permille_since(earlier), expected, "{earlier:?} {later:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,200}") {
            let _ = (parse(&text), parse(&format!("cpu {text}")));
        }
    }
}
