//! What is kept across runs: `/var/lib/brisk/launch-durations.json`, written whole or not at all.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::device::Root;
use crate::mechanism::launch::LearnedDurations;

/// Real states have 256 entries of about 100 bytes.
const LIMIT_BYTES: u64 = 256 << 10;

/// The file behind the learned durations.
#[derive(Debug)]
pub struct StateFile {
    path: PathBuf,
    saved: LearnedDurations,
    /// Reported once.
    failed: bool,
}

impl StateFile {
    /// Reads what an earlier run learned; what cannot be read is forgotten.
    pub fn read(root: &Root) -> Self {
        let path = root.path("/var/lib/brisk/launch-durations.json");
        let saved = text(&path).map(|text| {
            LearnedDurations::parse(&text).unwrap_or_else(|| {
                tracing::warn!("{} is damaged: durations are learned anew", path.display());
                LearnedDurations::default()
            })
        });
        let saved = saved.unwrap_or_default();
        Self { path, saved, failed: false }
    }

    /// What is in the file.
    pub fn durations(&self) -> &LearnedDurations {
        &self.saved
    }

    /// Writes `durations` when they differ from what is in the file.
    pub fn save(&mut self, durations: &LearnedDurations) {
        if *durations == self.saved {
            return;
        }
        match write(&self.path, &durations.to_text()) {
            Ok(()) => {
                self.saved = durations.clone();
                self.failed = false;
            }
            Err(error) if !self.failed => {
                tracing::warn!("cannot keep learned durations in {}: {error}", self.path.display());
                self.failed = true;
            }
            Err(_) => {}
        }
    }
}

/// What is in the file `path`, if there is one of the size that a state has. What is no text is damaged.
pub(super) fn text(path: &Path) -> Option<String> {
    fs::metadata(path).ok().filter(|file| file.is_file() && file.len() <= LIMIT_BYTES)?;
    Some(String::from_utf8_lossy(&fs::read(path).ok()?).into_owned())
}

/// Writes the file whole or not at all.
pub(super) fn write(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let new = path.with_extension("new");
    fs::write(&new, text)?;
    fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_was_learned_is_there_again() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let mut file = StateFile::read(&root);
        let mut durations = file.durations().clone();
        durations.learn("browser", Duration::from_millis(700), false);
        file.save(&durations);
        assert_eq!(*StateFile::read(&root).durations(), durations);
        fs::write(folder.path().join("var/lib/brisk/launch-durations.json"), "{").unwrap();
        assert_eq!(*StateFile::read(&root).durations(), LearnedDurations::default());
    }
}
