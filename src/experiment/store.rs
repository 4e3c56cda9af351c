//! Partial results on disk: one line after every replicate, so that an interrupted run can be continued.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::plan::Line;

/// What a run is a run of: it can be continued by a run of the same only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The version of brisk.
    pub brisk: String,
    /// The experiment's whole file.
    pub experiment: String,
    /// True for the quick form.
    pub quick: bool,
    /// The seed of the schedule.
    pub seed: u64,
    /// When it was begun, in RFC 3339.
    pub started: String,
}

/// A run's folder could not be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file or folder refused.
    #[error("cannot {operation} {}: {source}", path.display())]
    Io {
        /// What was being done.
        operation: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The folder holds a run of something else.
    #[error("{} cannot be continued: {reason}. Start anew without --resume", path.display())]
    Other {
        /// The run's folder.
        path: PathBuf,
        /// What differs.
        reason: String,
    },
}

/// A run's folder, open for more lines.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    file: File,
}

impl Store {
    /// Begins a run in `folder`; what another run left there is gone.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn create(folder: &Path, header: &Header) -> Result<Self, StoreError> {
        fs::create_dir_all(folder).map_err(fault("make", folder))?;
        let path = folder.join("replicates.jsonl");
        let file = File::create(&path).map_err(fault("write", &path))?;
        let header_path = folder.join("run.json");
        let text =
            serde_json::to_string_pretty(header).map_err(io::Error::from).map_err(fault("write", &header_path))?;
        fs::write(&header_path, text + "\n").map_err(fault("write", &header_path))?;
        Ok(Self { path, file })
    }

    /// Continues the run in `folder`: what it is and what it has. `None` when there is none.
    ///
    /// # Errors
    /// [`StoreError::Io`], and [`StoreError::Other`] when `wanted` differs from it in more than seed and time.
    pub fn resume(folder: &Path, wanted: &Header) -> Result<Option<(Self, Header, Vec<Line>)>, StoreError> {
        let header_path = folder.join("run.json");
        let text = match fs::read_to_string(&header_path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(fault("read", &header_path))?,
        };
        let other = |reason: &str| StoreError::Other { path: folder.to_owned(), reason: reason.to_owned() };
        let found: Header =
            serde_json::from_slice(text.as_bytes()).map_err(|error| other(&format!("run.json: {error}")))?;
        if found.brisk != wanted.brisk {
            return Err(other(&format!("it was begun by brisk {}", found.brisk)));
        }
        if (&found.experiment, found.quick) != (&wanted.experiment, wanted.quick) {
            return Err(other("the experiment's file or form has changed"));
        }
        let path = folder.join("replicates.jsonl");
        let text = fs::read_to_string(&path).map_err(fault("read", &path))?;
        let (lines, whole_bytes) = parse(&text);
        let mut file = OpenOptions::new().append(true).open(&path).map_err(fault("open", &path))?;
        file.set_len(whole_bytes as u64).and_then(|()| file.flush()).map_err(fault("write", &path))?;
        Ok(Some((Self { path, file }, found, lines)))
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
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        let synced = |path: &Path| File::open(path).and_then(|file| file.sync_all()).map_err(fault("write", path));
        [&folder.join("run.json"), &self.path, folder].iter().try_for_each(|path| synced(path))
    }
}

/// The whole lines of `text` up to the first that is none, and their length: a run may have been killed in a write.
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

fn fault(operation: &'static str, path: &Path) -> impl Fn(io::Error) -> StoreError {
    let path = path.to_owned();
    move |source| StoreError::Io { operation, path: path.clone(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(quick: bool, seed: u64) -> Header {
        Header { brisk: "1".into(), experiment: "text".into(), quick, seed, started: String::new() }
    }

    fn note(text: &str) -> Line {
        Line::Note { note: text.into() }
    }

    #[test]
    fn a_run_is_continued_after_a_torn_line() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Store::resume(folder.path(), &header(true, 1)).unwrap().is_none());
        let mut store = Store::create(folder.path(), &header(true, 7)).unwrap();
        store.add(&note("one")).unwrap();
        store.add(&note("two")).unwrap();
        store.file.write_all(b"{\"note\":\"thr").unwrap();
        drop(store);

        let (mut store, found, lines) = Store::resume(folder.path(), &header(true, 1)).unwrap().unwrap();
        assert_eq!((found.seed, lines), (7, vec![note("one"), note("two")]));
        store.add(&note("three")).unwrap();
        let (_, _, lines) = Store::resume(folder.path(), &header(true, 1)).unwrap().unwrap();
        assert_eq!(lines, [note("one"), note("two"), note("three")]);
    }

    #[test]
    fn another_run_is_not_continued() {
        let folder = tempfile::tempdir().unwrap();
        Store::create(folder.path(), &header(true, 7)).unwrap();
        let error = Store::resume(folder.path(), &header(false, 7)).unwrap_err().to_string();
        assert!(error.contains("file or form has changed") && error.contains("without --resume"), "{error}");
        let newer = Header { brisk: "2".into(), ..header(true, 7) };
        assert!(Store::resume(folder.path(), &newer).unwrap_err().to_string().contains("begun by brisk 1"));
        fs::write(folder.path().join("run.json"), "garbage").unwrap();
        assert!(matches!(Store::resume(folder.path(), &header(true, 7)), Err(StoreError::Other { .. })));
    }
}
