use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray as _;
use arrow_array::types::{Float64Type, Int64Type};
use proptest::prelude::*;

use super::*;
use crate::export::seal;

const NOW_S: i64 = 1_795_700_000;

/// A row of a device as the data set must have it: device and number.
type Key = (i64, i64);

/// An export of the rows `from` to `to` of `device`. What a row says follows from its number.
fn export(device: u64, from: u64, to: u64, model: &str) -> Vec<u8> {
    let mut text = format!(
        r#"{{"brisk_telemetry":1,"device":"{device:016x}","model":"{model}","build":"b","kernel":"6.1.0","architecture":"x86_64","memory_kib":2048,"cpus":2,"governor":"ondemand","brisk":"0.1.0","exported_at_s":{}}}
"#,
        NOW_S + to as i64
    );
    for row in from..=to {
        let at_s = NOW_S - 800_000 + row as i64 * 40_000;
        let common = format!(r#""row":{row},"at_s":{at_s},"boot":"00000000000000bb""#);
        text += &match row % 5 {
            0 => format!(r#"{{{common},"kind":"start","brisk":"0.1.0","build":"b","kernel":"6.1.0"}}"#),
            4 => format!(
                r#"{{{common},"kind":"kill","application":"00000000000000cc","name":null,"freed_kib":7,"oom_score_adj":900,"headroom_kib":9}}"#
            ),
            1 => format!(r#"{{{common},"kind":"switch","mechanism":"launch","active":true,"reason":""}}"#),
            _ => format!(r#"{{{common},"kind":"boot","length_ms":9,"kernel_ms":null,"performance_held":true}}"#),
        };
        text.push('\n');
    }
    seal(&mut text, to + 1 - from);
    text.into_bytes()
}

fn source(bytes: &[u8]) -> Source {
    Source { name: "export".to_owned(), bytes: Ok(bytes.to_vec()) }
}

fn import(folder: &Path, files: &[Vec<u8>]) -> Summary {
    let mut importer = Importer::open(folder, NOW_S, Durability::Unsynced).unwrap();
    importer.add(&files.iter().map(|bytes| source(bytes)).collect::<Vec<_>>()).unwrap();
    importer.commit().unwrap()
}

/// Every file below `folder` with its content, but for the lock.
fn tree(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    files(&[folder.to_owned()]).unwrap().into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// The rows of all tables; panics where one is there twice.
fn rows(folder: &Path) -> BTreeSet<Key> {
    let mut found = BTreeSet::new();
    for table in Table::ALL {
        let folder = folder.join(table.name());
        let paths = if folder.exists() { files(&[folder]).unwrap() } else { Vec::new() };
        for batch in paths.iter().flat_map(|path| parquet_file::read(path).unwrap()) {
            let [device, row] = [0, 1].map(|column| batch.column(column).as_primitive::<Int64Type>());
            for at in 0..batch.num_rows() {
                assert!(found.insert((device.value(at), row.value(at))), "a row is there twice");
            }
        }
    }
    found
}

/// The rows that are in a table: those that only say what runs are not.
fn keys(device: i64, rows: impl IntoIterator<Item = i64>) -> BTreeSet<Key> {
    rows.into_iter().filter(|row| row % 5 > 0).map(|row| (device, row)).collect()
}

// Verifies FLEET-3.
#[test]
fn the_same_file_again_changes_no_byte() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = folder.path().join("fleet");
    let half = export(2, 0, 3, "m")[..600].to_vec();
    let files = [export(1, 0, 9, "m"), half];
    let first = import(&dataset, &files);
    assert_eq!((first.imported, first.rows, first.set_aside["half file"]), (1, 8, 1));
    let before = tree(&dataset);
    let again = import(&dataset, &files);
    assert_eq!((again.known, again.imported, again.rows, again.set_aside["half file"]), (1, 0, 0, 1));
    assert_eq!(tree(&dataset), before);
}

// Verifies FLEET-3.
#[test]
fn a_later_export_adds_only_its_new_rows() {
    let folder = tempfile::tempdir().unwrap();
    import(folder.path(), &[export(1, 3, 6, "m")]);
    let later = import(folder.path(), &[export(1, 5, 9, "m"), export(1, 0, 4, "m")]);
    assert_eq!((later.rows, later.known_rows), (5, 3));
    assert_eq!(rows(folder.path()), keys(1, 0..10));
    let manifest = crate::dataset::manifest(folder.path()).unwrap();
    assert_eq!((manifest.rows, manifest.devices, manifest.generation), (8, 1, 2));
}

// Verifies FLEET-3.
#[test]
fn a_device_that_changes_its_model_is_set_aside() {
    let folder = tempfile::tempdir().unwrap();
    let summary = import(folder.path(), &[export(1, 0, 2, "m"), export(1, 3, 5, "other"), export(2, 0, 0, "other")]);
    assert_eq!(summary.set_aside, BTreeMap::from([("contradicting device", 1)]));
    assert!(summary.faults[0].reason.contains("its model was m, and is other now"), "{:?}", summary.faults);
    let expected: BTreeSet<Key> = keys(1, 0..3).union(&keys(2, 0..1)).copied().collect();
    assert_eq!(rows(folder.path()), expected);
    let reasons = fs::read_dir(folder.path().join("set-aside")).unwrap();
    assert_eq!(reasons.count(), 2, "the file and its reason");
    let doubted = || crate::dataset::manifest(folder.path()).unwrap().doubted;
    assert_eq!(doubted(), [1], "which of its models is right is not known");
    // An import that finds nothing but another doubt keeps that; what is known already changes nothing.
    import(folder.path(), &[export(2, 1, 4, "m")]);
    assert_eq!(doubted(), [1, 2]);
    let before = tree(folder.path());
    import(folder.path(), &[export(2, 1, 4, "m"), export(1, 3, 5, "other")]);
    assert_eq!(tree(folder.path()), before);
}

#[test]
fn a_file_whose_time_has_come_leaves_the_folder_of_refused_ones() {
    let folder = tempfile::tempdir().unwrap();
    let file = export(1, 0, 2, "m");
    let mut early = Importer::open(folder.path(), NOW_S - 200_000, Durability::Unsynced).unwrap();
    early.add(&[source(&file)]).unwrap();
    assert_eq!(early.commit().unwrap().set_aside["clock off"], 1);
    drop(early);
    let set_aside = || fs::read_dir(folder.path().join("set-aside")).unwrap().count();
    assert_eq!(import(folder.path(), &[file]).imported, 1);
    assert_eq!(set_aside(), 0);
    let add = |bytes: Result<Vec<u8>, Fault>| {
        let mut importer = Importer::open(folder.path(), NOW_S, Durability::Unsynced).unwrap();
        importer.add(&[Source { name: "export".to_owned(), bytes }]).unwrap();
        importer.commit().unwrap()
    };
    assert_eq!(add(Err(Fault::Unreadable("input/output error".to_owned()))).set_aside["unreadable"], 1);
    assert_eq!(set_aside(), 1, "a reason only");
    assert_eq!(add(Ok(export(1, 3, 4, "m"))).imported, 1);
    assert_eq!(set_aside(), 0);
}

// Verifies FLEET-4.
#[test]
fn a_refused_copy_is_kept_until_its_rows_are_in() {
    let folder = tempfile::tempdir().unwrap();
    let file = export(1, 0, 2, "m");
    let importer = |now_s| {
        let mut importer = Importer::open(folder.path(), now_s, Durability::Unsynced).unwrap();
        importer.add(&[source(&file)]).unwrap();
        importer
    };
    importer(NOW_S - 200_000).commit().unwrap();
    let copies = tree(&folder.path().join("set-aside"));
    assert_eq!(copies.len(), 2, "the file and its reason");
    drop(importer(NOW_S));
    assert_eq!(tree(&folder.path().join("set-aside")), copies);
    importer(NOW_S).commit().unwrap();
    // As an import that dies between its commit and the removal leaves it.
    copies.iter().for_each(|(path, bytes)| fs::write(path, bytes).unwrap());
    assert_eq!(importer(NOW_S).commit().unwrap().known, 1);
    assert_eq!(fs::read_dir(folder.path().join("set-aside")).unwrap().count(), 0);
}

#[test]
fn one_import_at_a_time_writes_and_no_other_folder_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let open = || Importer::open(folder.path(), NOW_S, Durability::Unsynced).map(drop);
    let first = Importer::open(folder.path(), NOW_S, Durability::Unsynced).unwrap();
    assert!(matches!(open(), Err(DatasetError::Locked(_))));
    drop(first);
    open().unwrap();
    let other = tempfile::tempdir().unwrap();
    fs::write(other.path().join("letter.txt"), "x").unwrap();
    let refused = Importer::open(other.path(), NOW_S, Durability::Unsynced).map(drop);
    assert!(matches!(refused, Err(DatasetError::Foreign(_))));
    assert_eq!(tree(other.path()).len(), 1);
}

#[test]
fn each_file_is_read_once_and_a_pipe_does_not_block() {
    let folder = tempfile::tempdir().unwrap();
    let exports = folder.path().join("exports");
    fs::create_dir_all(exports.join("more")).unwrap();
    for device in 0..20 {
        fs::write(exports.join(format!("more/{device}")), export(device, 0, 4, "m")).unwrap();
    }
    let pipe = exports.join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    std::os::unix::fs::symlink("more", exports.join("link")).unwrap();
    let paths = files(&[exports, folder.path().join("exports/more/7")]).unwrap();
    assert!(paths.len() == 21 && paths.contains(&pipe), "each file once: {paths:?}");
    let mut importer = Importer::open(&folder.path().join("fleet"), NOW_S, Durability::Unsynced).unwrap();
    let mut batches = 0;
    add_files(&mut importer, &paths, |_| batches += 1).unwrap();
    let summary = importer.commit().unwrap();
    assert_eq!((summary.files, summary.imported, summary.rows, batches), (21, 20, 80, 1));
    assert_eq!(summary.faults[0].reason, "cannot be read: is no regular file");
}

/// Copies the folder as an import that dies at this moment leaves it.
fn copy(from: &Path, to: &Path) {
    for (path, bytes) in tree(from) {
        let path = to.join(path.strip_prefix(from).unwrap());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

// Verifies FLEET-4.
#[test]
fn an_import_that_dies_before_its_commit_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    import(folder.path(), &[export(1, 0, 4, "m")]);
    let mut importer = Importer::open(folder.path(), NOW_S, Durability::Unsynced).unwrap();
    importer.add(&[source(&export(1, 5, 9, "m"))]).unwrap();
    importer.write_partitions().unwrap();
    let dead = tempfile::tempdir().unwrap();
    copy(folder.path(), dead.path());
    drop(importer);
    // It may have come as far as its manifest.
    for half in ["state/devices-2.parquet", "state/files-2.parquet", "manifest.new"] {
        fs::write(dead.path().join(half), "half").unwrap();
    }
    assert_eq!(rows(dead.path()), keys(1, 0..5));
    assert_eq!(import(dead.path(), &[export(1, 5, 9, "m")]).rows, 4);
    assert_eq!(rows(dead.path()), keys(1, 0..10));
    assert!(!dead.path().join(".staging").exists());
}

// Verifies FLEET-4.
#[test]
fn an_import_that_dies_within_its_commit_is_completed_by_the_next() {
    let whole = tempfile::tempdir().unwrap();
    import(whole.path(), &[export(1, 0, 9, "m")]);
    let tables: Vec<String> = files(&[whole.path().to_owned()])
        .unwrap()
        .iter()
        .map(|path| path.strip_prefix(whole.path()).unwrap().to_str().unwrap().to_owned())
        .filter(|path| path.contains("date="))
        .collect();
    assert!(tables.len() > 4, "{tables:?}");
    for moved in 0..=tables.len() {
        let dead = tempfile::tempdir().unwrap();
        copy(whole.path(), dead.path());
        for path in &tables[moved..] {
            let staged = dead.path().join(".staging").join(Path::new(path).file_name().unwrap());
            fs::create_dir_all(staged.parent().unwrap()).unwrap();
            fs::rename(dead.path().join(path), staged).unwrap();
        }
        let manifest =
            crate::dataset::Manifest { pending: tables.clone(), ..crate::dataset::manifest(dead.path()).unwrap() };
        fs::write(dead.path().join("manifest.json"), serde_json::to_string(&manifest).unwrap()).unwrap();
        assert!(matches!(crate::dataset::manifest(dead.path()), Err(DatasetError::Interrupted(_))));
        assert_eq!(import(dead.path(), &[export(1, 5, 9, "m")]).known_rows, 4);
        assert_eq!(rows(dead.path()), keys(1, 0..10), "{moved} moved");
        assert_eq!(crate::dataset::manifest(dead.path()).unwrap().pending, [] as [&str; 0]);
    }
}

/// An explanation of a trace with one part of `ms`.
fn explanation(ms: u64) -> Vec<u8> {
    let ns = ms * 1_000_000;
    format!(
        r#"{{"schema":1,"launches":[],"windows":[{{"thread":"a","from_ns":0,"to_ns":{ns},"parts":[{{"cause":"storage","subject":null,"on_behalf":null,"ns":{ns},"times":1}}]}}]}}"#
    )
    .into_bytes()
}

// Verifies FLEET-3.
#[test]
fn a_file_beside_exports_is_imported_once_for_the_device_that_is_given() {
    let folder = tempfile::tempdir().unwrap();
    let add = |device: Option<u64>, model: &str, files: &[Vec<u8>]| {
        let mut importer = Importer::open(folder.path(), NOW_S, Durability::Unsynced).unwrap();
        let (model, build) = (model.to_owned(), "b2".to_owned());
        importer.set_given(Given { device, model, build, day: Some(20_700) });
        importer.add(&files.iter().map(|bytes| source(bytes)).collect::<Vec<_>>()).unwrap();
        importer.commit().unwrap()
    };
    let part = [explanation(4)];
    assert_eq!(add(None, "", &part).set_aside["no device"], 1);
    assert_eq!(add(Some(1), "", &part).set_aside["no device"], 1, "of a device that is not known");
    assert_eq!(add(None, "", &[export(1, 0, 4, "m")]).rows, 4);
    let taken = add(Some(1), "", &[explanation(4), explanation(4), explanation(5)]);
    assert_eq!((taken.imported, taken.known, taken.rows), (2, 1, 2));
    assert_eq!(fs::read_dir(folder.path().join("set-aside")).unwrap().count(), 0, "its device is known now");
    let before = tree(folder.path());
    assert_eq!(add(Some(1), "", &part).known, 1);
    assert_eq!(tree(folder.path()), before);
    assert_eq!(add(Some(1), "other", &[explanation(6)]).set_aside["contradicting device"], 1);
    let proof = include_bytes!("../../../../tests/fixtures/proof.json");
    assert_eq!(add(Some(1), "", &[proof.to_vec()]).set_aside["contradicting device"], 1, "it has more memory");
    assert_eq!(add(Some(2), "other", &[proof.to_vec(), explanation(7)]).rows, 15);
    let lengths = |model: &str| -> Vec<f64> {
        let place = folder.path().join(format!("parts/date=2026-09-04/build=b2/model={model}"));
        let batches = files(&[place]).unwrap().into_iter().flat_map(|path| parquet_file::read(&path).unwrap());
        let column = |batch: &RecordBatch| {
            batch.column_by_name("length_ms").unwrap().as_primitive::<Float64Type>().values().to_vec()
        };
        batches.flat_map(|batch| column(&batch)).collect()
    };
    assert_eq!((lengths("m"), lengths("other")), (vec![4.0, 5.0], vec![7.0]));
    // Its numbers are not the device's: a later export brings all of its rows.
    let later = add(None, "", &[export(1, 0, 9, "m")]);
    assert_eq!((later.rows, later.known_rows), (4, 4));
}

/// What is done to a good export before it is imported.
#[derive(Debug, Clone)]
enum Damage {
    None,
    Cut(prop::sample::Index),
    Flip(prop::sample::Index, u8),
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        3 => Just(Damage::None),
        1 => any::<prop::sample::Index>().prop_map(Damage::Cut),
        1 => (any::<prop::sample::Index>(), 1u8..).prop_map(|(at, bits)| Damage::Flip(at, bits)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    // Verifies FLEET-3.
    #[test]
    fn the_rows_are_those_of_good_exports_once(
        exports in prop::collection::vec((0u64..3, 0u64..10, 0u64..8, damage(), 0usize..3), 1..10),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut batches = vec![Vec::new(); 3];
        let mut expected = BTreeSet::new();
        for (device, from, more, damage, batch) in exports {
            let mut bytes = export(device, from, from + more, "m");
            match damage {
                Damage::None => expected.extend(keys(device as i64, from as i64..=(from + more) as i64)),
                Damage::Cut(at) => bytes.truncate(at.index(bytes.len())),
                Damage::Flip(at, bits) => { let at = at.index(bytes.len()); bytes[at] ^= bits; }
            }
            batches[batch].push(bytes);
        }
        // Copies in other orders change nothing.
        let again: Vec<Vec<u8>> = batches.iter().flatten().rev().cloned().collect();
        batches.push(again);
        let mut total = 0;
        for batch in &batches {
            let summary = import(folder.path(), batch);
            prop_assert_eq!(summary.files, batch.len() as u64);
            prop_assert_eq!(summary.files, summary.imported + summary.known + summary.set_aside.values().sum::<u64>());
            total += summary.rows;
        }
        prop_assert_eq!(total, expected.len() as u64);
        prop_assert_eq!(rows(folder.path()), expected);
    }
}
