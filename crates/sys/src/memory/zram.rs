//! Compressed block devices in memory: /sys/block/zramN (Documentation/admin-guide/blockdev/zram.rst).
//!
//! `/sys/class/zram-control/hot_add` is never read here: reading it creates a device.

use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};

use serde::Serialize;

use crate::open_file::OpenFiles;
use crate::{DeviceError, Operation, Root};
use brisk_base::insertion_sort::insertion_sort;

/// Where block devices are.
const BLOCK: &str = "/sys/block";
/// The file whose reading creates one more device, as named on the device.
pub const HOT_ADD: &str = "/sys/class/zram-control/hot_add";
/// The unit of `bd_stat`, whatever the page size.
const BACKING_UNIT_KIB: u64 = 4;
/// A size that every kernel accepts.
const MIN_BYTES: &str = "1048576";

/// One zram device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Zram {
    /// `zram0`.
    pub name: String,
    /// Its capacity before compression; zero while it is not set up.
    pub disk_size_bytes: u64,
    /// The current algorithm; `None` before Linux 3.15, which had only lzo.
    pub algorithm: Option<String>,
    /// The algorithms that can be chosen, in the kernel's order. Those in modules not yet loaded are missing before 6.12.
    pub algorithms_offered: Vec<String>,
    /// Parallel compressions (`max_comp_streams`): chosen by the user from Linux 3.15 to 4.6, one per CPU since.
    pub streams: Option<u32>,
    /// Its usage; `None` while it is not set up.
    pub usage: Option<Usage>,
    /// What was written to and read from its backing device, if it has one.
    pub backing: Option<Backing>,
    /// The kernel can write pages back to a device (CONFIG_ZRAM_WRITEBACK).
    pub writeback: bool,
    /// The kernel can compress cold pages again with a slower algorithm (CONFIG_ZRAM_MULTI_COMP, since Linux 6.2).
    pub recompression: bool,
}

/// What a zram device holds, from `mm_stat`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// The size of its pages before compression.
    pub original_bytes: u64,
    /// Their size after compression, without the allocator's overhead.
    pub compressed_bytes: u64,
    /// All memory that it takes.
    pub memory_bytes: u64,
    /// Its memory limit; zero is no limit.
    pub memory_limit_bytes: u64,
    /// Pages that did not compress, and take a page each (since Linux 4.19).
    pub incompressible_pages: u64,
}

impl Usage {
    /// Memory per swapped-out byte, including bytes on a backing device; `None` below a MiB, which is too little for an
    /// estimate.
    pub fn ratio(&self) -> Option<f64> {
        memory_by_byte(self.memory_bytes, self.original_bytes)
    }
}

impl Zram {
    /// The memory that one more swapped-out byte will take: the kernel counts written-back pages among the stored ones,
    /// although they take no memory.
    pub fn next_ratio(&self) -> Option<f64> {
        let usage = self.usage?;
        let written_back_bytes = self.backing.as_ref().map_or(0, |backing| backing.held_kib.saturating_mul(1024));
        memory_by_byte(usage.memory_bytes, usage.original_bytes.saturating_sub(written_back_bytes))
    }
}

fn memory_by_byte(memory_bytes: u64, original_bytes: u64) -> Option<f64> {
    (original_bytes >= 1 << 20).then(|| memory_bytes as f64 / original_bytes as f64)
}

/// A backing device and its wear since it was set, from `backing_dev` and `bd_stat`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Backing {
    /// The device or file.
    pub path: String,
    /// What it holds now.
    pub held_kib: u64,
    /// What was read back.
    pub read_kib: u64,
    /// What was written: the wear.
    pub written_kib: u64,
}

/// The zram devices below `root`, by number. None without the module.
///
/// # Errors
/// [`DeviceError`] when a device's own files cannot be read or are not as documented.
pub fn devices(root: &Root) -> Result<Vec<Zram>, DeviceError> {
    let names = match root.list(BLOCK) {
        Err(error) if error.is_missing() => Vec::new(),
        names => names?,
    };
    let number = |name: &String| name.strip_prefix("zram")?.parse::<u32>().ok();
    let mut numbered: Vec<(u32, String)> = names.into_iter().filter_map(|name| Some((number(&name)?, name))).collect();
    insertion_sort(&mut numbered, |one, next| one > next);
    numbered.into_iter().map(|(_, name)| device(root, name)).collect()
}

/// The zram device `name`.
///
/// # Errors
/// As [`devices`].
pub fn device(root: &Root, name: String) -> Result<Zram, DeviceError> {
    let disk_size_bytes: u64 = root.read_number(file(&name, "disksize"))?;
    let (algorithm, algorithms_offered) = match optional(root, &name, "comp_algorithm")? {
        None => (None, Vec::new()),
        Some(text) => {
            let parsed = parse_algorithms(&text);
            let expected = "algorithms, one of them in brackets";
            let (chosen, offered) = parsed.ok_or_else(|| malformed(root, &name, "comp_algorithm", expected, &text))?;
            (Some(chosen), offered)
        }
    };
    let usage = match disk_size_bytes {
        0 => None,
        _ => usage(root, &name, &mut |file| root.read(file))?,
    };
    let backing = backing(root, &name, &mut |file| root.read(file))?;
    let streams = optional(root, &name, "max_comp_streams")?.and_then(|text| text.parse().ok());
    let recompression = root.exists(file(&name, "recomp_algorithm"));
    let writeback = root.exists(file(&name, "backing_dev"));
    Ok(Zram { name, disk_size_bytes, algorithm, algorithms_offered, streams, usage, backing, writeback, recompression })
}

/// Device `name`, which is in use as swap: only its usage, with the fewest reads, from files that stay open.
///
/// # Errors
/// As [`devices`].
pub fn held(root: &Root, name: String, texts: &mut OpenFiles) -> Result<Zram, DeviceError> {
    let mut read = |file: &str| texts.read(root, file);
    let (usage, backing) = (usage(root, &name, &mut read)?, backing(root, &name, &mut read)?);
    Ok(Zram { name, usage, backing, ..Zram::default() })
}

fn file(name: &str, leaf: &str) -> String {
    format!("{BLOCK}/{name}/{leaf}")
}

fn optional(root: &Root, name: &str, leaf: &str) -> Result<Option<String>, DeviceError> {
    missing_as_none(root.read(file(name, leaf)))
}

fn missing_as_none(text: Result<String, DeviceError>) -> Result<Option<String>, DeviceError> {
    match text {
        Err(error) if error.is_missing() => Ok(None),
        text => text.map(Some),
    }
}

fn malformed(root: &Root, name: &str, leaf: &str, expected: &'static str, text: &str) -> DeviceError {
    DeviceError::malformed(&root.path(file(name, leaf)), expected, text)
}

/// Reads a file, named as on the device.
type Read<'a> = &'a mut dyn FnMut(&str) -> Result<String, DeviceError>;

fn usage(root: &Root, name: &str, read: Read<'_>) -> Result<Option<Usage>, DeviceError> {
    let Some(text) = missing_as_none(read(&file(name, "mm_stat")))? else { return old_usage(root, name) };
    let expected = "at least five numbers of bytes and pages";
    parse_usage(&text).map(Some).ok_or_else(|| malformed(root, name, "mm_stat", expected, &text))
}

fn backing(root: &Root, name: &str, read: Read<'_>) -> Result<Option<Backing>, DeviceError> {
    let path = missing_as_none(read(&file(name, "backing_dev")))?;
    let Some(path) = path.filter(|path| !matches!(path.as_str(), "" | "none")) else { return Ok(None) };
    let text = read(&file(name, "bd_stat"))?;
    let backing = parse_backing(&path, &text);
    backing.map(Some).ok_or_else(|| malformed(root, name, "bd_stat", "three numbers of 4 KiB", &text))
}

/// Before Linux 4.1 each number had its own file.
fn old_usage(root: &Root, name: &str) -> Result<Option<Usage>, DeviceError> {
    let number = |leaf: &str| root.read_number::<u64>(file(name, leaf));
    let original_bytes = match number("orig_data_size") {
        Err(error) if error.is_missing() => return Ok(None),
        bytes => bytes?,
    };
    Ok(Some(Usage {
        original_bytes,
        compressed_bytes: number("compr_data_size")?,
        memory_bytes: number("mem_used_total")?,
        ..Usage::default()
    }))
}

/// True for `zram0` and the like.
pub fn is_name(name: &str) -> bool {
    let number = name.strip_prefix("zram").unwrap_or_default();
    !number.is_empty() && number.len() <= 9 && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// The current algorithm of device `name`.
///
/// # Errors
/// [`DeviceError`] when the device was removed or the file is not as documented.
pub fn algorithm(root: &Root, name: &str) -> Result<String, DeviceError> {
    let file = format!("{BLOCK}/{name}/comp_algorithm");
    let text = root.read(&file)?;
    let fault = || DeviceError::malformed(&root.path(&file), "algorithms, one of them in brackets", &text);
    parse_algorithms(&text).map(|(chosen, _)| chosen).ok_or_else(fault)
}

/// Chooses the algorithm of device `name`, which must have no size yet.
///
/// # Errors
/// The kernel's answer: EBUSY when it has a size, EINVAL for an algorithm that it does not offer.
pub fn set_algorithm(root: &Root, name: &str, algorithm: &str) -> Result<(), DeviceError> {
    root.write(format!("{BLOCK}/{name}/comp_algorithm"), algorithm)
}

/// The block device that device `name` writes back to, or `none`.
///
/// # Errors
/// [`DeviceError::is_missing`] without CONFIG_ZRAM_WRITEBACK.
pub fn backing_device(root: &Root, name: &str) -> Result<String, DeviceError> {
    root.read(format!("{BLOCK}/{name}/backing_dev"))
}

/// Sets the block device that device `name`, which must have no size yet, writes back to; `none` unsets it.
///
/// # Errors
/// When there is no `path`; the kernel's answer: EBUSY when it has a size, or `path` is in use, ENOTBLK when that is a
/// file.
pub fn set_backing_device(root: &Root, name: &str, path: &str) -> Result<(), DeviceError> {
    if path == "none" {
        // Some kernels reset only a device that has a size.
        let _ = set_size(root, name, MIN_BYTES);
        return set_size(root, name, "0");
    }
    if !root.exists(path) {
        let why = "it does not exist: see memory.zram.backing_device in the configuration";
        let cause = std::io::Error::new(std::io::ErrorKind::InvalidInput, why);
        return Err(DeviceError::io(&root.path(path), Operation::Open, cause));
    }
    root.write(format!("{BLOCK}/{name}/backing_dev"), path)
}

/// Checks that block device `path` is unused and can be written back to: not mounted, not swap, and not part of another device.
///
/// # Errors
/// EBUSY when it is in use; also when there is no such device, or for lack of permission.
pub fn ensure_unused(root: &Root, path: &str) -> Result<(), DeviceError> {
    let path = root.path(path);
    let fault = |cause| DeviceError::io(&path, Operation::Open, cause);
    if !std::fs::metadata(&path).map_err(fault)?.file_type().is_block_device() {
        return Err(fault(std::io::Error::new(std::io::ErrorKind::InvalidInput, "it is no block device")));
    }
    // For a block device, O_EXCL means that no other user has claimed it (open(2)).
    std::fs::OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(&path).map(drop).map_err(fault)
}

/// The capacity of device `name` before compression; zero while it is not set up.
///
/// # Errors
/// [`DeviceError`] when the device was removed.
pub fn size_bytes(root: &Root, name: &str) -> Result<u64, DeviceError> {
    root.read_number(format!("{BLOCK}/{name}/disksize"))
}

/// Sets device `name` up with a size in bytes; `0` resets it.
///
/// # Errors
/// The kernel's answer: EBUSY when it has a size already, or is to be reset while a process uses it.
pub fn set_size(root: &Root, name: &str, bytes: &str) -> Result<(), DeviceError> {
    match bytes {
        "0" => root.write(format!("{BLOCK}/{name}/reset"), "1"),
        bytes => root.write(format!("{BLOCK}/{name}/disksize"), bytes),
    }
}

/// Parses `comp_algorithm`: the current one, and all of them.
pub fn parse_algorithms(text: &str) -> Option<(String, Vec<String>)> {
    let mut chosen = None;
    let mut offered = Vec::new();
    for word in text.split_ascii_whitespace() {
        let bare = match word.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            Some(bare) => {
                if chosen.replace(bare.to_owned()).is_some() {
                    return None;
                }
                bare
            }
            None => word,
        };
        if bare.is_empty() || bare.contains(['[', ']']) {
            return None;
        }
        offered.push(bare.to_owned());
    }
    Some((chosen?, offered))
}

/// Parses `mm_stat`: seven numbers in Linux 4.1, nine in 5.11; later ones are added at the end.
pub fn parse_usage(text: &str) -> Option<Usage> {
    let numbers: Vec<u64> = text.split_ascii_whitespace().map(|word| word.parse().ok()).collect::<Option<_>>()?;
    let &[original_bytes, compressed_bytes, memory_bytes, memory_limit_bytes, _most_bytes, ref rest @ ..] =
        &numbers[..]
    else {
        return None;
    };
    let incompressible_pages = rest.get(2).copied().unwrap_or(0);
    Some(Usage { original_bytes, compressed_bytes, memory_bytes, memory_limit_bytes, incompressible_pages })
}

/// Parses `bd_stat`: held, read and written, in units of 4 KiB.
pub fn parse_backing(path: &str, text: &str) -> Option<Backing> {
    let kib = |word: &str| word.parse::<u64>().ok()?.checked_mul(BACKING_UNIT_KIB);
    let numbers: Vec<u64> = text.split_ascii_whitespace().map(kib).collect::<Option<_>>()?;
    let &[held_kib, read_kib, written_kib, ..] = &numbers[..] else { return None };
    Some(Backing { path: path.to_owned(), held_kib, read_kib, written_kib })
}

/// Whether zram is supported where no device exists yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Module {
    /// The driver is in the kernel or loaded, and creates devices on request.
    Loaded,
    /// The module is below /lib/modules.
    Loadable,
    /// Neither.
    Missing,
}

/// Whether this device, whose kernel is `release`, supports zram.
pub fn module(root: &Root, release: &str) -> Module {
    if root.exists(HOT_ADD) || root.exists(format!("{BLOCK}/zram0")) {
        return Module::Loaded;
    }
    let is_zram = |line: &str| line.split(':').next().is_some_and(|path| path.contains("/zram.ko"));
    let folders = ["/lib/modules", "/vendor/lib/modules", "/vendor_dlkm/lib/modules"];
    let lists =
        folders.iter().flat_map(|folder| [format!("{folder}/{release}/modules.dep"), format!("{folder}/modules.dep")]);
    let mut texts = lists.filter_map(|list| root.read(list).ok());
    if texts.any(|text| text.lines().any(is_zram)) { Module::Loadable } else { Module::Missing }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn device_of(files: &[(&str, &str)]) -> Result<Vec<Zram>, DeviceError> {
        let folder = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let path = folder.path().join("sys/block").join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        devices(&Root::at(folder.path()))
    }

    #[test]
    fn the_chosen_algorithm_is_in_brackets() {
        let offered = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        for (text, expected) in [
            ("lzo [lzo-rle] lz4 \n", Some(("lzo-rle", &["lzo", "lzo-rle", "lz4"][..]))),
            ("[lzo]", Some(("lzo", &["lzo"]))),
            ("lzo lz4", None),
            ("[lzo] [lz4]", None),
            ("[]", None),
            ("[lz4", None),
            ("", None),
        ] {
            let expected = expected.map(|(chosen, all)| (chosen.to_owned(), offered(all)));
            assert_eq!(parse_algorithms(text), expected, "{text:?}");
        }
    }

    #[test]
    fn usage_is_read_from_all_generations() {
        let seven = " 10485760  3000000  4194304   0  4194304   12   0\n";
        let usage = parse_usage(seven).unwrap();
        assert_eq!((usage.ratio(), usage.incompressible_pages), (Some(0.4), 0));
        assert_eq!(parse_usage(&format!("{} 33 44", seven.trim_end())).unwrap().incompressible_pages, 33);
        assert_eq!(parse_usage("4096 74 12288 0 12288").unwrap().ratio(), None, "a page is too little");
        for text in ["", "1 2 3 4", "1 2 3 4 -5", "1 2 3 4 x"] {
            assert_eq!(parse_usage(text), None, "{text:?}");
        }
    }

    #[test]
    fn wear_is_counted_in_kib() {
        let backing = parse_backing("/dev/sda3", "  10   2   300\n").unwrap();
        assert_eq!((backing.held_kib, backing.read_kib, backing.written_kib), (40, 8, 1200));
        for text in ["", "1 2", "1 2 18446744073709551615"] {
            assert_eq!(parse_backing("x", text), None, "{text:?}");
        }
    }

    #[test]
    fn devices_of_old_and_new_kernels_are_read() {
        let old = device_of(&[
            ("zram0/disksize", "1000\n"),
            ("zram0/orig_data_size", "2097152\n"),
            ("zram0/compr_data_size", "500000\n"),
            ("zram0/mem_used_total", "1048576\n"),
            ("mmcblk0/size", "1\n"),
        ])
        .unwrap();
        assert_eq!((old.len(), old[0].usage.unwrap().ratio(), old[0].algorithm.as_ref()), (1, Some(0.5), None));
        let new = device_of(&[
            ("zram10/disksize", "0\n"),
            ("zram10/comp_algorithm", "[lzo-rle] lz4\n"),
            ("zram2/disksize", "4096\n"),
            ("zram2/mm_stat", "1 2 3 4 5 6 7 8 9\n"),
            ("zram2/backing_dev", "/dev/block/loop9\n"),
            ("zram2/bd_stat", "1 2 3\n"),
            ("zram2/recomp_algorithm", "\n"),
        ])
        .unwrap();
        let names: Vec<&str> = new.iter().map(|zram| zram.name.as_str()).collect();
        assert_eq!(names, ["zram2", "zram10"]);
        assert!(new[0].writeback && new[0].recompression && new[0].backing.is_some());
        assert!(!new[1].writeback && new[1].usage.is_none());
        assert!(device_of(&[]).unwrap().is_empty());
        assert!(device_of(&[("zram0/disksize", "large")]).unwrap_err().to_string().contains("zram0/disksize"));
    }

    // Verifies MEMORY-6.
    #[test]
    fn a_missing_backing_device_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        fs::create_dir_all(folder.path().join("sys/block/zram0")).unwrap();
        let file = folder.path().join("sys/block/zram0/backing_dev");
        fs::write(&file, "none\n").unwrap();
        let refused = set_backing_device(&root, "zram0", "/dev/none").unwrap_err();
        assert!(!refused.is_missing() && refused.to_string().contains("memory.zram.backing_device"), "{refused}");
        assert_eq!(backing_device(&root, "zram0").unwrap(), "none");
        fs::create_dir(folder.path().join("dev")).unwrap();
        fs::write(folder.path().join("dev/mmcblk0p9"), "").unwrap();
        set_backing_device(&root, "zram0", "/dev/mmcblk0p9").unwrap();
        assert_eq!(backing_device(&root, "zram0").unwrap(), "/dev/mmcblk0p9");
    }

    #[test]
    fn a_module_is_found_by_its_name() {
        for (list, expected) in [
            ("kernel/drivers/block/zram/zram.ko: kernel/mm/zsmalloc.ko\n", Module::Loadable),
            ("kernel/drivers/block/zram/zram.ko.zst:\n", Module::Loadable),
            ("kernel/mm/other.ko: kernel/drivers/block/zram/zram.ko\n", Module::Missing),
        ] {
            let folder = tempfile::tempdir().unwrap();
            fs::create_dir_all(folder.path().join("lib/modules/6.1.0")).unwrap();
            fs::write(folder.path().join("lib/modules/6.1.0/modules.dep"), list).unwrap();
            assert_eq!(module(&Root::at(folder.path()), "6.1.0"), expected, "{list}");
        }
    }
}
