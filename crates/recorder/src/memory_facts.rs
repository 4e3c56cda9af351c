//! What memory's policy decides by, as notes at the beginning and the end of a recording: no event tells how much
//! is free and which process holds it.

use brisk_base::insertion_sort::insertion_sort;
use brisk_sys::Root;
use brisk_sys::memory::{meminfo, process_memory, swaps, zram};

/// Processes that hold less are left out: they change no estimate.
const LEAST_KIB: u64 = 1 << 10;
/// The most processes that are noted.
const MOST_PROCESSES: usize = 64;

/// The notes, in the form of the kernel's events, for `MemoryFacts` of brisk-trace; none where memory cannot be read.
pub(crate) fn notes(root: &Root) -> Vec<String> {
    let Ok(memory) = meminfo::read(root) else { return Vec::new() };
    let ratio = swap_ratio_percent(root).map_or_else(String::new, |percent| format!(" swap_ratio_percent={percent}"));
    let page_kib = rustix::param::page_size() / 1024;
    let mut notes = vec![format!(
        "brisk_memory: page_kib={page_kib} total_kib={} free_kib={} swap_total_kib={} swap_free_kib={}{ratio}",
        memory.total_kib, memory.free_kib, memory.swap_total_kib, memory.swap_free_kib
    )];
    notes.extend(processes(root));
    notes
}

/// Those that are swapped out first.
fn processes(root: &Root) -> Vec<String> {
    let mut found = Vec::new();
    // One that ends meanwhile is left out.
    for pid in process_memory::pids(root).unwrap_or_default() {
        let Ok(adj) = process_memory::oom_score_adj(root, pid) else { continue };
        let Ok(Some((owner, memory))) = process_memory::read_with_owner(root, pid) else { continue };
        // What a process has on swap may have been in memory when a launch began.
        if memory.rss_anonymous_kib.saturating_add(memory.swap_kib) >= LEAST_KIB {
            found.push((adj, pid, owner.name.unwrap_or_default(), memory));
        }
    }
    insertion_sort(&mut found, |one, next| one.0 < next.0);
    found.truncate(MOST_PROCESSES);
    let notes = found.into_iter().map(|(adj, pid, name, memory)| {
        let (anonymous_kib, swapped_kib) = (memory.rss_anonymous_kib, memory.swap_kib);
        format!(
            "brisk_process: pid={pid} oom_score_adj={adj} anonymous_kib={anonymous_kib} swapped_kib={swapped_kib} comm={name}"
        )
    });
    notes.collect()
}

/// The memory that a byte on swap costs, in percent of it: nothing on a disk, and unknown while zram stores too little.
fn swap_ratio_percent(root: &Root) -> Option<u64> {
    let swaps = swaps::read(root).ok()?;
    let Some(name) = swaps.first()?.zram_name() else { return Some(0) };
    let ratio = zram::device(root, name.to_owned()).ok()?.next_ratio()?;
    Some((ratio * 100.0).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use brisk_sys::test_trees::root_of;

    /// A device with zram and processes of these classes, which hold so much.
    fn notes_of(processes: &[(u32, i16, u64)]) -> Vec<String> {
        let mut files = vec![
            (
                "proc/meminfo".to_owned(),
                "MemTotal: 9000 kB\nMemFree: 100 kB\nSwapTotal: 50 kB\nSwapFree: 40 kB\n".to_owned(),
            ),
            (
                "proc/swaps".to_owned(),
                "Filename\tType\tSize\tUsed\tPriority\n/dev/zram0 partition 5000 4000 100\n".to_owned(),
            ),
            ("sys/block/zram0/disksize".to_owned(), "5120000".to_owned()),
            ("sys/block/zram0/mm_stat".to_owned(), "4000000 900000 1000000 0 1000000 0 0 0 0".to_owned()),
        ];
        for (pid, adj, kib) in processes {
            files.push((format!("proc/{pid}/oom_score_adj"), format!("{adj}\n")));
            let status = format!("Name:\ta b\nVmRSS:\t{kib} kB\nRssAnon:\t{kib} kB\nVmSwap:\t7 kB\n");
            files.push((format!("proc/{pid}/status"), status));
        }
        let files: Vec<(&str, &str)> = files.iter().map(|(file, text)| (file.as_str(), text.as_str())).collect();
        let (_folder, root) = root_of(&files);
        notes(&root)
    }

    // Verifies TRACE-9.
    #[test]
    fn the_device_and_its_processes_are_noted() {
        let notes = notes_of(&[(5, 0, 2000), (6, 900, 1016), (7, 905, 1017), (8, 900, 3000)]);
        let page_kib = rustix::param::page_size() as u64 / 1024;
        assert_eq!(
            notes,
            [
                format!(
                    "brisk_memory: page_kib={page_kib} total_kib=9000 free_kib=100 swap_total_kib=50 swap_free_kib=40 \
                     swap_ratio_percent=25"
                ),
                "brisk_process: pid=7 oom_score_adj=905 anonymous_kib=1017 swapped_kib=7 comm=a b".to_owned(),
                "brisk_process: pid=8 oom_score_adj=900 anonymous_kib=3000 swapped_kib=7 comm=a b".to_owned(),
                "brisk_process: pid=5 oom_score_adj=0 anonymous_kib=2000 swapped_kib=7 comm=a b".to_owned(),
            ]
        );
        let many: Vec<(u32, i16, u64)> = (1..200).map(|pid| (pid, 900, 4000)).collect();
        assert_eq!(notes_of(&many).len(), 1 + MOST_PROCESSES);
    }

    #[test]
    fn a_device_that_tells_nothing_has_no_notes() {
        let (_folder, root) = root_of(&[("proc/swaps", "")]);
        assert_eq!(notes(&root), [""; 0]);
    }
}
