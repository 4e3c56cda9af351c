//! The learned state of mechanisms and the killer, saved across runs in `/var/lib/brisk`, on Android in `/data/misc/brisk`: one
//! file each, replaced atomically.

use std::path::PathBuf;

use super::mechanisms::Mechanisms;
use brisk_mechanism::{SavedState, StateFileSpec};
use brisk_sys::{Root, durable_file};

/// Real states have at most 256 entries of about 100 bytes.
const LIMIT_BYTES: u64 = 256 << 10;

/// One file, and the text that it is assumed to hold.
#[derive(Debug)]
pub(super) struct StateFile {
    about: StateFileSpec,
    path: PathBuf,
    saved: String,
    /// The last write failed; reported once.
    failed: bool,
}

/// Reads the state of an earlier run with `parse`, which returns `None` for damaged text. `None` then, and without a file.
pub(super) fn load_state<State>(
    root: &Root,
    about: StateFileSpec,
    parse: impl FnOnce(&str) -> Option<State>,
) -> Option<State> {
    let path = root.path(root.state_file(about.name));
    let state = parse(&durable_file::read(&path, LIMIT_BYTES)?);
    if state.is_none() {
        tracing::warn!("{} is damaged: {}", path.display(), about.if_damaged);
    }
    state
}

impl StateFile {
    /// The file of `about`, assumed to hold `saved`, the recalled state's text: a damaged file is kept until the state changes.
    pub(super) fn new(root: &Root, about: StateFileSpec, saved: String) -> Self {
        Self { about, path: root.path(root.state_file(about.name)), saved, failed: false }
    }

    /// Writes `text` if it differs from the file's. True when the file holds it.
    pub(super) fn save(&mut self, text: String) -> bool {
        if text == self.saved {
            return true;
        }
        let write = if self.about.is_durable { durable_file::write } else { durable_file::replace };
        match write(&self.path, &text, 0o644) {
            Ok(()) => {
                (self.saved, self.failed) = (text, false);
                return true;
            }
            Err(error) if !self.failed => {
                tracing::warn!("cannot keep {} in {}: {error}", self.about.what, self.path.display());
                self.failed = true;
            }
            Err(_) => {}
        }
        false
    }
}

/// The mechanisms' files, each with the index of its mechanism.
#[derive(Debug, Default)]
pub(super) struct StateFiles(Vec<(usize, StateFile)>);

impl StateFiles {
    /// Gives every mechanism its saved state.
    pub(super) fn load_state(root: &Root, mechanisms: &mut Mechanisms) -> Self {
        let mut files = Vec::new();
        for index in 0..mechanisms.len() {
            let Some(SavedState { file, .. }) = mechanisms.at(index).saved_state() else { continue };
            load_state(root, file, |text| mechanisms.load_state(index, text).then_some(()));
            let saved = mechanisms.at(index).saved_state().map(|kept| kept.text).unwrap_or_default();
            files.push((index, StateFile::new(root, file, saved)));
        }
        Self(files)
    }

    /// Writes the states that have changed since their last write.
    pub(super) fn save(&mut self, mechanisms: &mut Mechanisms) {
        for (index, file) in &mut self.0 {
            if let Some(SavedState { text, .. }) = mechanisms.at(*index).saved_state() {
                file.save(text);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::*;
    use brisk_mechanism::launch::{LaunchPolicy, LearnedDurations, learned};
    use brisk_mechanism::{Event, ProbeContext};
    use brisk_sys::BootTime;
    use brisk_sys::test_trees::root_of;

    fn launched(root: &Root) -> (Mechanisms, StateFiles) {
        let mut mechanisms = Mechanisms::new(vec![Box::<LaunchPolicy>::default()]);
        let files = StateFiles::load_state(root, &mut mechanisms);
        (mechanisms, files)
    }

    // Verifies DAEMON-3.
    #[test]
    fn learned_launch_durations_survive_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let text = r#"{"version":1,"launches":1,"applications":{"browser":{"mean_ms":700.0,"deviation_ms":350.0,"launches":1,"last":1}}}"#;
        let path = folder.path().join("var/lib/brisk/launch-durations.json");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        let (mut mechanisms, mut files) = launched(&root);
        assert_eq!(mechanisms.at(0).saved_state().unwrap().text, text);
        files.save(&mut mechanisms);
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        // The duration of a launch that reports its end is learned.
        let settings =
            brisk_config::Config::parse("[launch]\ntriggers = [\"announced\"]\nactuators = [\"kick\"]").unwrap();
        let probe_context = ProbeContext { root: &root, settings: &settings, is_new_configuration: true };
        drop(mechanisms.reconfigure(BootTime::default(), probe_context));
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

    // Verifies ANDROID-2.
    #[test]
    fn on_android_state_is_saved_on_the_data_partition() {
        let (_folder, root) = root_of(&[("system/build.prop", ""), ("data/misc/", "")]);
        assert_eq!(load_state(&root, learned::FILE, LearnedDurations::parse), None);
        let mut durations = LearnedDurations::default();
        durations.learn("browser", Duration::from_millis(700), false);
        assert!(StateFile::new(&root, learned::FILE, String::new()).save(durations.to_text()));
        assert!(root.exists("/data/misc/brisk/launch-durations.json") && !root.exists("/var"));
        assert_eq!(load_state(&root, learned::FILE, LearnedDurations::parse), Some(durations));
    }
}
