//! `proc_diskstats.log`: periodic samples of /proc/diskstats (Documentation/admin-guide/iostats.rst).

use std::collections::HashMap;
use std::io::Read;

use crate::model::{Disk, DiskSample, Span};
use crate::read::blocks;
use crate::read::lines::{self, Fields, saturate};
use crate::read::{Notes, ReadError};

/// A device's counters since the kernel started.
#[derive(Debug, Clone, Copy, Default)]
struct Counters {
    read_sectors: u64,
    written_sectors: u64,
    busy_ms: u64,
}

struct DeviceLog {
    disk: Option<Disk>,
    before: Option<(u32, Counters)>,
}

/// Reads the log; only whole disks that did something, in the order of the log.
///
/// # Errors
/// Read errors, and too many samples.
pub fn parse(input: impl Read, notes: &mut Notes<'_>) -> Result<Vec<Disk>, ReadError> {
    let mut known: Vec<(Vec<u8>, DeviceLog)> = Vec::new();
    let mut by_name: HashMap<Vec<u8>, usize> = HashMap::new();
    let limits = notes.limits;
    let mut samples = 0usize;
    let file = notes.file;
    blocks::each_line(input, notes, |now_ms, line| {
        let Some((name, counters)) = device(line) else { return Ok(is_partition_line(line)) };
        let index = match by_name.get(name) {
            Some(&index) => index,
            None => {
                let is_whole = is_disk(name) && !known.iter().any(|(other, _)| is_part_of(name, other));
                let text = lines::text(name);
                let disk = is_whole.then(|| Disk { name: text, samples: Vec::new() });
                known.push((name.to_vec(), DeviceLog { disk, before: None }));
                by_name.insert(name.to_vec(), known.len() - 1);
                known.len() - 1
            }
        };
        samples += 1;
        if samples > limits.core_samples || known.len() > limits.samples {
            return Err(ReadError::too_many(file, "samples of disks", limits.core_samples));
        }
        known[index].1.add(now_ms, counters);
        Ok(true)
    })?;
    let disks = known.into_iter().filter_map(|(_, known)| known.disk);
    Ok(disks.filter(|disk| disk.samples.iter().any(|s| s.busy > 0.0 || s.read_kib + s.written_kib > 0)).collect())
}

impl DeviceLog {
    fn add(&mut self, now_ms: u32, counters: Counters) {
        let Some(disk) = &mut self.disk else { return };
        if let Some((before_ms, before)) = self.before
            && before_ms < now_ms
        {
            let spent = |now: u64, before: u64| now.saturating_sub(before);
            let busy_ms = spent(counters.busy_ms, before.busy_ms) as f32;
            disk.samples.push(DiskSample {
                span: Span::new(before_ms, now_ms),
                read_kib: saturate(spent(counters.read_sectors, before.read_sectors) / 2),
                written_kib: saturate(spent(counters.written_sectors, before.written_sectors) / 2),
                busy: (busy_ms / (now_ms - before_ms) as f32).min(1.0),
            });
        }
        self.before = Some((now_ms, counters));
    }
}

/// major minor name, then reads: completed, merged, sectors, ms; writes: the same; in flight, ms busy, ms weighted.
fn device(line: &[u8]) -> Option<(&[u8], Counters)> {
    let mut fields = Fields::of(line);
    let _device_number = (fields.number()?, fields.number()?);
    let name = fields.next()?;
    fields.skip_fields(2)?;
    let read_sectors = fields.number()?;
    fields.skip_fields(3)?;
    let written_sectors = fields.number()?;
    fields.skip_fields(2)?;
    let busy_ms = fields.number()?;
    fields.number()?;
    Some((name, Counters { read_sectors, written_sectors, busy_ms }))
}

/// Before Linux 2.6.25 partitions had four counters.
fn is_partition_line(line: &[u8]) -> bool {
    let mut fields = Fields::of(line);
    fields.number().is_some() && fields.number().is_some() && fields.next().is_some() && fields.count() == 4
}

/// False for devices in memory, and for devices built on others, whose work would count twice.
fn is_disk(name: &[u8]) -> bool {
    const NOT_DISKS: [&[u8]; 8] = [b"ram", b"loop", b"zram", b"dm-", b"md", b"sr", b"fd", b"nbd"];
    !NOT_DISKS.iter().any(|prefix| name.starts_with(prefix))
}

/// sda1, nvme0n1p2, mmcblk0p1, mmcblk0boot0, mmcblk0rpmb of sda, nvme0n1, mmcblk0.
fn is_part_of(name: &[u8], disk: &[u8]) -> bool {
    let Some(rest) = name.strip_prefix(disk) else { return false };
    let ends_in_digit = disk.last().is_some_and(u8::is_ascii_digit);
    let digits = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    match rest.strip_prefix(b"p") {
        Some(number) if ends_in_digit => digits(number),
        _ => digits(rest) && !ends_in_digit || rest.starts_with(b"boot") || rest == b"rpmb",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::Limits;

    fn parsed(text: &str) -> (Vec<Disk>, Vec<String>) {
        let mut omissions = Vec::new();
        let limits = Limits::default();
        let disks = parse(text.as_bytes(), &mut Notes::new("proc_diskstats.log", &mut omissions, &limits)).unwrap();
        (disks, omissions.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn whole_disks_count_once() {
        let table: [(&[&str], &[&str]); 4] = [
            (&["sda", "sda1", "sda12", "sdaa", "sdb"], &["sda", "sdaa", "sdb"]),
            (&["nvme0n1", "nvme0n1p1", "nvme0n2", "nvme1n1"], &["nvme0n1", "nvme0n2", "nvme1n1"]),
            (&["mmcblk0", "mmcblk0p1", "mmcblk0boot0", "mmcblk0rpmb", "mmcblk1"], &["mmcblk0", "mmcblk1"]),
            (
                &["ram0", "loop0", "dm-0", "md0", "zram0", "mtdblock0", "mtdblock1", "mtdblock10"],
                &["mtdblock0", "mtdblock1", "mtdblock10"],
            ),
        ];
        for (names, expected) in table {
            let block = |by: u32| -> String {
                names.iter().map(|name| format!("   8  0 {name} 1 0 {by} 0 1 0 {by} 0 0 {by} 0\n")).collect()
            };
            let (disks, omissions) = parsed(&format!("10\n{}\n20\n{}", block(4), block(64)));
            let found: Vec<_> = disks.iter().map(|disk| disk.name.as_str()).collect();
            assert_eq!((found.as_slice(), omissions.len()), (expected, 0), "{names:?}");
            let sample = disks[0].samples[0];
            assert_eq!((sample.read_kib, sample.written_kib, sample.busy), (30, 30, 0.6), "{names:?}");
        }
    }

    #[test]
    fn wrapped_counters_old_partitions_and_torn_lines_are_read() {
        let text = "10\n 3 0 hda 9 0 100 0 0 0 0 0 0 50 0\n 3 1 hda1 4 32 0 0\n 3 0 hd\n\n\
                    20\n 3 0 hda 9 0 90 0 0 0 8 0 0 9999 0\n 3 1 hda1 4 32 0 0\n";
        let (disks, omissions) = parsed(text);
        assert_eq!(disks.len(), 1);
        let sample = disks[0].samples[0];
        assert_eq!((sample.read_kib, sample.written_kib, sample.busy), (0, 4, 1.0));
        assert_eq!(omissions, ["proc_diskstats.log:4: a torn or unknown line is left out"]);
    }
}
