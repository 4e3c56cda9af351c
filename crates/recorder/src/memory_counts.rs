//! What the kernel counts of memory, as counters in the recording: no event tells that a page is read again after it was evicted.

use brisk_sys::Root;
use brisk_sys::memory::{psi, vmstat};

/// By these names explanations know the counters (`MemoryCounter` of brisk-trace), and viewers show them.
const NAMES: [&str; 6] = [
    "pages read again",
    "pages swapped in",
    "stalled for memory (us)",
    "pages free",
    "pages reclaimed",
    "pages swapped out",
];

/// The counters, of all processes since boot, and free memory; those that this kernel does not have are absent.
#[derive(Debug, Default)]
pub(crate) struct MemoryCounts {
    noted: [Option<u64>; 6],
}

impl MemoryCounts {
    /// Those that have changed since the last call, in the words of atrace: `C|PROCESS|NAME|VALUE`.
    pub fn changes(&mut self, root: &Root) -> Vec<String> {
        let reclaim = vmstat::read(root).ok();
        let stalls_us = root.read(psi::MEMORY_FILE).ok().and_then(|text| psi::totals_us(text.as_bytes()));
        let now = [
            reclaim.map(|reclaim| reclaim.file_refaults),
            reclaim.map(|reclaim| reclaim.swapped_in),
            stalls_us.map(|(some, _)| some),
            reclaim.map(|reclaim| reclaim.free),
            reclaim.map(|reclaim| reclaim.reclaimed),
            reclaim.map(|reclaim| reclaim.swapped_out),
        ];
        let before = std::mem::replace(&mut self.noted, now);
        let process = std::process::id();
        let counters = NAMES.into_iter().zip(now).zip(before).filter(|((_, now), before)| now != before);
        counters.filter_map(|((name, now), _)| Some(format!("C|{process}|{name}|{}", now?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brisk_sys::test_trees::root_of;
    use brisk_trace::model::MemoryCounter;

    #[test]
    fn only_changes_are_noted() {
        let vmstat = |refaults: u64| {
            format!(
                "nr_free_pages 3\nworkingset_refault_file {refaults}\npswpin 7\npswpout 5\npgsteal_kswapd 2\npgsteal_direct 4\n"
            )
        };
        let pressure =
            "some avg10=0.00 avg60=0.00 avg300=0.00 total=900\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=4\n";
        let (_folder, root) = root_of(&[("proc/vmstat", vmstat(5).as_str()), ("proc/pressure/memory", pressure)]);
        let [again, swapped_in, stalled, free, reclaimed, swapped_out] = MemoryCounter::ALL.map(MemoryCounter::name);
        let process = std::process::id();
        let counter = |name: &str, value: u64| format!("C|{process}|{name}|{value}");
        let mut counts = MemoryCounts::default();
        let all = [(again, 5), (swapped_in, 7), (stalled, 900), (free, 3), (reclaimed, 6), (swapped_out, 5)];
        assert_eq!(counts.changes(&root), all.map(|(name, value)| counter(name, value)));
        assert_eq!(counts.changes(&root), [""; 0]);
        let (_folder, root) = root_of(&[("proc/vmstat", vmstat(6).as_str())]);
        assert_eq!(counts.changes(&root), [counter(again, 6)], "a counter that is gone is not noted");
    }
}
