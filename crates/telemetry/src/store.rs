//! The store as the daemon writes it.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use brisk_mechanism::{Glob, Observation};
use brisk_sys::{Root, kernel};

use crate::device::SystemFacts;
use crate::folder;
use crate::ring::Ring;
use crate::row::{Fields, Record};
use crate::salt::{self, Salt};

/// What a row of kind `boot` contains, to find it among stored ones.
const BOOT_KIND: &str = "\"kind\":\"boot\"";

/// What is stored, and how much of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreOptions {
    /// The most that the rows take.
    pub size_bytes: u64,
    /// The applications whose names are stored.
    pub names: Vec<Glob>,
}

/// A store that rows are appended to.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    options: StoreOptions,
    system: SystemFacts,
    boot_id: String,
    ring: Ring,
    salt: Salt,
    boot: String,
    damaged_bytes: u64,
    /// It has the row of kind `boot` of this boot.
    has_boot: bool,
}

impl Store {
    /// Opens the store of the device below `root`, or begins one: then, and where the salt of stored rows is lost, with a new
    /// salt. Appends a row of kind `start`, with the time `at_s`.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn open(root: &Root, options: StoreOptions, at_s: u64) -> io::Result<Self> {
        let boot_id = kernel::boot_id(root).unwrap_or_default();
        Self::begin(folder(root), options, SystemFacts::read(root), boot_id, at_s)
    }

    fn begin(
        folder: PathBuf,
        options: StoreOptions,
        system: SystemFacts,
        boot_id: String,
        at_s: u64,
    ) -> io::Result<Self> {
        let known = Salt::read(&folder);
        let boot = |salt: &Salt| if boot_id.is_empty() { String::new() } else { salt.hash("boot", &boot_id) };
        let this_boot = known.as_ref().map(|salt| format!("\"boot\":\"{}\",{BOOT_KIND}", boot(salt)));
        let mut has_boot = false;
        let (mut ring, mut found) = Ring::open(&folder, options.size_bytes, |_, row| {
            has_boot |= this_boot.as_ref().is_some_and(|boot| row.contains(boot.as_str()));
        })?;
        let salt = match known.filter(|_| !found.is_empty) {
            Some(salt) => salt,
            None => {
                if !found.is_empty {
                    // Their hashes belong to another salt.
                    crate::delete(&folder)?;
                    (ring, found) = Ring::open(&folder, options.size_bytes, |_, _| {})?;
                }
                has_boot = false;
                Salt::make(&folder)?
            }
        };
        let damaged_bytes = found.damaged_bytes;
        let boot = boot(&salt);
        let mut store = Self { folder, options, system, boot_id, ring, salt, boot, damaged_bytes, has_boot };
        store.append_fields(at_s, &Fields::start(&store.system))?;
        Ok(store)
    }

    /// Appends a row, with the time `at_s`; a boot once. If the store was deleted meanwhile, it begins a new one.
    ///
    /// # Errors
    /// Those of the file system; the row is lost then.
    pub fn append(&mut self, at_s: u64, record: Record) -> io::Result<()> {
        if self.is_deleted() {
            // Hashes of a deleted salt must not be continued, nor numbers of deleted rows be used again.
            crate::delete(&self.folder)?;
            let (folder, options) = (self.folder.clone(), self.options.clone());
            *self = Self::begin(folder, options, self.system.clone(), self.boot_id.clone(), at_s)?;
        }
        let is_boot = matches!(record, Record::Observation(Observation::Boot { .. }));
        if self.has_boot && is_boot {
            return Ok(());
        }
        let fields = Fields::of(record, &self.salt, &self.options.names);
        self.append_fields(at_s, &fields)?;
        self.has_boot |= is_boot;
        Ok(())
    }

    /// True when it was deleted since it was opened, even in part: `forget` may have been killed, or have deleted the salt while
    /// the daemon replaced the files.
    fn is_deleted(&self) -> bool {
        let salt = self.folder.join(salt::FILE).symlink_metadata();
        self.ring.is_deleted() || salt.is_err_and(|error| error.kind() == ErrorKind::NotFound)
    }

    fn append_fields(&mut self, at_s: u64, fields: &Fields) -> io::Result<()> {
        let mut row = fields.to_json(self.ring.next_row(), at_s, &self.boot);
        if self.ring.is_full_for(&row) {
            self.ring.rotate()?;
            // Each file tells which system its first rows are of.
            let start = Fields::start(&self.system);
            if *fields != start {
                self.ring.append(&start.to_json(self.ring.next_row(), at_s, &self.boot))?;
            }
            row = fields.to_json(self.ring.next_row(), at_s, &self.boot);
        }
        self.ring.append(&row)
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What its rows take on disk.
    pub fn bytes(&self) -> u64 {
        self.ring.bytes()
    }

    /// The number of the last row.
    pub fn last_row(&self) -> u64 {
        self.ring.next_row() - 1
    }

    /// Bytes that belonged to no row when it was opened: of a row that a power cut has cut off, for instance.
    pub fn damaged_bytes(&self) -> u64 {
        self.damaged_bytes
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use brisk_sys::test_trees::root_of;
    use serde_json::Value;

    use crate::read::Segments;
    use crate::ring::{CURRENT, OLD};

    const BOOT: [(&str, &str); 2] =
        [("proc/sys/kernel/random/boot_id", "one\n"), ("proc/sys/kernel/osrelease", "6.1.0\n")];

    fn options(size_bytes: u64) -> StoreOptions {
        StoreOptions { size_bytes, names: Vec::new() }
    }

    fn rows(root: &Root) -> Vec<Value> {
        let mut rows = Vec::new();
        let segments = Segments::open(&folder(root), false).unwrap();
        segments.read(|_, row| rows.push(serde_json::from_str(row).unwrap())).unwrap();
        rows
    }

    fn switch(reason: &'static str) -> Record {
        Record::Switch { mechanism: "launch".to_owned(), active: false, reason }
    }

    fn boot() -> Record {
        Record::Observation(Observation::Boot { length_ms: 7, kernel_ms: None, performance_held: None })
    }

    // Verifies FLEET-2.
    #[test]
    fn rows_continue_over_restarts_and_reboots() {
        let (_folder, root) = root_of(&BOOT);
        let mut store = Store::open(&root, options(65_536), 100).unwrap();
        assert!(!store.has_boot);
        store.append(101, boot()).unwrap();
        store.append(50, switch("off")).unwrap();
        drop(store);
        assert!(Store::open(&root, options(65_536), 102).unwrap().has_boot);
        fs::write(root.path("/proc/sys/kernel/random/boot_id"), "two\n").unwrap();
        let store = Store::open(&root, options(65_536), 103).unwrap();
        assert!(!store.has_boot && store.last_row() == 5 && store.damaged_bytes() == 0);
        let rows = rows(&root);
        let columns = |key: &str| rows.iter().map(|row| row[key].clone()).collect::<Vec<_>>();
        assert_eq!(columns("row"), [1, 2, 3, 4, 5]);
        assert_eq!(columns("at_s"), [100, 101, 50, 102, 103], "the clock may jump");
        assert_eq!(columns("kind"), ["start", "boot", "switch", "start", "start"]);
        assert_eq!((&rows[0]["boot"], rows[0]["boot"] == rows[4]["boot"]), (&rows[3]["boot"], false));
        assert!(!rows[0]["boot"].as_str().unwrap().contains("one"));
        assert_eq!(rows[0]["kernel"], "6.1.0");
    }

    #[test]
    fn each_file_begins_with_the_system() {
        let (_folder, root) = root_of(&BOOT);
        let mut store = Store::open(&root, options(4_096), 100).unwrap();
        for _ in 0..100 {
            store.append(101, switch("off")).unwrap();
        }
        assert!(store.bytes() <= 4_096);
        for name in [CURRENT, OLD] {
            let text = fs::read_to_string(folder(&root).join(name)).unwrap();
            assert!(text.lines().next().unwrap().contains("\"kind\":\"start\""), "{name}: {text}");
        }
    }

    // Verifies FLEET-1.
    #[test]
    fn a_deleted_store_begins_again_as_another_device() {
        let (_folder, root) = root_of(&BOOT);
        let mut store = Store::open(&root, options(65_536), 100).unwrap();
        store.append(101, switch("off")).unwrap();
        let salt = store.salt.clone();
        crate::forget(&root).unwrap();
        assert!(!root.exists(root.state_file("telemetry")));
        store.append(102, switch("unsupported")).unwrap();
        assert_ne!(store.salt, salt);
        assert_eq!(rows(&root).iter().map(|row| row["row"].clone()).collect::<Vec<_>>(), [1, 2]);
        // The rows without their salt are worth nothing.
        fs::remove_file(folder(&root).join("salt")).unwrap();
        drop(store);
        let store = Store::open(&root, options(65_536), 103).unwrap();
        assert_eq!((store.last_row(), rows(&root).len()), (1, 1));
    }

    // Verifies FLEET-1, FLEET-2.
    #[test]
    fn a_store_that_was_deleted_in_part_begins_again_as_another_device() {
        for name in [salt::FILE, CURRENT] {
            let (_folder, root) = root_of(&BOOT);
            let mut store = Store::open(&root, options(4_096), 100).unwrap();
            (0..60).for_each(|_| store.append(101, switch("off")).unwrap());
            assert!(folder(&root).join(OLD).exists());
            let before = store.salt.clone();
            fs::remove_file(folder(&root).join(name)).unwrap();
            store.append(102, switch("off")).unwrap();
            assert!(store.salt != before && Salt::read(&folder(&root)).as_ref() == Some(&store.salt), "{name}");
            assert_eq!(rows(&root).iter().map(|row| row["row"].clone()).collect::<Vec<_>>(), [1, 2], "{name}");
        }
    }

    /// `forget` runs in another process, at any moment of an append.
    // Verifies FLEET-1, FLEET-2.
    #[test]
    fn a_store_is_whole_whenever_it_was_deleted() {
        let (_folder, root) = root_of(&BOOT);
        let mut store = Store::open(&root, options(4_096), 100).unwrap();
        let other = root.clone();
        let forgetting = std::thread::spawn(move || (0..50).for_each(|_| drop(crate::forget(&other))));
        while !forgetting.is_finished() {
            // It fails where the folder has just gone.
            let _ = store.append(101, switch("off"));
        }
        store.append(102, switch("off")).unwrap();
        assert_eq!(Salt::read(&folder(&root)).as_ref(), Some(&store.salt));
        let numbers: Vec<u64> = rows(&root).iter().map(|row| row["row"].as_u64().unwrap()).collect();
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
        assert_eq!(numbers.last(), Some(&store.last_row()));
    }
}
