//! What the killer learns and keeps across runs in `/var/lib/brisk`, on Android in `/data/misc/brisk`, each file written whole or not
//! at all.

use std::path::PathBuf;

use crate::device::{Root, durable_file};
use crate::mechanism::launch::{LearnedDurations, learned as durations};
use crate::mechanism::memory::wear::{self, Wear};
use crate::mechanism::memory::{LearnedRatios, learned};

/// Real states have 256 entries of about 100 bytes.
const LIMIT_BYTES: u64 = 256 << 10;

/// What a part of brisk learns, and where it is kept.
pub(super) trait State: Clone + Default + PartialEq {
    /// The name of its file.
    const FILE: &'static str;
    /// What happens when the file is damaged.
    const DAMAGED: &'static str;
    /// What cannot be kept when the file cannot be written.
    const NAME: &'static str;
    /// True when it must not be lost with the power.
    const IS_DURABLE: bool = false;

    /// Reads the file's text; `None` when it is damaged.
    fn parse(text: &str) -> Option<Self>;

    /// The text of the file.
    fn to_text(&self) -> String;
}

impl State for LearnedDurations {
    const FILE: &'static str = durations::FILE;
    const DAMAGED: &'static str = "durations are learned anew";
    const NAME: &'static str = "learned durations";

    fn parse(text: &str) -> Option<Self> {
        Self::parse(text)
    }

    fn to_text(&self) -> String {
        self.to_text()
    }
}

impl State for LearnedRatios {
    const FILE: &'static str = learned::FILE;
    const DAMAGED: &'static str = "what swap costs is learned anew";
    const NAME: &'static str = "what was learned";

    fn parse(text: &str) -> Option<Self> {
        Self::parse(text)
    }

    fn to_text(&self) -> String {
        self.to_text()
    }
}

impl State for Wear {
    const FILE: &'static str = wear::FILE;
    const DAMAGED: &'static str = "nothing is written back until it is removed";
    const NAME: &'static str = "what was written back";
    const IS_DURABLE: bool = true;

    fn parse(text: &str) -> Option<Self> {
        Self::parse(text)
    }

    fn to_text(&self) -> String {
        self.to_text()
    }
}

/// The file behind a state.
#[derive(Debug)]
pub(super) struct StateFile<S> {
    path: PathBuf,
    saved: S,
    /// Reported once.
    failed: bool,
}

impl<S: State> StateFile<S> {
    /// Reads what an earlier run learned; what cannot be read is forgotten.
    pub(super) fn read(root: &Root) -> Self {
        let path = root.path(root.state_file(S::FILE));
        let saved = durable_file::read(&path, LIMIT_BYTES).map(|text| {
            S::parse(&text).unwrap_or_else(|| {
                tracing::warn!("{} is damaged: {}", path.display(), S::DAMAGED);
                S::default()
            })
        });
        Self { path, saved: saved.unwrap_or_default(), failed: false }
    }

    /// What is in the file.
    pub(super) fn saved(&self) -> &S {
        &self.saved
    }

    /// Writes `state` when it differs from what is in the file. True when it is there.
    pub(super) fn save(&mut self, state: &S) -> bool {
        if *state == self.saved {
            return true;
        }
        let write = if S::IS_DURABLE { durable_file::write } else { durable_file::replace };
        match write(&self.path, &state.to_text(), 0o644) {
            Ok(()) => {
                self.saved = state.clone();
                self.failed = false;
            }
            Err(error) if !self.failed => {
                tracing::warn!("cannot keep {} in {}: {error}", S::NAME, self.path.display());
                self.failed = true;
            }
            Err(_) => {}
        }
        *state == self.saved
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::*;
    use crate::device::root::root_of;

    #[test]
    fn what_was_learned_is_there_again() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let mut file = StateFile::<LearnedDurations>::read(&root);
        let mut durations = file.saved().clone();
        durations.learn("browser", Duration::from_millis(700), false);
        file.save(&durations);
        assert_eq!(*StateFile::<LearnedDurations>::read(&root).saved(), durations);
        fs::write(folder.path().join("var/lib/brisk/launch-durations.json"), "{").unwrap();
        assert_eq!(*StateFile::<LearnedDurations>::read(&root).saved(), LearnedDurations::default());
    }

    #[test]
    fn on_android_it_is_kept_on_the_data_partition() {
        let (_folder, root) = root_of(&[("system/build.prop", ""), ("data/misc/", "")]);
        let mut durations = LearnedDurations::default();
        durations.learn("browser", Duration::from_millis(700), false);
        assert!(StateFile::<LearnedDurations>::read(&root).save(&durations));
        assert!(root.exists("/data/misc/brisk/launch-durations.json") && !root.exists("/var"));
        assert_eq!(*StateFile::<LearnedDurations>::read(&root).saved(), durations);
    }
}
