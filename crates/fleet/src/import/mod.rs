//! Brings exports, and files beside them, into a data set: they are read and checked on all CPUs, and each new row of a good one goes
//! to its partition.

mod partitions;
mod reading;
pub mod set_aside;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use twox_hash::XxHash3_128;

use crate::dataset::{Dataset, Durability};
use crate::device::Device;
use crate::document::{self, Given};
use crate::export::Export;
use crate::fault::{DatasetError, Fault};
use crate::parallel::on_all_cpus;
use crate::parquet_file;
use crate::state::ContentHash;
use crate::table::{Rows, Table};
use partitions::Partitions;
pub use reading::{add_files, files};
use set_aside::SetAside;

/// Rows that are kept in memory at most, 100 to 200 bytes each; then all partitions are written.
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
    given: Given,
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
    /// A file beside exports.
    Document(ContentHash, Export<'a>),
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
            given: Given::default(),
            set_aside,
            partitions: Partitions::default(),
            staged: Vec::new(),
            imported: Vec::new(),
            outdated: Vec::new(),
            summary: Summary::default(),
        })
    }

    /// Says what files beside exports do not say.
    pub fn set_given(&mut self, given: Given) {
        self.given = given;
    }

    /// Takes files: the first export of a device says what it is, so their order matters where they contradict each other.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn add(&mut self, sources: &[Source]) -> Result<(), DatasetError> {
        let checked = on_all_cpus(sources, |source| self.check(source));
        let (mut accepted, mut documents) = (Vec::with_capacity(sources.len()), Vec::new());
        for (source, checked) in sources.iter().zip(checked) {
            self.summary.files += 1;
            match checked {
                // The same bytes twice in one import.
                Checked::Good(hash, _) | Checked::Document(hash, _) if self.dataset.files.contains(&hash) => {
                    self.summary.known += 1;
                }
                Checked::Known(hash) => {
                    self.outdated.extend(self.set_aside.outdated(hash, &source.name));
                    self.summary.known += 1;
                }
                Checked::Good(hash, export) => accepted.extend(self.accept(source, hash, export)?),
                Checked::Document(hash, export) => documents.extend(self.accept_document(source, hash, export)?),
                Checked::Bad(fault) => self.refuse(source, &fault)?,
            }
        }
        self.partitions.add(&accepted);
        self.partitions.add_documents(&documents);
        if self.partitions.size_rows() >= ROWS_IN_MEMORY {
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
        if !imported.is_empty() || self.dataset.has_new_doubts() {
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
            Err(Fault::Foreign) => match document::parse(bytes, hash as u64, &self.given, self.now_s) {
                Ok(document) => Checked::Document(hash, document),
                Err(fault) => Checked::Bad(fault),
            },
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

    /// Leaves those rows in `export` that the data set does not have; nothing where it contradicts its device. Which of both is right is
    /// not known then, so the device is doubted as a whole.
    fn accept<'a>(
        &mut self,
        source: &Source,
        hash: ContentHash,
        mut export: Export<'a>,
    ) -> Result<Option<Export<'a>>, DatasetError> {
        let device = self.dataset.devices.entry(export.header.device).or_insert_with(|| Device::of(&export.header));
        if let Err(fault) = device.check(&export.header) {
            self.dataset.doubted.insert(export.header.device.cast_signed());
            self.refuse(source, &fault)?;
            return Ok(None);
        }
        let all = export.rows.len();
        export.rows.retain(|row| !device.rows.has(row.row));
        export.undated.retain(|(row, _)| !device.rows.has(*row));
        export.ranges.iter().for_each(|range| device.rows.add(*range));
        if !export.undated.is_empty() {
            let lines: Vec<&str> = export.undated.iter().map(|(_, line)| *line).collect();
            self.set_aside.rows(hash, &source.name, &lines)?;
        }
        self.summary.known_rows += (all - export.rows.len()) as u64;
        self.summary.undated_rows += export.undated.len() as u64;
        self.count(source, hash, &export);
        Ok(Some(export))
    }

    /// Completes a file beside exports by what the data set knows of its device; nothing where it contradicts that.
    fn accept_document<'a>(
        &mut self,
        source: &Source,
        hash: ContentHash,
        mut document: Export<'a>,
    ) -> Result<Option<Export<'a>>, DatasetError> {
        let header = &mut document.header;
        let fault = match self.dataset.devices.get(&header.device) {
            Some(device) => device.complete(header).err(),
            None => Some(Fault::NoDevice).filter(|_| header.model.is_empty()),
        };
        if let Some(fault) = fault {
            self.refuse(source, &fault)?;
            return Ok(None);
        }
        self.count(source, hash, &document);
        Ok(Some(document))
    }

    /// Remembers an accepted file.
    fn count(&mut self, source: &Source, hash: ContentHash, export: &Export<'_>) {
        self.summary.imported += 1;
        self.summary.rows += export.rows.len() as u64;
        self.outdated.extend(self.set_aside.outdated(hash, &source.name));
        self.dataset.files.insert(hash);
        self.imported.push(hash);
    }

    /// Writes the rows in memory to a new file for each partition.
    fn write_partitions(&mut self) -> Result<(), DatasetError> {
        let generation = self.dataset.manifest.generation + 1;
        let first = self.staged.len();
        let parts: Vec<(String, Table, Mutex<Rows>)> = std::mem::take(&mut self.partitions)
            .into_parts()
            .into_iter()
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

#[cfg(test)]
mod tests;
