//! The export of a store: header, rows, trailer (docs/telemetry.md).

use serde_json::json;

use brisk_sys::Root;

use crate::device::Header;
use crate::error::TelemetryError;
use crate::folder;
use crate::line::CHECKSUM;
use crate::read::Segments;
use crate::salt::{self, Salt};

/// An export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// The text.
    pub text: String,
    /// The number of its rows.
    pub rows: u64,
    /// Bytes of the store that belong to no row.
    pub damaged_bytes: u64,
}

/// Exports the store of the device below `root` at the time `at_s`. What it exports is on the disk then.
///
/// # Errors
/// [`TelemetryError`] when there is no store, or it cannot be read.
pub fn export(root: &Root, at_s: u64) -> Result<Export, TelemetryError> {
    let folder = folder(root);
    let before = Salt::read(&folder);
    let segments = Segments::open(&folder, true)?;
    let salt = salt_of(&folder)?;
    if before.as_ref() != Some(&salt) {
        // The rows may be of another store than the salt.
        let deleted = std::io::Error::other("it was deleted and begun again meanwhile; try again");
        return Err(TelemetryError::file("read", &folder)(deleted));
    }
    let mut text = line(&Header::read(root, &salt, at_s));
    let mut rows = 0;
    let read = segments.read(|_, row| {
        text.push_str(row);
        text.push('\n');
        rows += 1;
    })?;
    let trailer = json!({ "rows": rows, "crc32": CHECKSUM.checksum(text.as_bytes()) });
    text.push_str(&line(&trailer));
    Ok(Export { text, rows, damaged_bytes: read.damaged_bytes })
}

/// The salt of the store in `folder`.
pub(crate) fn salt_of(folder: &std::path::Path) -> Result<Salt, TelemetryError> {
    let path = folder.join(salt::FILE);
    let missing = || std::io::Error::new(std::io::ErrorKind::InvalidData, "it is missing, damaged or not readable");
    Salt::read(folder).ok_or_else(|| TelemetryError::file("read", &path)(missing()))
}

fn line(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default() + "\n"
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;

    use super::*;
    use crate::row::Record;
    use crate::store::{Store, StoreOptions};
    use brisk_sys::test_trees::root_of;
    use serde_json::Value;

    const DEVICE: [(&str, &str); 6] = [
        ("proc/sys/kernel/random/boot_id", "one\n"),
        ("proc/sys/kernel/osrelease", "6.1.0-56\n"),
        ("proc/meminfo", "MemTotal: 2048 kB\nMemFree: 1 kB\nMemAvailable: 1 kB\n"),
        ("sys/devices/system/cpu/online", "0-3\n"),
        ("sys/class/dmi/id/product_name", "Laptop 5\n"),
        ("etc/os-release", "ID=debian\nVERSION_ID=\"12\"\n"),
    ];

    // Verifies FLEET-1, FLEET-2.
    #[test]
    fn an_export_has_a_header_its_rows_and_a_checksum() {
        let (_folder, root) = root_of(&DEVICE);
        assert!(matches!(export(&root, 7), Err(TelemetryError::NoStore(_))));
        // As the daemon makes it, before it has stored a row.
        fs::create_dir_all(folder(&root)).unwrap();
        fs::write(folder(&root).join("rows"), "").unwrap();
        assert!(matches!(export(&root, 7), Err(TelemetryError::NoStore(_))));
        let mut store = Store::open(&root, StoreOptions { size_bytes: 65_536, names: Vec::new() }, 5).unwrap();
        let switch = || Record::Switch { mechanism: "lookup".to_owned(), active: true, reason: "" };
        store.append(6, switch()).unwrap();
        let first = export(&root, 7).unwrap();
        let lines: Vec<Value> = first.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(first.text.ends_with('\n') && first.rows == 2 && lines.len() == 4);
        let device = lines[0]["device"].as_str().unwrap();
        let header = json!({"brisk_telemetry": 1, "device": device, "model": "Laptop 5", "build": "debian-12",
            "kernel": "6.1.0-56", "architecture": std::env::consts::ARCH, "memory_kib": 2048, "cpus": 4, "governor": "",
            "brisk": env!("CARGO_PKG_VERSION"), "exported_at_s": 7});
        assert!(lines[0] == header && device.len() == 16, "{}", lines[0]);
        assert_eq!((&lines[1]["kind"], &lines[2]["kind"]), (&json!("start"), &json!("switch")));
        let (before, _) = first.text.trim_end().rsplit_once('\n').unwrap();
        let crc32 = CHECKSUM.checksum(format!("{before}\n").as_bytes());
        assert_eq!(lines[3], json!({"rows": 2, "crc32": crc32}));
        // The same rows again, and what was added since.
        store.append(8, switch()).unwrap();
        let second = export(&root, 7).unwrap();
        assert!(second.text.starts_with(&format!("{before}\n")) && second.rows == 3);
        let cut = fs::read_to_string(folder(&root).join("rows")).unwrap();
        fs::write(folder(&root).join("rows"), &cut[..cut.len() - 3]).unwrap();
        let third = export(&root, 7).unwrap();
        assert!(third.rows == 2 && third.damaged_bytes > 0 && third.text == first.text);
        fs::remove_file(folder(&root).join("salt")).unwrap();
        assert!(export(&root, 7).unwrap_err().to_string().contains("/salt"));
    }

    // Verifies FLEET-1, FLEET-2.
    #[test]
    fn an_export_never_mixes_a_deleted_store_with_the_next_one() {
        let (_folder, root) = root_of(&DEVICE);
        let mut store = Store::open(&root, StoreOptions { size_bytes: 65_536, names: Vec::new() }, 5).unwrap();
        let other = root.clone();
        let deleting = std::thread::spawn(move || {
            for _ in 0..100 {
                let _ = crate::forget(&other);
                let switch = Record::Switch { mechanism: "lookup".to_owned(), active: true, reason: "" };
                let _ = store.append(6, switch);
            }
        });
        let mut boots: BTreeMap<String, Value> = BTreeMap::new();
        while !deleting.is_finished() {
            let Ok(export) = export(&root, 7) else { continue };
            let lines: Vec<Value> = export.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            for row in &lines[1..lines.len() - 1] {
                let boot = boots.entry(lines[0]["device"].to_string()).or_insert_with(|| row["boot"].clone());
                assert_eq!(*boot, row["boot"], "both are hashes under one salt");
            }
        }
    }
}
