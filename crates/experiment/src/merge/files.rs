//! The folders of shards are found and read; the joined run is written.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use super::record::Record;
use super::{Device, Joined};
use brisk_sys::durable_file;

const HEADER: &str = "run.json";
const LINES: &str = "replicates.jsonl";
/// A part of the names of folders to which an earlier run was moved; they are no part of a result.
const ASIDE: &str = ".aside-";

/// A folder in which `brisk prove` keeps the complete runs of one device.
const SAMPLES: &str = "samples";

/// The shards of `folders`, each once: a folder is a run, or has runs, or has folders of shards that have runs. Where there is no
/// shard, the whole runs of devices: below the folder of a device's results, or below a folder that has such folders.
///
/// # Errors
/// When a folder cannot be read, or has no shard.
pub fn records(folders: &[PathBuf]) -> anyhow::Result<Vec<Record>> {
    let mut found = BTreeSet::new();
    for folder in folders {
        let whole = folder.canonicalize().with_context(|| format!("cannot read {}", folder.display()))?;
        search(&whole, &mut found)?;
        ensure!(
            found.iter().any(|run| run.starts_with(&whole)),
            "{} has no results of `brisk prove --shard` or `brisk prove --here`",
            folder.display()
        );
    }
    found.into_iter().map(read).collect()
}

fn search(folder: &Path, found: &mut BTreeSet<PathBuf>) -> anyhow::Result<()> {
    if is_run(folder) {
        found.insert(folder.to_owned());
        return Ok(());
    }
    for child in folders_in(folder)? {
        let is_shard = child.file_name().is_some_and(|name| name.to_string_lossy().starts_with("shard-"));
        if is_run(&child) {
            found.insert(child);
        } else if is_shard {
            found.extend(runs_in(&child)?);
        }
    }
    if !found.iter().any(|run| run.starts_with(folder)) {
        for results in [vec![folder.to_owned()], folders_in(folder)?].concat() {
            let samples = results.join(SAMPLES);
            if samples.is_dir() {
                found.extend(runs_in(&samples)?);
            }
        }
    }
    Ok(())
}

fn runs_in(folder: &Path) -> anyhow::Result<impl Iterator<Item = PathBuf>> {
    Ok(folders_in(folder)?.into_iter().filter(|child| is_run(child)))
}

/// The name of the device whose whole run is in `folder`: that of the folder of its results.
pub fn device_name(folder: &Path) -> String {
    let is_sample = folder.parent().is_some_and(|parent| parent.ends_with(SAMPLES));
    let results = folder.ancestors().nth(if is_sample { 2 } else { 0 });
    let name = results.and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|| folder.display().to_string())
}

/// Whether `folder` holds a run. One that has lost one of its two files is found as well, and is damaged then.
fn is_run(folder: &Path) -> bool {
    [HEADER, LINES].iter().any(|name| folder.join(name).is_file())
}

fn folders_in(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut folders = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry.with_context(|| format!("cannot read {}", folder.display()))?.path();
        let is_aside = path.file_name().is_some_and(|name| name.to_string_lossy().contains(ASIDE));
        folders.extend((path.is_dir() && !is_aside).then_some(path));
    }
    Ok(folders)
}

fn read(folder: PathBuf) -> anyhow::Result<Record> {
    let file = |name: &str| {
        let path = folder.join(name);
        match fs::read(&path) {
            // Without its text, a header is damaged, and a run has no measurements.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            other => other.with_context(|| format!("cannot read {}", path.display())),
        }
    };
    let (header, lines) = (file(HEADER)?, file(LINES)?);
    Ok(Record { folder, header, lines })
}

impl Joined {
    /// Writes the joined run below `folder`, each device's in the form of a run of one machine: where [`records`] finds it.
    ///
    /// # Errors
    /// When the folder or a file cannot be written.
    pub fn write(&self, folder: &Path, name: &str) -> anyhow::Result<()> {
        for device in &self.devices {
            let is_alone = self.devices.len() == 1;
            let results = if is_alone { folder.to_owned() } else { folder.join(device.name.replace('/', "-")) };
            device.write(&results.join(SAMPLES).join(name))?;
        }
        Ok(())
    }
}

impl Device {
    fn write(&self, folder: &Path) -> anyhow::Result<()> {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let mut lines = String::new();
        for line in &self.lines {
            lines += &(serde_json::to_string(line)? + "\n");
        }
        for (name, text) in [(HEADER, serde_json::to_string_pretty(&self.header)? + "\n"), (LINES, lines)] {
            let path = folder.join(name);
            durable_file::write(&path, &text, 0o644).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }
}
