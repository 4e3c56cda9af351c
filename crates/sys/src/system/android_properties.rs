//! Android's system properties, read without its libc from the shared memory of its init, below /dev/__properties__.
//!
//! A property is a serial number of four bytes, 92 bytes of value, and its whole name (`prop_info`, Android 4.4 and later;
//! the tree that leads to it is not needed to find a name). Since Android 7 there is a file for each SELinux label.

use std::fs::File;
use std::io::{self, Read};
use std::process::{Command, Stdio};

use crate::Root;

const FOLDER: &str = "/dev/__properties__";
const SETTER: &str = "/system/bin/setprop";
pub(crate) const VALUE_BYTES: usize = 92;
/// An area begins with its number of used bytes, a serial number, this, a version and reserved space (`prop_area`).
const MAGIC: &[u8] = b"PROP";
pub(crate) const HEADER_BYTES: u64 = 128;
/// An area is 128 KiB, or somewhat more on some devices.
const AREA_LIMIT_BYTES: u64 = 1 << 20;

/// True on a system that has properties.
pub fn exist(root: &Root) -> bool {
    root.exists(FOLDER)
}

/// The value of `name`; `None` when it is not set, or not readable.
pub fn value(root: &Root, name: &str) -> Option<String> {
    // sys.boot_completed has a label of its own since Android 12; all files are searched for it, but only once a second.
    let Ok(files) = root.list(FOLDER) else { return find(&area(root, FOLDER)?, name) };
    files.iter().find_map(|file| find(&area(root, &format!("{FOLDER}/{file}"))?, name))
}

/// Sets `name` as a user would: a program of Android's own asks init.
///
/// # Errors
/// When there is no such program, or init refuses.
pub fn set(root: &Root, name: &str, value: &str) -> io::Result<()> {
    let output = Command::new(root.path(SETTER)).args([name, value]).stdin(Stdio::null()).output()?;
    if !output.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    // Some versions of it report nothing when init refuses.
    let is_set = self::value(root, name).unwrap_or_default() == value;
    is_set.then_some(()).ok_or_else(|| io::Error::other("init does not set it"))
}

fn area(root: &Root, file: &str) -> Option<Vec<u8>> {
    let mut file = File::open(root.path(file)).ok()?;
    let mut area = vec![0; HEADER_BYTES as usize];
    file.read_exact(&mut area).ok()?;
    let used = u32::from_le_bytes(area.first_chunk().copied()?);
    // There are hundreds of files, and most of each is unused.
    (area[8..].starts_with(MAGIC)).then_some(())?;
    file.take(u64::from(used).min(AREA_LIMIT_BYTES)).read_to_end(&mut area).ok()?;
    Some(area)
}

/// The value of `name` in the bytes of an area.
pub fn find(area: &[u8], name: &str) -> Option<String> {
    let name = [name.as_bytes(), b"\0"].concat();
    for at in (VALUE_BYTES + 4..area.len().saturating_sub(name.len() - 1)).step_by(4) {
        // Everything in an area is aligned to four bytes, and a name begins where its value's bytes end, with a zero.
        if area[at..].starts_with(&name) && area[at - 1] == 0 {
            let value = &area[at - VALUE_BYTES..at];
            let length = value.iter().position(|&byte| byte == 0)?;
            return String::from_utf8(value[..length].to_vec()).ok();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_trees::{area, property, settable};

    // Verifies BOOT-4.
    #[test]
    fn a_value_is_set_or_init_has_refused_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = settable(folder.path(), "persist.x", "", &["one"]);
        set(&root, "persist.x", "one").unwrap();
        assert_eq!(value(&root, "persist.x").as_deref(), Some("one"));
        assert_eq!(set(&root, "persist.x", "two").unwrap_err().to_string(), "init does not set it");
        set(&root, "persist.x", "").unwrap();
        assert_eq!(value(&root, "persist.x").as_deref(), Some(""));
        std::fs::remove_file(root.path(SETTER)).unwrap();
        assert_eq!(set(&root, "persist.x", "one").unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_property_is_found_by_its_whole_name() {
        let mut area = vec![0; 128];
        area.extend(property("sys.boot_completed.x", "0"));
        area.extend(property("sys.boot_completed", "1"));
        area.extend(property("ro.debuggable", ""));
        assert_eq!(find(&area, "sys.boot_completed").as_deref(), Some("1"));
        assert_eq!(find(&area, "ro.debuggable").as_deref(), Some(""));
        assert_eq!(find(&area, "boot_completed"), None);
        for length in 0..area.len() {
            let _ = find(&area[..length], "sys.boot_completed");
        }
    }

    // Verifies BOOT-1.
    #[test]
    fn a_property_is_found_in_any_file_or_in_the_only_one() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        assert!(!exist(&root));
        let properties = folder.path().join("dev/__properties__");
        std::fs::create_dir_all(properties.parent().unwrap()).unwrap();
        std::fs::write(&properties, area(&[("ro.x", ""), ("sys.boot_completed", "1")])).unwrap();
        assert_eq!(value(&root, "sys.boot_completed").as_deref(), Some("1"));
        std::fs::remove_file(&properties).unwrap();
        std::fs::create_dir(&properties).unwrap();
        std::fs::write(properties.join("property_info"), "x").unwrap();
        assert_eq!(value(&root, "sys.boot_completed"), None);
        let file = properties.join("u:object_r:boot_status_prop:s0");
        std::fs::write(file, area(&[("sys.boot_completed", "1")])).unwrap();
        assert_eq!(value(&root, "sys.boot_completed").as_deref(), Some("1"));
    }
}
