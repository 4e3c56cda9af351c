//! Random appends, crashes at any byte, and rotations.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::*;

const SIZE_BYTES: u64 = 4096;

fn row(number: u64, filling: usize) -> String {
    format!("{{\"row\":{number},\"x\":\"{}\"}}", "x".repeat(filling))
}

fn opened(folder: &Path, size_bytes: u64) -> (Ring, Vec<(u64, String)>, Found) {
    let mut rows = Vec::new();
    let (ring, found) = Ring::open(folder, size_bytes, |number, row| rows.push((number, row.to_owned()))).unwrap();
    (ring, rows, found)
}

fn append(ring: &mut Ring, filling: usize) -> (u64, String) {
    if ring.is_full_for(&row(ring.next_row(), filling)) {
        ring.rotate().unwrap();
    }
    let (number, row) = (ring.next_row(), row(ring.next_row(), filling));
    ring.append(&row).unwrap();
    (number, row)
}

fn file_bytes(folder: &Path) -> u64 {
    let length = |file: fs::DirEntry| file.metadata().unwrap().len();
    fs::read_dir(folder).unwrap().map(|file| length(file.unwrap())).sum()
}

/// What happens between two times that the ring is open.
#[derive(Debug, Clone)]
enum Crash {
    /// The daemon is killed: the files are as it left them.
    Kill,
    /// The power is cut: of the bytes that were not synced these many stay, followed by so many zeros.
    PowerCut { stay: usize, zeros: usize },
    /// One byte of the file is damaged.
    Flip(usize),
}

fn crash() -> impl Strategy<Value = Crash> {
    prop_oneof![
        Just(Crash::Kill),
        (0..5_000usize, prop_oneof![Just(0usize), 1..600usize])
            .prop_map(|(stay, zeros)| Crash::PowerCut { stay, zeros }),
        (0..5_000usize).prop_map(Crash::Flip),
    ]
}

/// Damages `file`, of which `synced` bytes are safe.
fn damage(file: &Path, synced: u64, crash: &Crash) {
    let mut bytes = fs::read(file).unwrap();
    match crash {
        Crash::Kill => {}
        Crash::PowerCut { stay, zeros } => {
            let unsynced = bytes.len() - synced as usize;
            bytes.truncate(synced as usize + stay % (unsynced + 1));
            bytes.resize(bytes.len() + zeros, 0);
        }
        Crash::Flip(at) if !bytes.is_empty() => {
            let at = at % bytes.len();
            bytes[at] ^= 0x20;
        }
        Crash::Flip(_) => {}
    }
    fs::write(file, bytes).unwrap();
}

proptest! {
    /// Rows that were read are as they were written, in order; no number is used for two rows that a reader could pass on; the
    /// files stay bounded. A reader exports at random moments, and syncs what it reads.
    // Verifies FLEET-1, FLEET-2.
    #[test]
    fn no_crash_makes_a_row_number_mean_two_rows(
        lives in proptest::collection::vec(
            (proptest::collection::vec((0..200usize, any::<bool>()), 0..40), crash()), 1..8)
    ) {
        let folder = tempfile::tempdir().unwrap();
        let current = folder.path().join(CURRENT);
        // What a reader has passed on: it must stay the only meaning of its number.
        let mut exported: BTreeMap<u64, String> = BTreeMap::new();
        for (appends, crash) in lives {
            let (mut ring, rows, _) = opened(folder.path(), SIZE_BYTES);
            prop_assert!(rows.windows(2).all(|pair| pair[0].0 < pair[1].0));
            for (number, row) in &rows {
                prop_assert!(exported.get(number).is_none_or(|known| known == row), "{number}");
            }
            prop_assert!(exported.keys().next_back().is_none_or(|last| *last < ring.next_row()));
            let mut synced = current.metadata().unwrap().len();
            let mut last = rows.last().map_or(0, |(number, _)| *number);
            for (filling, is_exported) in appends {
                let length = ring.length;
                let (number, row) = append(&mut ring, filling);
                prop_assert!(number > last);
                last = number;
                if ring.length < length {
                    synced = 0;
                }
                prop_assert!(file_bytes(folder.path()) <= SIZE_BYTES);
                if is_exported {
                    synced = ring.length;
                    prop_assert!(exported.insert(number, row).is_none());
                }
            }
            drop(ring);
            damage(&current, synced, &crash);
        }
    }
}

#[test]
fn rows_survive_and_the_oldest_are_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let (mut ring, rows, found) = opened(folder.path(), SIZE_BYTES);
    assert_eq!((rows.len(), found), (0, Found { is_empty: true, damaged_bytes: 0 }));
    let written: Vec<_> = (0..200).map(|_| append(&mut ring, 80)).collect();
    assert_eq!(ring.bytes(), file_bytes(folder.path()));
    drop(ring);
    let (ring, rows, found) = opened(folder.path(), SIZE_BYTES);
    assert_eq!(found, Found::default());
    assert_eq!(rows, written[written.len() - rows.len()..]);
    assert!((15..60).contains(&rows.len()), "{}", rows.len());
    assert_eq!(ring.next_row(), 201);
    drop(ring);
    // A smaller size deletes what does not fit, and no number is used again.
    let (mut ring, _, _) = opened(folder.path(), 1024);
    assert!(file_bytes(folder.path()) <= 1024, "{}", file_bytes(folder.path()));
    assert_eq!(append(&mut ring, 5).0, 201);
}

#[test]
fn a_row_that_was_cut_off_is_dropped_and_its_number_is_not_used_again() {
    let folder = tempfile::tempdir().unwrap();
    let (mut ring, _, _) = opened(folder.path(), SIZE_BYTES);
    (0..3).for_each(|_| drop(append(&mut ring, 20)));
    drop(ring);
    let current = folder.path().join(CURRENT);
    let whole = fs::read(&current).unwrap();
    fs::write(&current, &whole[..whole.len() - 5]).unwrap();
    // Opened twice before anything is written: the damage stays known.
    for _ in 0..2 {
        let (ring, rows, found) = opened(folder.path(), SIZE_BYTES);
        assert_eq!(rows.len(), 2);
        assert!(found.damaged_bytes > 0 && !found.is_empty);
        assert!(ring.next_row() > 3, "{}", ring.next_row());
    }
    let (mut ring, _, _) = opened(folder.path(), SIZE_BYTES);
    let (number, _) = append(&mut ring, 20);
    drop(ring);
    let (_, rows, _) = opened(folder.path(), SIZE_BYTES);
    assert_eq!(rows.iter().map(|row| row.0).collect::<Vec<_>>(), [1, 2, number]);
}

#[test]
fn an_interrupted_rotation_is_continued() {
    let folder = tempfile::tempdir().unwrap();
    let (mut ring, _, _) = opened(folder.path(), SIZE_BYTES);
    (0..3).for_each(|_| drop(append(&mut ring, 20)));
    drop(ring);
    // Killed between the two renames.
    fs::rename(folder.path().join(CURRENT), folder.path().join(OLD)).unwrap();
    fs::write(folder.path().join("rows.new"), "").unwrap();
    let (mut ring, rows, _) = opened(folder.path(), SIZE_BYTES);
    assert_eq!((rows.len(), ring.next_row()), (3, 4));
    ring.rotate().unwrap();
    assert!(!ring.is_deleted());
    fs::remove_file(folder.path().join(CURRENT)).unwrap();
    assert!(ring.is_deleted());
}

// Verifies FLEET-2.
#[test]
fn what_is_not_a_regular_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (victim, store) = (folder.path().join("victim"), folder.path().join("store"));
    fs::write(&victim, "kept").unwrap();
    fs::create_dir(&store).unwrap();
    std::os::unix::fs::symlink(&victim, store.join(CURRENT)).unwrap();
    assert!(Ring::open(&store, SIZE_BYTES, |_, _| {}).is_err());
    assert_eq!(fs::read_to_string(&victim).unwrap(), "kept");
    fs::remove_file(store.join(CURRENT)).unwrap();
    fs::create_dir(store.join(CURRENT)).unwrap();
    assert!(Ring::open(&store, SIZE_BYTES, |_, _| {}).is_err());
}

#[test]
fn a_full_disk_loses_the_row_and_nothing_else() {
    // /dev/full answers every write with ENOSPC, and cannot be truncated.
    let folder = tempfile::tempdir().unwrap();
    let (mut ring, _, _) = opened(folder.path(), SIZE_BYTES);
    append(&mut ring, 20);
    let Ok(full) = OpenOptions::new().append(true).open("/dev/full") else { return };
    let disk = std::mem::replace(&mut ring.current, full);
    assert!(ring.append(&row(2, 20)).is_err());
    ring.current = disk;
    let length = fs::metadata(folder.path().join(CURRENT)).unwrap().len();
    ring.length = length;
    let (number, _) = append(&mut ring, 20);
    assert_eq!(number, 3, "the number of a row that could not be written is not used again");
    let (_, rows, _) = opened(folder.path(), SIZE_BYTES);
    assert_eq!(rows.iter().map(|row| row.0).collect::<Vec<_>>(), [1, 3]);
}
