//! Writing single pages of a zram device back to its backing device, by their index
//! (Documentation/admin-guide/blockdev/zram.rst; CONFIG_ZRAM_WRITEBACK, by index since Linux 5.8).
//!
//! The index of a page is its swap slot. `block_state` of debugfs (CONFIG_ZRAM_MEMORY_TRACKING), where that is mounted, shows
//! which pages are incompressible.

use std::fs::File;
use std::io::{BufRead, BufReader};

use crate::memory::swaps;
use crate::memory::zram::{self, Zram};
use crate::{DeviceError, Operation, Root, Tunable};

/// The unit of the kernel's limit, whatever the page size.
const LIMIT_UNIT_KIB: u64 = 4;

/// The zram device that holds all swap and has a backing device; else what is missing, in words.
///
/// # Errors
/// As above. With a second swap area a page's slot would not show which area it is in.
pub fn device(root: &Root) -> Result<Zram, String> {
    let areas = swaps::read(root).map_err(|error| root.with_device_paths(&error))?;
    let [area] = &areas[..] else { return Err(format!("there are {} swap areas, and it needs one", areas.len())) };
    let name = area.zram_name().ok_or_else(|| format!("{} is not zram", area.path.display()))?;
    let zram = zram::device(root, name.to_owned()).map_err(|error| root.with_device_paths(&error))?;
    match zram.backing {
        Some(_) => Ok(zram),
        None => Err(format!("{name} has no device to write back to (memory.zram.backing_device)")),
    }
}

/// The file that enables the kernel's writeback limit of device `name`, as named on the device.
pub fn limit_switch(name: &str) -> String {
    format!("/sys/block/{name}/writeback_limit_enable")
}

/// Limits the kernel's writeback from device `name` to `kib`, where the limit is enabled.
///
/// # Errors
/// [`DeviceError::is_missing`] before Linux 5.0.
pub fn limit(root: &Root, name: &str, kib: u64) -> Result<(), DeviceError> {
    root.write(format!("/sys/block/{name}/writeback_limit"), &(kib / LIMIT_UNIT_KIB).to_string())
}

/// The pages of a zram device, for writeback.
#[derive(Debug)]
pub struct Pages(Tunable);

impl Pages {
    /// The pages of device `name`.
    ///
    /// # Errors
    /// [`DeviceError`] when the kernel has no writeback, or for lack of permission.
    pub fn of(root: &Root, name: &str) -> Result<Self, DeviceError> {
        Tunable::open(root, format!("/sys/block/{name}/writeback")).map(Self)
    }

    /// Writes page `index` back, unless it was written back already, was freed, or is one repeated word.
    ///
    /// # Errors
    /// ENOSPC when the backing device is full, EIO when it fails or the kernel's limit is reached, EINVAL before Linux 5.8.
    pub fn write_back(&mut self, index: u32) -> Result<(), DeviceError> {
        self.0.write(&format!("page_index={index}"))
    }
}

/// Sorts the pages `wanted` (ascending) of device `name`: incompressible ones first, without those that take no memory. Returns
/// them unchanged where the kernel does not report their state.
pub fn incompressible_first(root: &Root, name: &str, wanted: Vec<u32>) -> Vec<u32> {
    sorted(root, name, &wanted).unwrap_or(wanted)
}

fn sorted(root: &Root, name: &str, wanted: &[u32]) -> Result<Vec<u32>, DeviceError> {
    let path = root.path(format!("/sys/kernel/debug/zram/{name}/block_state"));
    let fault = |cause| DeviceError::io(&path, Operation::Read, cause);
    let (mut first, mut then) = (Vec::new(), Vec::new());
    for line in BufReader::new(File::open(&path).map_err(fault)?).lines() {
        let line = line.map_err(fault)?;
        match parse_state(&line) {
            Some((index, _)) if wanted.binary_search(&index).is_err() => {}
            Some((_, PageState { is_in_memory: false, .. })) => {}
            Some((index, PageState { is_incompressible: true, .. })) => first.push(index),
            Some((index, _)) => then.push(index),
            None => return Err(DeviceError::malformed(&path, "an index, a time and flags", &line)),
        }
    }
    first.append(&mut then);
    Ok(first)
}

/// The state of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageState {
    /// It takes memory: it was not written back, and is not one repeated word.
    pub is_in_memory: bool,
    /// It takes a whole page.
    pub is_incompressible: bool,
}

/// Parses a line of `block_state`: `300 75.033841 .wh.`.
pub fn parse_state(line: &str) -> Option<(u32, PageState)> {
    let mut words = line.split_ascii_whitespace();
    let index = words.next()?.parse().ok()?;
    let flags = words.nth(1)?;
    let state = PageState { is_in_memory: !flags.contains(['s', 'w']), is_incompressible: flags.contains('h') };
    Some((index, state))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::test_trees::root_of;

    const SWAPS: &str = "Filename\tType\tSize\tUsed\tPriority\n";
    const ZRAM: [(&str, &str); 3] = [
        ("sys/block/zram0/disksize", "4096000\n"),
        ("sys/block/zram0/mm_stat", "1 2 3 4 5 6 7 8 9\n"),
        ("sys/block/zram0/bd_stat", "1 2 3\n"),
    ];

    // Verifies MEMORY-6.
    #[test]
    fn all_swap_must_be_on_one_zram_with_a_device_behind_it() {
        for (areas, behind, expected) in [
            ("/dev/zram0 partition 4000 0 100\n", "/dev/mmcblk0p9", Ok("/dev/mmcblk0p9")),
            ("/dev/zram0 partition 4000 0 100\n", "none", Err("no device to write back to")),
            ("/dev/zram0 partition 4000 0 100\n/swap file 4000 0 -2\n", "/dev/mmcblk0p9", Err("2 swap areas")),
            ("/swap file 4000 0 -2\n", "/dev/mmcblk0p9", Err("/swap is not zram")),
            ("", "/dev/mmcblk0p9", Err("0 swap areas")),
            ("/dev/zram1 partition 4000 0 100\n", "/dev/mmcblk0p9", Err("zram1")),
        ] {
            let swaps = format!("{SWAPS}{areas}");
            let mut files = ZRAM.to_vec();
            files.extend([("proc/swaps", swaps.as_str()), ("sys/block/zram0/backing_dev", behind)]);
            let (_folder, root) = root_of(&files);
            match (device(&root), expected) {
                (Ok(zram), Ok(path)) => assert_eq!(zram.backing.unwrap().path, path),
                (Err(why), Err(expected)) => assert!(why.contains(expected), "{why}"),
                (found, _) => panic!("{areas} {behind}: {found:?}"),
            }
        }
    }

    // Verifies MEMORY-6.
    #[test]
    fn incompressible_pages_go_first_pages_without_memory_never() {
        let text = "\
           1           75.033841 ....
           2           63.806904 s...
           3           63.806919 ..hi
           4           63.806919 .wh.
           7           63.806919 ...i
           9           63.806919 ..h.
";
        let (_folder, root) = root_of(&[("sys/kernel/debug/zram/zram0/block_state", text)]);
        let sorted = |name: &str| incompressible_first(&root, name, vec![1, 2, 3, 4, 7, 8]);
        assert_eq!(sorted("zram0"), [3, 1, 7]);
        assert_eq!(sorted("zram1"), [1, 2, 3, 4, 7, 8], "the kernel reports no states");
        let (_folder, root) = root_of(&[("sys/kernel/debug/zram/zram0/block_state", "nonsense\n")]);
        assert_eq!(incompressible_first(&root, "zram0", vec![1, 2]), [1, 2]);
    }

    #[test]
    fn a_page_is_named_by_its_index_and_the_limit_counts_4_kib() {
        let (folder, root) =
            root_of(&[("sys/block/zram0/writeback", "\n"), ("sys/block/zram0/writeback_limit", "0\n")]);
        Pages::of(&root, "zram0").unwrap().write_back(17).unwrap();
        limit(&root, "zram0", 1024).unwrap();
        let text = |file: &str| fs::read_to_string(folder.path().join("sys/block/zram0").join(file)).unwrap();
        assert_eq!((text("writeback").trim(), text("writeback_limit").trim()), ("page_index=17", "256"));
        assert!(
            Pages::of(&root, "zram1").unwrap_err().is_missing() && limit(&root, "zram1", 4).unwrap_err().is_missing()
        );
    }
}
