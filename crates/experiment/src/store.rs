//! Partial results on disk: one line after every replicate, so that an interrupted run can be continued.
//!
//! Only a run of the same program, experiment, form, seed and devices continues a run. The measurements of any other run are
//! set aside: they are never mixed in and never removed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::plan::Line;
use super::shard::Shard;
use brisk_sys::durable_file;
use brisk_sys::locked_file::LockedFile;

/// What identifies a run: only a matching run continues it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The version of brisk.
    pub brisk: String,
    /// The digest of the programs that measure.
    #[serde(default)]
    pub program: String,
    /// The experiment's whole file.
    pub experiment: String,
    /// True for the quick form.
    pub quick: bool,
    /// The seed of the schedule.
    pub seed: u64,
    /// When the run began, in RFC 3339.
    pub started: String,
    /// The devices that measure, as their place describes them; empty until they are prepared.
    #[serde(default)]
    pub devices: String,
    /// The part of the experiment that is measured; all of it without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
}

/// A run's folder could not be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// An operation on a file or folder failed.
    #[error("cannot {operation} {}: {source}", path.display())]
    Io {
        /// The operation that failed.
        operation: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The folder holds a run of something else.
    #[error("the run in {} cannot be continued: {reason}", path.display())]
    Other {
        /// The run's folder.
        path: PathBuf,
        /// What differs.
        reason: String,
    },
    /// Another process has the folder open.
    #[error("another brisk prove measures into {}; wait for its end, or give another --output", path.display())]
    Busy {
        /// The run's folder.
        path: PathBuf,
    },
}

/// What [`Store::open`] found in its folder.
#[derive(Debug, PartialEq)]
pub enum StoredResults {
    /// No measurement and no note.
    Nothing,
    /// A run that continues: its lines.
    Same(Vec<Line>),
    /// A run that was set aside.
    Other {
        /// Why it cannot be continued.
        reason: String,
        /// Where it is now.
        aside: PathBuf,
    },
}

/// A run's folder, open for more lines.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    path: PathBuf,
    file: File,
    header: Header,
    /// Held while the folder is open. The lock file is beside the folder, which may be renamed.
    _lock: LockedFile,
}

impl Store {
    /// Continues the run in `folder` if it matches `wanted`. Another run's measurements are set aside; with `restart`, those
    /// of this run as well. A `seed` of `None` is that of the continued run, or else [`Header::seed`].
    ///
    /// # Errors
    /// [`StoreError::Io`], and [`StoreError::Busy`].
    pub fn open(
        folder: &Path,
        wanted: &Header,
        seed: Option<u64>,
        restart: bool,
    ) -> Result<(Self, StoredResults), StoreError> {
        let refused = match Self::resume(folder, wanted) {
            Ok(Some((store, _))) if restart => (store.folder, "--restart was given".to_owned()),
            Ok(Some((store, _))) if seed.is_some_and(|seed| seed != store.header.seed) => {
                (store.folder, format!("its seed was {}", store.header.seed))
            }
            Ok(Some((store, lines))) if has_findings(&lines) => return Ok((store, StoredResults::Same(lines))),
            Ok(found) => {
                // This releases its lock.
                drop(found);
                return Ok((Self::create(folder, wanted)?, StoredResults::Nothing));
            }
            Err(StoreError::Other { path, reason }) => (path, reason),
            Err(error) => return Err(error),
        };
        let (folder, reason) = refused;
        let aside = set_aside(&folder)?;
        let store = Self::create(&folder, wanted)?;
        Ok((store, aside.map_or(StoredResults::Nothing, |aside| StoredResults::Other { reason, aside })))
    }

    /// Starts a run in `folder`, overwriting what another run left there.
    ///
    /// # Errors
    /// [`StoreError::Io`], and [`StoreError::Busy`].
    pub fn create(folder: &Path, header: &Header) -> Result<Self, StoreError> {
        fs::create_dir_all(folder).map_err(fault("make", folder))?;
        let lock = lock(folder)?;
        let path = folder.join("replicates.jsonl");
        let file = File::create(&path).map_err(fault("write", &path))?;
        let store = Self { folder: folder.to_owned(), path, file, header: header.clone(), _lock: lock };
        store.write_header()?;
        Ok(store)
    }

    /// Continues the run in `folder` and returns its lines; `None` when there is none.
    ///
    /// # Errors
    /// [`StoreError::Io`], [`StoreError::Busy`], and [`StoreError::Other`] when `wanted` differs from it in more than seed,
    /// time and devices.
    pub fn resume(folder: &Path, wanted: &Header) -> Result<Option<(Self, Vec<Line>)>, StoreError> {
        let header_path = folder.join("run.json");
        if !folder.is_dir() {
            return Ok(None);
        }
        let lock = lock(folder)?;
        let text = match fs::read_to_string(&header_path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(fault("read", &header_path))?,
        };
        let other = |reason: String| StoreError::Other { path: folder.to_owned(), reason };
        let header: Header =
            serde_json::from_slice(text.as_bytes()).map_err(|error| other(format!("run.json: {error}")))?;
        if header.brisk != wanted.brisk || header.program != wanted.program {
            return Err(other(format!("another build of brisk ({}) began it", header.brisk)));
        }
        if (&header.experiment, header.quick) != (&wanted.experiment, wanted.quick) {
            return Err(other("the experiment's or its scenario's file has changed".into()));
        }
        if header.shard != wanted.shard {
            return Err(other("it measured another shard".into()));
        }
        let path = folder.join("replicates.jsonl");
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            other => other.map_err(fault("read", &path))?,
        };
        let (lines, whole_bytes) = parse(&text);
        let mut file = OpenOptions::new().create(true).append(true).open(&path).map_err(fault("open", &path))?;
        file.set_len(whole_bytes as u64).and_then(|()| file.flush()).map_err(fault("write", &path))?;
        Ok(Some((Self { folder: folder.to_owned(), path, file, header, _lock: lock }, lines)))
    }

    /// Sets the devices that the run measures on from now on. Measurements of other devices are set aside and the run starts
    /// again: `Some`.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn set_devices(&mut self, devices: &str) -> Result<Option<StoredResults>, StoreError> {
        if self.header.devices == devices {
            return Ok(None);
        }
        let were = std::mem::replace(&mut self.header.devices, devices.to_owned());
        let measured = fs::metadata(&self.path).map_err(fault("read", &self.path))?.len() > 0;
        let aside = if were.is_empty() || !measured { None } else { set_aside(&self.folder)? };
        if aside.is_some() {
            fs::create_dir_all(&self.folder).map_err(fault("make", &self.folder))?;
            self.file = File::create(&self.path).map_err(fault("write", &self.path))?;
        }
        self.write_header()?;
        let reason = || "the kernel or something else of the device has changed".to_owned();
        Ok(aside.map(|aside| StoredResults::Other { reason: reason(), aside }))
    }

    /// The run's header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Moves the run to the folder `to`, replacing what was there. No later run continues it.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn archive(self, to: &Path) -> Result<(), StoreError> {
        match fs::remove_dir_all(to) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fault("remove", to)(error)),
            _ => {}
        }
        let parent = to.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(parent).map_err(fault("make", parent))?;
        fs::rename(&self.folder, to).map_err(fault("move to its report", &self.folder))?;
        let lock = lock_path(&self.folder);
        fs::remove_file(&lock).map_err(fault("remove", &lock))
    }

    fn write_header(&self) -> Result<(), StoreError> {
        let path = self.folder.join("run.json");
        let text =
            serde_json::to_string_pretty(&self.header).map_err(io::Error::from).map_err(fault("write", &path))?;
        durable_file::write(&path, &(text + "\n"), 0o644).map_err(fault("write", &path))
    }

    /// Adds a line, with one write.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn add(&mut self, line: &Line) -> Result<(), StoreError> {
        let text = serde_json::to_string(line).map_err(io::Error::from).map_err(fault("write", &self.path))?;
        self.file.write_all((text + "\n").as_bytes()).map_err(fault("write", &self.path))
    }

    /// Waits until all that was added survives a power cut.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn sync(&self) -> Result<(), StoreError> {
        let folder = &self.folder;
        let synced = |path: &Path| File::open(path).and_then(|file| file.sync_all()).map_err(fault("write", path));
        [&folder.join("run.json"), &self.path, folder].iter().try_for_each(|path| synced(path))
    }
}

/// The lines of `text` up to the first torn one, and their length in bytes: a run may have been killed in a write.
pub fn parse(text: &str) -> (Vec<Line>, usize) {
    let mut lines = Vec::new();
    let mut whole_bytes = 0;
    for line in text.split_inclusive('\n') {
        let Some(Ok(parsed)) = line.strip_suffix('\n').map(serde_json::from_str) else { break };
        lines.push(parsed);
        whole_bytes += line.len();
    }
    (lines, whole_bytes)
}

/// Whether `lines` hold anything to keep: a refused boot leaves only a note.
fn has_findings(lines: &[Line]) -> bool {
    lines.iter().any(|line| matches!(line, Line::Measured(_) | Line::Note { .. }))
}

fn lock_path(folder: &Path) -> PathBuf {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    folder.with_file_name(format!("{name}.lock"))
}

/// The lock of a run's folder.
fn lock(folder: &Path) -> Result<LockedFile, StoreError> {
    let path = lock_path(folder);
    let file = File::options().create(true).append(true).open(&path).map_err(fault("open", &path))?;
    let locked = LockedFile::try_lock(file).map_err(fault("lock", &path))?;
    locked.map_err(|_| StoreError::Busy { path: folder.to_owned() })
}

/// Renames the run in `folder` if it has findings; returns its new path.
fn set_aside(folder: &Path) -> Result<Option<PathBuf>, StoreError> {
    let lines = fs::read_to_string(folder.join("replicates.jsonl")).unwrap_or_default();
    if !has_findings(&parse(&lines).0) {
        return Ok(None);
    }
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let aside = (1u32..).map(|number| folder.with_file_name(format!("{name}.aside-{number}")));
    let aside = aside.into_iter().find(|aside| !aside.exists()).unwrap_or_default();
    fs::rename(folder, &aside).map_err(fault("set aside", folder))?;
    Ok(Some(aside))
}

fn fault(operation: &'static str, path: &Path) -> impl Fn(io::Error) -> StoreError {
    let path = path.to_owned();
    move |source| StoreError::Io { operation, path: path.clone(), source }
}

#[cfg(test)]
mod tests {

    use super::super::plan::Measured;
    use super::*;

    fn header(quick: bool, seed: u64) -> Header {
        Header { brisk: "1".into(), experiment: "text".into(), quick, seed, ..Header::default() }
    }

    fn note(text: &str) -> Line {
        Line::Note { note: text.into() }
    }

    fn measured(replicate: u32) -> Line {
        Line::Measured(Measured { replicate, arm: "stock".into(), ..Measured::default() })
    }

    // Verifies PROVE-2.
    #[test]
    fn a_run_is_continued_after_a_torn_line() {
        let base = tempfile::tempdir().unwrap();
        let folder = base.path().join("x-quick");
        assert!(Store::resume(&folder, &header(true, 1)).unwrap().is_none());
        let mut store = Store::create(&folder, &header(true, 7)).unwrap();
        store.add(&note("one")).unwrap();
        store.add(&measured(2)).unwrap();
        store.file.write_all(b"{\"note\":\"thr").unwrap();
        drop(store);

        let (mut store, found) = Store::open(&folder, &header(true, 1), None, false).unwrap();
        assert_eq!((store.header().seed, found), (7, StoredResults::Same(vec![note("one"), measured(2)])));
        store.add(&note("three")).unwrap();
        drop(store);
        let (_, lines) = Store::resume(&folder, &header(true, 1)).unwrap().unwrap();
        assert_eq!(lines, [note("one"), measured(2), note("three")]);
    }

    #[test]
    fn a_child_before_its_exec_keeps_no_lock() {
        let base = tempfile::tempdir().unwrap();
        let folder = base.path().join("x-quick");
        let held = lock(&folder).unwrap();
        let of_a_child = held.try_clone().unwrap();
        assert!(matches!(lock(&folder), Err(StoreError::Busy { .. })));
        drop(held);
        assert!(lock(&folder).is_ok(), "{of_a_child:?}");
    }

    /// A series of reboots opens its run in each boot. A refused first boot leaves only a note, which the result must keep.
    #[test]
    fn notes_of_a_run_without_measurements_are_kept() {
        let base = tempfile::tempdir().unwrap();
        let folder = base.path().join("x-quick");
        let mut store = Store::create(&folder, &header(true, 7)).unwrap();
        store.set_devices("6.1.0-50").unwrap();
        store.add(&note("refused")).unwrap();
        drop(store);
        let (mut store, found) = Store::open(&folder, &header(true, 7), None, false).unwrap();
        assert_eq!(found, StoredResults::Same(vec![note("refused")]));
        let Some(StoredResults::Other { aside, .. }) = store.set_devices("6.1.0-51").unwrap() else { panic!("mixed") };
        let kept = fs::read_to_string(aside.join("replicates.jsonl")).unwrap();
        assert_eq!(parse(&kept).0, [note("refused")]);
    }

    /// Each part of a run's identity, changed alone: nothing is mixed, and nothing that was measured is lost.
    // Verifies PROVE-2.
    #[test]
    fn a_different_run_is_set_aside_whole() {
        let same = header(true, 7);
        let cases: [(&str, Header, Option<u64>, bool, &str); 8] = [
            ("version", Header { brisk: "2".into(), ..same.clone() }, None, false, "another build of brisk (1)"),
            ("program", Header { program: "f00".into(), ..same.clone() }, None, false, "another build of brisk (1)"),
            ("experiment", Header { experiment: "new".into(), ..same.clone() }, None, false, "file has changed"),
            ("form", Header { quick: false, ..same.clone() }, None, false, "file has changed"),
            ("shard", Header { shard: "1/2".parse().ok(), ..same.clone() }, None, false, "another shard"),
            ("seed", Header { seed: 9, ..same.clone() }, Some(9), false, "its seed was 7"),
            ("restart", same.clone(), None, true, "--restart was given"),
            ("header", same.clone(), None, false, "run.json: "),
        ];
        for (what, wanted, seed, restart, expected) in cases {
            let base = tempfile::tempdir().unwrap();
            let folder = base.path().join("x-quick");
            let mut store = Store::create(&folder, &same).unwrap();
            store.add(&measured(3)).unwrap();
            drop(store);
            if what == "header" {
                fs::write(folder.join("run.json"), "garbage").unwrap();
            }
            let (store, found) = Store::open(&folder, &wanted, seed, restart).unwrap();
            let StoredResults::Other { reason, aside } = found else { panic!("{what}: {found:?}") };
            assert!(reason.contains(expected), "{what}: {reason}");
            assert_eq!(store.header(), &wanted, "{what}");
            let kept = fs::read_to_string(aside.join("replicates.jsonl")).unwrap();
            assert_eq!(parse(&kept).0, [measured(3)], "{what}");
            assert_eq!(fs::read_to_string(folder.join("replicates.jsonl")).unwrap(), "", "{what}");
        }
    }

    // Verifies PROVE-2.
    #[test]
    fn samples_of_another_kernel_are_set_aside() {
        let base = tempfile::tempdir().unwrap();
        let folder = base.path().join("x-quick");
        let mut store = Store::create(&folder, &header(true, 7)).unwrap();
        assert_eq!(store.set_devices("6.1.0-50").unwrap(), None);
        store.add(&measured(1)).unwrap();
        drop(store);
        let (mut store, _) = Store::open(&folder, &header(true, 7), None, false).unwrap();
        assert_eq!(store.set_devices("6.1.0-50").unwrap(), None, "the same kernel goes on");
        let Some(StoredResults::Other { reason, aside }) = store.set_devices("6.1.0-51").unwrap() else { panic!() };
        assert!(reason.contains("kernel"), "{reason}");
        store.add(&measured(2)).unwrap();
        drop(store);
        let lines = |folder: &Path| parse(&fs::read_to_string(folder.join("replicates.jsonl")).unwrap()).0;
        assert_eq!((lines(&aside), lines(&folder)), (vec![measured(1)], vec![measured(2)]));
        let (store, found) = Store::open(&folder, &header(true, 7), None, false).unwrap();
        assert_eq!((store.header().devices.as_str(), found), ("6.1.0-51", StoredResults::Same(vec![measured(2)])));
    }

    // Verifies PROVE-2.
    #[test]
    fn a_run_that_another_process_measures_is_left_alone() {
        let base = tempfile::tempdir().unwrap();
        let folder = base.path().join("x-quick");
        let mut store = Store::create(&folder, &header(true, 7)).unwrap();
        store.add(&measured(1)).unwrap();
        let refused = Store::open(&folder, &header(true, 7), None, true).unwrap_err().to_string();
        assert!(refused.contains("another brisk prove"), "{refused}");
        drop(store);
        let (_, found) = Store::open(&folder, &header(true, 7), None, false).unwrap();
        assert_eq!(found, StoredResults::Same(vec![measured(1)]));
    }

    // Verifies PROVE-2.
    #[test]
    fn an_archived_run_is_not_continued() {
        let base = tempfile::tempdir().unwrap();
        let (folder, archive) = (base.path().join("x-quick"), base.path().join("report/samples/x-quick"));
        for replicate in [1, 2] {
            let mut store = Store::create(&folder, &header(true, 7)).unwrap();
            store.add(&measured(replicate)).unwrap();
            store.archive(&archive).unwrap();
            let kept = fs::read_to_string(archive.join("replicates.jsonl")).unwrap();
            assert_eq!(parse(&kept).0, [measured(replicate)]);
            assert!(!folder.exists());
        }
    }
}
