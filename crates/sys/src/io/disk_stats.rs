//! The I/O counters of each disk since boot, from /proc/diskstats (Documentation/admin-guide/iostats.rst).

use crate::Root;
use crate::fields::Fields;

/// reads: completed, merged, sectors, ms; writes: the same; requests in flight, ms busy, ms weighted by requests.
pub type Counters = [u64; 11];

/// A line of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Device<'a> {
    /// Its major number.
    pub major: u32,
    /// Its minor number.
    pub minor: u32,
    /// The kernel's name.
    pub name: &'a [u8],
    /// Its counters.
    pub counters: Counters,
}

/// Passes every device to `each`, in the order of the file. Malformed lines are skipped, as are the partitions of kernels
/// before 2.6.25, which had four counters.
pub fn parse<'a>(text: &'a [u8], each: &mut dyn FnMut(Device<'a>)) {
    for line in text.split(|&byte| byte == b'\n') {
        if let Some(device) = device(line) {
            each(device);
        }
    }
}

fn device(line: &[u8]) -> Option<Device<'_>> {
    let mut fields = Fields::of(line);
    let number = |fields: &mut Fields<'_>| u32::try_from(fields.number()?).ok();
    let (major, minor) = (number(&mut fields)?, number(&mut fields)?);
    let name = fields.next()?;
    let mut counters = Counters::default();
    for place in &mut counters {
        *place = fields.number()?;
    }
    Some(Device { major, minor, name, counters })
}

/// True for a whole disk that is neither in memory nor stacked on other devices, whose I/O would count twice: NVMe, eMMC, SD,
/// SATA, virtual disks.
pub fn is_whole_disk(root: &Root, name: &str) -> bool {
    const NOT_DISKS: [&str; 8] = ["ram", "loop", "zram", "dm-", "md", "sr", "fd", "nbd"];
    let is_stacked = NOT_DISKS.iter().any(|prefix| name.starts_with(prefix));
    // sysfs replaces the slash in a name by `!` (cciss/c0d0). Partitions are in the folders of their disks.
    !is_stacked && root.exists(format!("/sys/block/{}", name.replace('/', "!")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_read_and_malformed_lines_skipped() {
        let text = b" 259 0 nvme0n1 1 2 3 4 5 6 7 8 9 10 11 12 13\n   3    1 hda1 4 32 0 0\n 8 0 sd\nx\n 179 8 mmcblk0 11 10 9 8 7 6 5 4 3 2 1\n";
        let mut found = Vec::new();
        parse(text, &mut |device| found.push(device));
        let expected = [
            Device { major: 259, minor: 0, name: b"nvme0n1", counters: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11] },
            Device { major: 179, minor: 8, name: b"mmcblk0", counters: [11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1] },
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn whole_disks_differ_from_partitions_and_stacked_devices() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        for name in ["nvme0n1", "mmcblk0", "vda", "cciss!c0d0", "dm-0", "zram0", "loop0"] {
            std::fs::create_dir_all(folder.path().join("sys/block").join(name)).unwrap();
        }
        for (name, expected) in [
            ("nvme0n1", true),
            ("nvme0n1p1", false),
            ("mmcblk0", true),
            ("mmcblk0p3", false),
            ("vda", true),
            ("vda1", false),
            ("cciss/c0d0", true),
            ("dm-0", false),
            ("zram0", false),
            ("loop0", false),
        ] {
            assert_eq!(is_whole_disk(&root, name), expected, "{name}");
        }
    }
}
