//! The folders of shards are found and read; the joined run is written.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use super::Joined;
use super::record::Record;
use crate::store::Header;
use brisk_sys::durable_file;

const HEADER: &str = "run.json";
const LINES: &str = "replicates.jsonl";
/// A part of the names of folders to which an earlier run was moved; they are no part of a result.
const ASIDE: &str = ".aside-";

/// The shards of `folders`, each once: a folder is a run, or has runs, or has folders of shards that have runs.
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
            "{} has no results of `brisk prove --shard`",
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
            found.extend(folders_in(&child)?.into_iter().filter(|grandchild| is_run(grandchild)));
        }
    }
    Ok(())
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
    /// Writes the joined run into `folder`, in the form of a run of one machine.
    ///
    /// # Errors
    /// When the folder or a file cannot be written.
    pub fn write(&self, folder: &Path) -> anyhow::Result<()> {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let mut lines = String::new();
        for line in &self.lines {
            lines += &(serde_json::to_string(line)? + "\n");
        }
        let header: &Header = &self.header;
        for (name, text) in [(HEADER, serde_json::to_string_pretty(header)? + "\n"), (LINES, lines)] {
            let path = folder.join(name);
            durable_file::write(&path, &text, 0o644).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }
}
