//! A data set's folder. It changes in one step: an import writes its files below `.staging`, then the manifest that names them
//! as pending, and only then moves them to their places. What an interrupted import has not named is removed by the next one,
//! what it has named is moved.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use brisk_sys::durable_file;
use brisk_sys::locked_file::LockedFile;
use serde::{Deserialize, Serialize};

use crate::device::Devices;
use crate::fault::DatasetError;
use crate::parallel::on_all_cpus;
use crate::state::{self, ContentHash, Files};
use crate::table::SCHEMA;

const MANIFEST: &str = "manifest.json";
const STAGING: &str = ".staging";
const LOCK: &str = ".lock";
/// The folder of refused files.
pub const SET_ASIDE: &str = "set-aside";

/// What the folder holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The version of the tables' schemas.
    pub brisk_fleet_schema: u32,
    /// Imports that changed it.
    pub generation: u64,
    /// Rows in all tables.
    pub rows: u64,
    /// Devices with an accepted export.
    pub devices: u64,
    /// Devices that contradict themselves, as their hashes are in the tables: none of their rows is in an answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubted: Vec<i64>,
    /// Files, by their path below the folder, that are still to be moved to their places.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending: Vec<String>,
}

/// Whether a power cut may lose the last import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Each step is on the disk before the next.
    Synced,
    /// For data that can be made again: a sync waits for what other programs write, too.
    Unsynced,
}

/// An open data set, locked against other imports.
#[derive(Debug)]
pub struct Dataset {
    folder: PathBuf,
    durability: Durability,
    _lock: LockedFile,
    /// As it is on the disk.
    pub manifest: Manifest,
    /// What it remembers of devices and files.
    pub devices: Devices,
    /// The hashes of imported files.
    pub files: Files,
    /// The devices of [`Manifest::doubted`], and those of an import that is under way.
    pub doubted: BTreeSet<i64>,
}

/// The manifest of the data set in `folder`, for a reader.
///
/// # Errors
/// When there is none, it has another schema, or an import has not ended: its rows would be there in part.
pub fn manifest(folder: &Path) -> Result<Manifest, DatasetError> {
    let name = folder.display().to_string();
    match read_manifest(folder)? {
        None => Err(DatasetError::Missing(name)),
        Some(manifest) if !manifest.pending.is_empty() => Err(DatasetError::Interrupted(name)),
        Some(manifest) => Ok(manifest),
    }
}

fn read_manifest(folder: &Path) -> Result<Option<Manifest>, DatasetError> {
    #[derive(Deserialize)]
    struct Version {
        brisk_fleet_schema: u32,
    }
    let path = folder.join(MANIFEST);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(DatasetError::io("read", &path)(error)),
    };
    let damaged =
        |error: serde_json::Error| DatasetError::Damaged { path: path.display().to_string(), what: error.to_string() };
    let Version { brisk_fleet_schema: found } = serde_json::from_str(&text).map_err(damaged)?;
    if found != SCHEMA {
        return Err(DatasetError::OtherSchema { folder: folder.display().to_string(), found, own: SCHEMA });
    }
    serde_json::from_str(&text).map(Some).map_err(damaged)
}

impl Dataset {
    /// Opens or creates the data set in `folder`, and completes or removes what an interrupted import left.
    ///
    /// # Errors
    /// When the folder is something else, another import has it open, or the file system refuses.
    pub fn open(folder: &Path, durability: Durability) -> Result<Self, DatasetError> {
        fs::create_dir_all(folder).map_err(DatasetError::io("create", folder))?;
        let found = read_manifest(folder)?;
        if found.is_none() && has_foreign_files(folder).map_err(DatasetError::io("read", folder))? {
            return Err(DatasetError::Foreign(folder.display().to_string()));
        }
        let path = folder.join(LOCK);
        let file = File::options().create(true).truncate(false).write(true).open(&path);
        let lock = file.and_then(LockedFile::try_lock).map_err(DatasetError::io("lock", &path))?;
        let lock = lock.map_err(|_| DatasetError::Locked(folder.display().to_string()))?;
        // Another import may have ended between reading and locking.
        let manifest = read_manifest(folder)?.or(found).unwrap_or(Manifest {
            brisk_fleet_schema: SCHEMA,
            generation: 0,
            rows: 0,
            devices: 0,
            doubted: Vec::new(),
            pending: Vec::new(),
        });
        let (devices, files, doubted) = (Devices::new(), Files::new(), manifest.doubted.iter().copied().collect());
        let mut dataset =
            Self { folder: folder.to_owned(), durability, _lock: lock, manifest, devices, files, doubted };
        dataset.recover()?;
        dataset.recall()?;
        Ok(dataset)
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where an import writes the file that will be `path` below the folder. All lie side by side: no two have the same name, and
    /// folders would cost as much as their files.
    pub fn staged(&self, path: &str) -> PathBuf {
        self.folder.join(STAGING).join(path.rsplit_once('/').map_or(path, |(_, name)| name))
    }

    /// Whether a device has begun to contradict itself since the last commit.
    pub fn has_new_doubts(&self) -> bool {
        // None is ever removed.
        self.doubted.len() > self.manifest.doubted.len()
    }

    /// Makes the staged files `paths` part of the data set, with `rows` new rows and the hashes of `imported` files.
    ///
    /// # Errors
    /// Those of the file system; the data set is then as before, or the next import completes this one.
    pub fn commit(&mut self, paths: Vec<String>, rows: u64, imported: &[ContentHash]) -> Result<(), DatasetError> {
        let generation = self.manifest.generation + 1;
        state::write_devices(&self.state_file("devices", generation), &self.devices)?;
        state::write_files(&self.state_file("files", generation), imported)?;
        self.sync()?;
        let (schema, rows) = (self.manifest.brisk_fleet_schema, self.manifest.rows + rows);
        let (devices, doubted) = (self.devices.len() as u64, self.doubted.iter().copied().collect());
        let pending = Manifest { brisk_fleet_schema: schema, generation, rows, devices, doubted, pending: paths };
        self.write_manifest(pending)?;
        self.recover()
    }

    /// Moves what is pending, and removes what no manifest names.
    fn recover(&mut self) -> Result<(), DatasetError> {
        let pending = std::mem::take(&mut self.manifest.pending);
        let moved = on_all_cpus(&pending, |path| self.move_to_place(path));
        moved.into_iter().collect::<Result<(), _>>()?;
        if !pending.is_empty() {
            self.sync()?;
            self.write_manifest(self.manifest.clone())?;
        }
        remove_folder(&self.folder.join(STAGING))?;
        self.remove_old_state()
    }

    /// Moves a staged file to its place, if it is not there.
    fn move_to_place(&self, path: &str) -> Result<(), DatasetError> {
        let (from, to) = (self.staged(path), self.folder.join(path));
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder).map_err(DatasetError::io("create", folder))?;
        }
        match fs::rename(&from, &to) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && to.exists() => Ok(()),
            moved => moved.map_err(DatasetError::io("move", &from)),
        }
    }

    /// Reads devices and files.
    fn recall(&mut self) -> Result<(), DatasetError> {
        let generation = self.manifest.generation;
        if generation > 0 {
            self.devices = state::read_devices(&self.state_file("devices", generation))?;
        }
        for generation in 1..=generation {
            state::read_files(&self.state_file("files", generation), &mut self.files)?;
        }
        Ok(())
    }

    fn state_file(&self, what: &str, generation: u64) -> PathBuf {
        self.folder.join("state").join(format!("{what}-{generation}.parquet"))
    }

    /// Removes lists of devices of other generations, and lists of files of later ones, which were never committed.
    fn remove_old_state(&self) -> Result<(), DatasetError> {
        let folder = self.folder.join("state");
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries.map_err(DatasetError::io("read", &folder))?,
        };
        for entry in entries {
            let path = entry.map_err(DatasetError::io("read", &folder))?.path();
            let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
            let Some((what, Ok(generation))) = name.split_once('-').map(|(what, number)| (what, number.parse::<u64>()))
            else {
                continue;
            };
            let own = self.manifest.generation;
            if generation > own || (what == "devices" && generation != own) {
                fs::remove_file(&path).map_err(DatasetError::io("remove", &path))?;
            }
        }
        Ok(())
    }

    fn write_manifest(&mut self, manifest: Manifest) -> Result<(), DatasetError> {
        let path = self.folder.join(MANIFEST);
        // Plain data can always be printed.
        let text = serde_json::to_string_pretty(&manifest).unwrap_or_default() + "\n";
        let write = if self.durability == Durability::Synced { durable_file::write } else { durable_file::replace };
        write(&path, &text, 0o644).map_err(DatasetError::io("write", &path))?;
        self.manifest = manifest;
        Ok(())
    }

    /// One sync of the file system: many small files and folders have changed.
    fn sync(&self) -> Result<(), DatasetError> {
        if self.durability == Durability::Unsynced {
            return Ok(());
        }
        let synced = File::open(&self.folder).and_then(|folder| rustix::fs::syncfs(&folder).map_err(Into::into));
        synced.map_err(DatasetError::io("sync", &self.folder))
    }
}

/// True where `folder` has anything that an import which was interrupted before its first manifest does not leave.
fn has_foreign_files(folder: &Path) -> io::Result<bool> {
    let own = [LOCK, STAGING, SET_ASIDE, "state", "manifest.new"];
    for entry in fs::read_dir(folder)? {
        if !own.iter().any(|name| entry.as_ref().is_ok_and(|entry| entry.file_name() == *name)) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn remove_folder(path: &Path) -> Result<(), DatasetError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(DatasetError::io("remove", path)),
    }
}
