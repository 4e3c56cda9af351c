//! Brings exports into a data set: files are read and checked on all CPUs, and each new row of a good one goes to its partition.

pub mod set_aside;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use twox_hash::XxHash3_128;

use crate::dataset::{Dataset, Durability};
use crate::device::Device;
use crate::export::{Export, Row};
use crate::fault::{DatasetError, Fault};
use crate::parallel::on_all_cpus;
use crate::parquet_file;
use crate::partition;
use crate::state::ContentHash;
use crate::table::{Rows, Table};
use set_aside::SetAside;

/// Rows that are kept in memory at most, about 100 bytes each; then all partitions are written.
const ROWS_IN_MEMORY: usize = 8_000_000;

/// A file that is to be imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Its name, for messages.
    pub name: String,
    /// Its content, or why there is none.
    pub bytes: Result<Vec<u8>, Fault>,
}

/// What an import did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Files that were read.
    pub files: u64,
    /// Of them, those that were imported now.
    pub imported: u64,
    /// Those that had been imported before, byte for byte.
    pub known: u64,
    /// New rows.
    pub rows: u64,
    /// Rows of good files that another export of the same device had brought.
    pub known_rows: u64,
    /// Rows from before the device's clock was set.
    pub undated_rows: u64,
    /// Refused files by kind.
    pub set_aside: BTreeMap<&'static str, u64>,
    /// Refused files with their reasons.
    pub faults: Vec<Refused>,
}

/// A file of which nothing was used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// Its name.
    pub file: String,
    /// The kind of its fault.
    pub kind: &'static str,
    /// What is wrong with it.
    pub reason: String,
}

/// An import that is under way. Nothing of it is part of the data set before [`Importer::commit`].
pub struct Importer {
    dataset: Dataset,
    now_s: i64,
    set_aside: SetAside,
    partitions: Partitions,
    staged: Vec<String>,
    imported: Vec<ContentHash>,
    /// What is set aside of files that are good now.
    outdated: Vec<ContentHash>,
    summary: Summary,
}

/// What a thread found in a file.
enum Checked<'a> {
    Known(ContentHash),
    Good(ContentHash, Export<'a>),
    Bad(Fault),
}

impl Importer {
    /// Begins an import into the data set `folder` at the time `now_s`, in seconds after 1970.
    ///
    /// # Errors
    /// When the data set cannot be opened.
    pub fn open(folder: &Path, now_s: i64, durability: Durability) -> Result<Self, DatasetError> {
        let dataset = Dataset::open(folder, durability)?;
        let set_aside = SetAside::open(dataset.folder())?;
        Ok(Self {
            dataset,
            now_s,
            set_aside,
            partitions: Partitions::default(),
            staged: Vec::new(),
            imported: Vec::new(),
            outdated: Vec::new(),
            summary: Summary::default(),
        })
    }

    /// Takes files: the first export of a device says what it is, so their order matters where they contradict each other.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn add(&mut self, sources: &[Source]) -> Result<(), DatasetError> {
        let checked = on_all_cpus(sources, |source| self.check(source));
        for (source, checked) in sources.iter().zip(checked) {
            self.summary.files += 1;
            match checked {
                // The same bytes twice in one import.
                Checked::Good(hash, _) if self.dataset.files.contains(&hash) => self.summary.known += 1,
                Checked::Known(hash) => {
                    self.outdated.extend(self.set_aside.outdated(hash, &source.name));
                    self.summary.known += 1;
                }
                Checked::Good(hash, export) => self.merge(source, hash, &export)?,
                Checked::Bad(fault) => self.refuse(source, &fault)?,
            }
        }
        if self.partitions.rows >= ROWS_IN_MEMORY {
            self.write_partitions()?;
        }
        Ok(())
    }

    /// Makes what was added part of the data set. Without anything new, no file changes.
    ///
    /// # Errors
    /// Those of the file system; the data set is as before then.
    pub fn commit(&mut self) -> Result<Summary, DatasetError> {
        self.write_partitions()?;
        let (staged, imported) = (std::mem::take(&mut self.staged), std::mem::take(&mut self.imported));
        let summary = std::mem::take(&mut self.summary);
        if !imported.is_empty() {
            self.dataset.commit(staged, summary.rows, &imported)?;
        }
        // Not before: until the rows are in, the copy may be all that is left of them.
        for hash in std::mem::take(&mut self.outdated) {
            self.set_aside.forget(hash)?;
        }
        Ok(summary)
    }

    /// What was done since the last commit.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// The data set as it is with the last commit.
    pub fn dataset(&self) -> &Dataset {
        &self.dataset
    }

    fn check<'a>(&self, source: &'a Source) -> Checked<'a> {
        let bytes = match &source.bytes {
            Ok(bytes) => bytes,
            Err(fault) => return Checked::Bad(fault.clone()),
        };
        let hash = XxHash3_128::oneshot(bytes);
        if self.dataset.files.contains(&hash) {
            return Checked::Known(hash);
        }
        match Export::parse(bytes, self.now_s) {
            Ok(export) => Checked::Good(hash, export),
            Err(fault) => Checked::Bad(fault),
        }
    }

    fn refuse(&mut self, source: &Source, fault: &Fault) -> Result<(), DatasetError> {
        let (kind, reason) = (fault.kind(), fault.to_string());
        *self.summary.set_aside.entry(kind).or_default() += 1;
        self.set_aside.file(source.bytes.as_deref().ok(), &source.name, fault)?;
        self.summary.faults.push(Refused { file: source.name.clone(), kind, reason });
        Ok(())
    }

    fn merge(&mut self, source: &Source, hash: ContentHash, export: &Export<'_>) -> Result<(), DatasetError> {
        let device = self.dataset.devices.entry(export.header.device).or_insert_with(|| Device::of(&export.header));
        if let Err(fault) = device.check(&export.header) {
            return self.refuse(source, &fault);
        }
        let undated = export.undated.iter().filter(|(row, _)| !device.rows.has(*row)).map(|(_, line)| *line);
        let undated: Vec<&str> = undated.collect();
        if !undated.is_empty() {
            self.set_aside.rows(hash, &source.name, &undated)?;
        }
        let model = partition::name(&export.header.model);
        let builds = export.systems.iter().map(|system| partition::name(&system.build));
        let groups: Vec<usize> = builds.map(|build| self.partitions.group(build, &model)).collect();
        let mut rows = 0;
        for row in export.rows.iter().filter(|row| !device.rows.has(row.row)) {
            self.partitions.push(groups[row.system], export, row);
            rows += 1;
        }
        export.ranges.iter().for_each(|range| device.rows.add(*range));
        self.summary.imported += 1;
        self.summary.rows += rows;
        self.summary.known_rows += export.rows.len() as u64 - rows;
        self.summary.undated_rows += undated.len() as u64;
        self.outdated.extend(self.set_aside.outdated(hash, &source.name));
        self.dataset.files.insert(hash);
        self.imported.push(hash);
        Ok(())
    }

    /// Writes the rows in memory to a new file for each partition.
    fn write_partitions(&mut self) -> Result<(), DatasetError> {
        let generation = self.dataset.manifest.generation + 1;
        let first = self.staged.len();
        let parts: Vec<(String, Table, Mutex<Rows>)> = std::mem::take(&mut self.partitions)
            .into_parts()
            .enumerate()
            .map(|(index, (folder, table, rows))| {
                (format!("{folder}/part-{generation:06}-{:06}.parquet", first + index), table, Mutex::new(rows))
            })
            .collect();
        let written = on_all_cpus(&parts, |(path, table, rows)| {
            let rows = rows.lock().unwrap_or_else(PoisonError::into_inner).take();
            parquet_file::write_rows(&self.dataset.staged(path), *table, &rows)
        });
        written.into_iter().collect::<Result<(), _>>()?;
        self.staged.extend(parts.into_iter().map(|(path, ..)| path));
        Ok(())
    }
}

/// Rows in memory, by partition.
#[derive(Default)]
struct Partitions {
    /// The place in `groups` by build and model.
    places: HashMap<(String, String), usize>,
    /// The rows of a build on a model by table and day.
    groups: Vec<HashMap<(Table, i64), Rows>>,
    rows: usize,
}

impl Partitions {
    fn group(&mut self, build: String, model: &str) -> usize {
        let next = self.groups.len();
        let place = *self.places.entry((build, model.to_owned())).or_insert(next);
        if place == next {
            self.groups.push(HashMap::new());
        }
        place
    }

    fn push(&mut self, group: usize, export: &Export<'_>, row: &Row<'_>) {
        let table = Table::of(&row.fact);
        let rows = self.groups[group].entry((table, partition::day(row.at_s))).or_insert_with(|| Rows::new(table));
        rows.push(export, row);
        self.rows += 1;
    }

    /// Each partition's folder and rows, by folder.
    fn into_parts(mut self) -> impl Iterator<Item = (String, Table, Rows)> {
        let mut parts: Vec<(String, Table, Rows)> = Vec::new();
        for ((build, model), place) in self.places {
            let folder = |table: Table, day| partition::folder(table.name(), day, &build, &model);
            let group = std::mem::take(&mut self.groups[place]);
            parts.extend(group.into_iter().map(|((table, day), rows)| (folder(table, day), table, rows)));
        }
        parts.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        parts.into_iter()
    }
}

/// Files that are read at a time: as many as fit into [`BATCH_BYTES`].
const BATCH_BYTES: u64 = 64 << 20;

/// Imports the files `paths`, with `progress` called after each batch.
///
/// # Errors
/// Those of the file system of the data set; a file that cannot be read is set aside.
pub fn add_files(importer: &mut Importer, paths: &[PathBuf], progress: impl Fn(&Summary)) -> Result<(), DatasetError> {
    let mut rest = paths;
    while !rest.is_empty() {
        let mut bytes = 0;
        let size = |path: &PathBuf| std::fs::metadata(path).map_or(0, |metadata| metadata.len());
        let count = rest.iter().take_while(|path| {
            let fits = bytes < BATCH_BYTES;
            bytes += size(path);
            fits
        });
        let (batch, after) = rest.split_at(count.count().max(1));
        importer.add(&on_all_cpus(batch, |path| read(path)))?;
        progress(importer.summary());
        rest = after;
    }
    Ok(())
}

/// The files that `folders` name and those below them, by path.
///
/// # Errors
/// When a folder cannot be read.
pub fn files(folders: &[PathBuf]) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open: Vec<PathBuf> = folders.to_vec();
    while let Some(path) = open.pop() {
        if std::fs::metadata(&path)?.is_dir() {
            for entry in std::fs::read_dir(&path)? {
                let entry = entry?;
                // A link within a folder may lead out of it, or into a circle.
                if !entry.file_type()?.is_symlink() {
                    open.push(entry.path());
                }
            }
        } else {
            found.push(path);
        }
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// Reads the file `path`.
pub fn read(path: &Path) -> Source {
    let name = path.display().to_string();
    let bytes =
        std::fs::metadata(path).map_err(|error| Fault::Unreadable(error.to_string())).and_then(
            |metadata| match metadata.len() {
                _ if !metadata.is_file() => Err(Fault::Unreadable("is no regular file".to_owned())),
                bytes if bytes > crate::LIMIT_BYTES => Err(Fault::TooLarge { mib: bytes >> 20 }),
                _ => std::fs::read(path).map_err(|error| Fault::Unreadable(error.to_string())),
            },
        );
    Source { name, bytes }
}

#[cfg(test)]
mod tests;
