//! The swap areas in use, from /proc/swaps (proc(5), swapon(2)).

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::open_file::OpenFiles;
use crate::{DeviceError, Root};
use brisk_base::insertion_sort::insertion_sort;

const FILE: &str = "/proc/swaps";

/// One swap area in use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Swap {
    /// The device or file.
    pub path: PathBuf,
    pub size_kib: u64,
    /// Its used part.
    pub used_kib: u64,
    /// The area with the highest priority is filled first; negative where none was chosen.
    pub priority: i32,
}

impl Swap {
    /// `zram0` for an area on zram: /dev/zram0, and /dev/block/zram0 on Android.
    pub fn zram_name(&self) -> Option<&str> {
        let name = self.path.file_name()?.to_str()?;
        let number = name.strip_prefix("zram")?;
        let is_device = self.path.parent().is_some_and(|folder| {
            folder == Path::new("/dev") || folder == Path::new("/dev/block") || folder == Path::new("/")
        });
        (is_device && !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(name)
    }

    /// Its free part.
    pub fn free_kib(&self) -> u64 {
        self.size_kib.saturating_sub(self.used_kib)
    }
}

/// The swap areas in use, in the order in which they are filled.
///
/// # Errors
/// [`DeviceError::is_missing`] without CONFIG_SWAP, [`DeviceError::is_malformed`] when a line is not as documented.
pub fn read(root: &Root) -> Result<Vec<Swap>, DeviceError> {
    of_text(root, &root.read(FILE)?)
}

/// The same, from a file that stays open among `texts`.
///
/// # Errors
/// As [`read`].
pub fn read_open(root: &Root, texts: &mut OpenFiles) -> Result<Vec<Swap>, DeviceError> {
    of_text(root, &texts.read(root, FILE)?)
}

fn of_text(root: &Root, text: &str) -> Result<Vec<Swap>, DeviceError> {
    parse(text).ok_or_else(|| {
        DeviceError::malformed(&root.path(FILE), "a heading, then lines of path, type, size, used and priority", text)
    })
}

/// Parses the heading and the lines below it.
pub fn parse(text: &str) -> Option<Vec<Swap>> {
    let mut lines = text.lines();
    lines.next()?.strip_prefix("Filename")?;
    let mut swaps: Vec<Swap> = lines.map(parse_line).collect::<Option<_>>()?;
    insertion_sort(&mut swaps, |one, next| one.priority < next.priority);
    Some(swaps)
}

fn parse_line(line: &str) -> Option<Swap> {
    // Type and path have no blanks: the kernel escapes those in a path as octal.
    let [path, _kind, size, used, priority] = line.split_ascii_whitespace().collect::<Vec<_>>().try_into().ok()?;
    Some(Swap {
        path: PathBuf::from(unescape(path)),
        size_kib: size.parse().ok()?,
        used_kib: used.parse().ok()?,
        priority: priority.parse().ok()?,
    })
}

/// Blank, tab, line feed and backslash as seq_path() escapes them.
fn unescape(text: &str) -> String {
    text.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n\
                        /swap\\040file                             file\t\t1048572\t\t12\t\t-2\n\
                        /dev/zram0                              partition\t4194300\t\t1024\t\t100\n";

    #[test]
    fn areas_are_in_the_order_in_which_they_are_filled() {
        let swaps = parse(TEXT).unwrap();
        assert_eq!(swaps[0].zram_name(), Some("zram0"));
        assert_eq!((swaps[0].priority, swaps[0].free_kib()), (100, 4_193_276));
        assert_eq!((swaps[1].path.to_str(), swaps[1].zram_name()), (Some("/swap file"), None));
        assert_eq!(parse("Filename\tType\tSize\tUsed\tPriority"), Some(vec![]));
    }

    #[test]
    fn only_devices_are_zram() {
        for (path, name) in [
            ("/dev/block/zram1", Some("zram1")),
            ("/zram0", Some("zram0")),
            ("/home/me/zram0", None),
            ("/dev/zram", None),
            ("/dev/zram0p1", None),
        ] {
            let swap = Swap { path: path.into(), size_kib: 1, used_kib: 2, priority: 0 };
            assert_eq!((swap.zram_name(), swap.free_kib()), (name, 0), "{path}");
        }
    }

    #[test]
    fn damaged_lists_are_refused() {
        for text in ["", "none", "Filename\n/dev/sda1 partition 1 2", "Filename\n/dev/sda1 partition -1 2 3"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }
}
