//! The swap slots of a process's pages: /proc/PID/pagemap (Documentation/admin-guide/mm/pagemap.rst).

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::memory::process_reclaim::Range;
use crate::{DeviceError, Operation, Root};

/// The bit of a page's entry that marks it as swapped out.
const SWAPPED: u64 = 1 << 62;
const ENTRY_BYTES: usize = 8;
/// Bytes of entries that are read at once.
const BUFFER_BYTES: usize = 4096;
/// The number of the swap area is below the offset; higher numbers are not areas but the kernel's own markers.
const AREA_BITS: u32 = 5;
const AREAS: u64 = 16;

/// Calls `visit` with the number and the swap slot of each swapped-out page in `ranges` of process `pid`.
///
/// # Errors
/// [`DeviceError::is_missing`] when it has ended, [`DeviceError::is_denied`] for another user's. Without CAP_SYS_ADMIN the
/// kernel hides the slots.
pub fn swapped(root: &Root, pid: u32, ranges: &[Range], visit: &mut dyn FnMut(u64, u32)) -> Result<(), DeviceError> {
    let path = root.path(format!("/proc/{pid}/pagemap"));
    let fault = |cause| DeviceError::io(&path, Operation::Read, cause);
    let file = File::open(&path).map_err(fault)?;
    let page_bytes = rustix::param::page_size();
    let mut buffer = [0; BUFFER_BYTES];
    for range in ranges {
        let (mut page, end) = (range.start / page_bytes, (range.start + range.bytes) / page_bytes);
        while page < end {
            let wanted = BUFFER_BYTES.min((end - page) * ENTRY_BYTES);
            let count = file.read_at(&mut buffer[..wanted], (page * ENTRY_BYTES) as u64).map_err(fault)?;
            let entries = buffer[..count].chunks_exact(ENTRY_BYTES);
            if entries.len() == 0 {
                // The mapping was removed meanwhile, or all of them with the process.
                break;
            }
            for entry in entries {
                let entry = entry.try_into().map(u64::from_ne_bytes).unwrap_or_default();
                if let Some(slot) = slot(entry) {
                    visit(page as u64, slot);
                }
                page += 1;
            }
        }
    }
    Ok(())
}

/// The swap slot of the page of `entry`. The first slot is the area's header, and no page's.
fn slot(entry: u64) -> Option<u32> {
    let frame = entry & ((1 << 55) - 1);
    let is_on_swap = entry & SWAPPED != 0 && frame & ((1 << AREA_BITS) - 1) < AREAS;
    u32::try_from(frame >> AREA_BITS).ok().filter(|&slot| is_on_swap && slot != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_holds_the_swap_slot_of_its_page() {
        for (entry, expected) in [
            (SWAPPED | 77 << AREA_BITS, Some(77)),
            (SWAPPED | 77 << AREA_BITS | 15, Some(77)),
            (SWAPPED | 77 << AREA_BITS | 1 << 55 | 1 << 61, Some(77)),
            (SWAPPED | 77 << AREA_BITS | 30, None),
            (SWAPPED, None),
            (SWAPPED | (1 << 32) << AREA_BITS, None),
            (1 << 63 | 77 << AREA_BITS, None),
            (0, None),
        ] {
            assert_eq!(slot(entry), expected, "{entry:#x}");
        }
    }

    #[test]
    fn ranges_are_read_whole_and_a_short_file_ends_them() {
        let folder = tempfile::tempdir().unwrap();
        let process = folder.path().join("proc/7");
        std::fs::create_dir_all(&process).unwrap();
        let entries: Vec<u8> =
            (0..2000u64).flat_map(|page| (SWAPPED | (page + 1) << AREA_BITS).to_ne_bytes()).collect();
        std::fs::write(process.join("pagemap"), entries).unwrap();
        let page_bytes = rustix::param::page_size();
        let range = |start: usize, pages: usize| Range { start: start * page_bytes, bytes: pages * page_bytes };
        let mut found = Vec::new();
        let ranges = [range(3, 2), range(10, 1500), range(1990, 20), range(5000, 1)];
        swapped(&Root::at(folder.path()), 7, &ranges, &mut |page, slot| found.push((page, slot))).unwrap();
        let expected = (3..5).chain(10..1510).chain(1990..2000);
        assert_eq!(found, expected.map(|page| (page, page as u32 + 1)).collect::<Vec<_>>());
        assert!(swapped(&Root::at(folder.path()), 8, &ranges, &mut |_, _| ()).unwrap_err().is_missing());
    }
}
