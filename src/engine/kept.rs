//! What mechanisms learn, kept across runs: each in a file of its own, written whole or not at all.

use std::path::PathBuf;

use super::mechanisms::Mechanisms;
use crate::device::{Root, durable_file};
use crate::mechanism::Kept;

/// Real states have 256 entries of about 100 bytes.
const LIMIT_BYTES: u64 = 256 << 10;

/// The files, by the place of their mechanism in the list.
#[derive(Debug, Default)]
pub(super) struct KeptFiles(Vec<KeptFile>);

#[derive(Debug)]
struct KeptFile {
    index: usize,
    path: PathBuf,
    saved: String,
    /// Reported once.
    failed: bool,
}

impl KeptFiles {
    /// Gives every mechanism what it has kept.
    pub(super) fn recall(root: &Root, mechanisms: &mut Mechanisms) -> Self {
        let mut files = Vec::new();
        for index in 0..mechanisms.len() {
            let mechanism = mechanisms.at(index);
            let Some(Kept { file, if_damaged, .. }) = mechanism.kept() else { continue };
            let path = root.path(root.state_file(file));
            if durable_file::read(&path, LIMIT_BYTES).is_some_and(|text| !mechanism.recall(&text)) {
                tracing::warn!("{} is damaged: {if_damaged}", path.display());
            }
            let saved = mechanism.kept().map(|kept| kept.text).unwrap_or_default();
            files.push(KeptFile { index, path, saved, failed: false });
        }
        Self(files)
    }

    /// Writes what has changed since it was written last.
    pub(super) fn save(&mut self, mechanisms: &mut Mechanisms) {
        for KeptFile { index, path, saved, failed } in &mut self.0 {
            let Some(Kept { what, text, .. }) = mechanisms.at(*index).kept() else { continue };
            if text == *saved {
                continue;
            }
            match durable_file::replace(path, &text, 0o644) {
                Ok(()) => (*saved, *failed) = (text, false),
                Err(error) if !*failed => {
                    tracing::warn!("cannot keep {what} in {}: {error}", path.display());
                    *failed = true;
                }
                Err(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::device::BootTime;
    use crate::mechanism::launch::LaunchPolicy;
    use crate::mechanism::{Event, Surroundings};

    fn launched(root: &Root) -> (Mechanisms, KeptFiles) {
        let mut mechanisms = Mechanisms::new(vec![Box::<LaunchPolicy>::default()]);
        let files = KeptFiles::recall(root, &mut mechanisms);
        (mechanisms, files)
    }

    #[test]
    fn what_was_learned_is_there_again() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let text = r#"{"version":1,"launches":1,"applications":{"browser":{"mean_ms":700.0,"deviation_ms":350.0,"launches":1,"last":1}}}"#;
        let path = folder.path().join("var/lib/brisk/launch-durations.json");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        let (mut mechanisms, mut files) = launched(&root);
        assert_eq!(mechanisms.at(0).kept().unwrap().text, text);
        files.save(&mut mechanisms);
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        // A launch that ends by itself is learned.
        let settings =
            crate::config::Config::parse("[launch]\ntriggers = [\"announced\"]\nactuators = [\"kick\"]").unwrap();
        let surroundings = Surroundings { root: &root, settings: &settings, is_new_configuration: true };
        drop(mechanisms.follow(BootTime::default(), surroundings));
        mechanisms.set_watched(true);
        let mut decisions = Vec::new();
        for (at_ms, event) in [
            (1_000, Event::LaunchAnnounced { process: None, application: "mail".to_owned() }),
            (2_000, Event::LaunchFinished { application: "mail".to_owned() }),
        ] {
            mechanisms.at(0).on_event(BootTime::from_milliseconds(at_ms), &event, &mut decisions);
        }
        files.save(&mut mechanisms);
        assert!(fs::read_to_string(&path).unwrap().contains("mail"));
        fs::write(&path, "{").unwrap();
        let (mut mechanisms, mut files) = launched(&root);
        files.save(&mut mechanisms);
        assert_eq!(fs::read_to_string(&path).unwrap(), "{", "nothing was learned since");
    }
}
