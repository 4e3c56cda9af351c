//! A recording of the daemon: the inputs and decisions of its mechanisms with their times, as one JSON record per line.
//!
//! It has all that a replay needs: the configuration, the files that probes read, all events, and the outcome of each decision.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use brisk_config::Config;
use brisk_mechanism::{Decision, Event, Outcome};
use brisk_sys::file_recorder::{FileRecorder, RecordedFiles};
use brisk_sys::kernel;
use brisk_sys::{BootTime, Root};

/// The number of the format.
pub const FORMAT: u32 = 2;
/// A recording ends at this size: a daemon that runs for weeks must not fill the disk.
const LIMIT_BYTES: u64 = 256 << 20;

/// One line of a recording.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "kebab-case", deny_unknown_fields)]
pub enum EventRecord {
    /// The first record.
    Opened {
        /// [`FORMAT`].
        format: u32,
        /// The version of brisk.
        brisk: String,
        /// The kernel release; empty when it could not be read.
        kernel: String,
        /// The mechanisms, in the order in which they receive events.
        mechanisms: Vec<String>,
    },
    /// A mechanism received the state that an earlier run had saved.
    Recalled {
        /// Its name.
        mechanism: String,
        /// The text of its file.
        text: String,
    },
    /// The configuration from now on.
    Configured {
        /// As TOML, with every value.
        text: String,
    },
    /// The files of the next probe that differ from those of the last one.
    Found {
        /// By path.
        files: RecordedFiles,
    },
    /// The mechanisms released the leases that hide the device's own values.
    LetGo {
        /// When.
        at: BootTime,
        /// The configuration was read since the last probe.
        is_new_configuration: bool,
    },
    /// The mechanisms probed and took the configuration.
    Followed {
        /// When.
        at: BootTime,
        /// The configuration was read since the last probe.
        is_new_configuration: bool,
    },
    /// An event.
    Happened {
        /// When.
        at: BootTime,
        /// The mechanism that received it; `None` for all of them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<String>,
        /// The event.
        event: Event,
    },
    /// The mechanisms received the foreground processes when the daemon began to watch them.
    Foreground {
        /// The processes.
        pids: Vec<u32>,
    },
    /// A mechanism decided.
    Decided {
        /// When.
        at: BootTime,
        /// Its name.
        mechanism: String,
        /// The actions and their reasons.
        decisions: Vec<Decision>,
    },
    /// A mechanism received the outcomes of its decisions, or of leases that ended without one.
    Became {
        /// When.
        at: BootTime,
        /// Its name.
        mechanism: String,
        /// The outcomes.
        outcomes: Vec<Outcome>,
    },
    /// The mechanisms were stopped with the daemon.
    Stopped {
        /// When.
        at: BootTime,
    },
    /// The last record.
    Closed {
        /// The number of lines before this one.
        records: u64,
        /// The recording ended because of its size, not with the daemon.
        is_full: bool,
    },
}

/// Writes a recording.
#[derive(Debug)]
pub struct Recorder {
    path: PathBuf,
    /// `None` once it is closed, or a write has failed.
    file: Option<BufWriter<File>>,
    records: u64,
    bytes: u64,
    limit_bytes: u64,
    configuration: Option<Config>,
    device: RecordedFiles,
    seen: FileRecorder,
}

impl Recorder {
    /// Begins a recording of `mechanisms` in the new file `path`, which only its owner may read, since it names processes.
    ///
    /// # Errors
    /// When the file exists or cannot be created.
    pub fn create(path: &Path, root: &Root, mechanisms: Vec<String>) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        let mut recorder = Self {
            path: path.to_owned(),
            file: Some(BufWriter::new(file)),
            records: 0,
            bytes: 0,
            limit_bytes: LIMIT_BYTES,
            configuration: None,
            device: RecordedFiles::new(),
            seen: FileRecorder::default(),
        };
        recorder.write(&EventRecord::Opened {
            format: FORMAT,
            brisk: env!("CARGO_PKG_VERSION").to_owned(),
            kernel: kernel::release(root).unwrap_or_default(),
            mechanisms,
        });
        Ok(recorder)
    }

    /// Appends `record`. On failure it logs an error and stops recording; the daemon goes on.
    pub fn write(&mut self, record: &EventRecord) {
        let Some(file) = &mut self.file else { return };
        let written = serde_json::to_string(record).map_err(io::Error::from).and_then(|line| {
            self.bytes += line.len() as u64 + 1;
            writeln!(file, "{line}")
        });
        self.records += 1;
        match written {
            Ok(()) if self.bytes > self.limit_bytes => {
                tracing::warn!("{} has reached {} MiB: recording ends", self.path.display(), self.limit_bytes >> 20);
                self.close(true);
            }
            Ok(()) => {}
            Err(error) => {
                tracing::error!("recording ends: cannot write {}: {error}", self.path.display());
                self.file = None;
            }
        }
    }

    /// Records that `config` is in force from now on.
    pub fn configure(&mut self, config: &Config) {
        if self.configuration.as_ref() == Some(config) {
            return;
        }
        match config.to_toml() {
            Ok(text) => self.write(&EventRecord::Configured { text }),
            Err(error) => tracing::error!("the recording lacks the configuration: {error}"),
        }
        self.configuration = Some(config.clone());
    }

    /// A `root` for probes, which notes the files that they read for the recording.
    pub fn recording_root(&self, root: &Root) -> Root {
        root.recording_root(&self.seen)
    }

    /// Appends the files read since the last call that are new or have changed.
    pub fn write_found_files(&mut self) {
        let mut files = self.seen.take();
        files.retain(|name, found| self.device.get(name) != Some(found));
        if !files.is_empty() {
            self.device.extend(files.clone());
            self.write(&EventRecord::Found { files });
        }
    }

    fn close(&mut self, is_full: bool) {
        let Some(mut file) = self.file.take() else { return };
        let last = serde_json::to_string(&EventRecord::Closed { records: self.records, is_full });
        let closed =
            last.map_err(io::Error::from).and_then(|line| writeln!(file, "{line}")).and_then(|()| file.flush());
        if let Err(error) = closed {
            tracing::error!("cannot end the recording {}: {error}", self.path.display());
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.close(false);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn recorder(path: &Path) -> Recorder {
        Recorder::create(path, &Root::at("/none"), vec!["launch".to_owned()]).unwrap()
    }

    // Verifies DAEMON-1.
    #[test]
    fn a_recording_has_one_line_per_record_and_an_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let mut written = recorder(&path);
        written.configure(&Config::default());
        written.configure(&Config::default());
        written.write(&EventRecord::Stopped { at: BootTime::from_milliseconds(7) });
        drop(written);
        let text = fs::read_to_string(&path).unwrap();
        let records: Vec<EventRecord> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(matches!(&records[0], EventRecord::Opened { format: FORMAT, .. }), "{text}");
        let rest = [
            EventRecord::Configured { text: Config::default().to_toml().unwrap() },
            EventRecord::Stopped { at: BootTime::from_milliseconds(7) },
            EventRecord::Closed { records: 3, is_full: false },
        ];
        assert_eq!(records[1..], rest);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let again = Recorder::create(&path, &Root::at("/none"), Vec::new()).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists, "nothing is lost");
    }

    // Verifies DAEMON-1.
    #[test]
    fn a_recording_ends_at_its_size_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let mut written = recorder(&path);
        written.limit_bytes = 1000;
        for _ in 0..100 {
            written.write(&EventRecord::Foreground { pids: vec![1; 20] });
        }
        drop(written);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.len() < 1200 && text.ends_with("\"is_full\":true}\n"), "{text}");
    }

    // Verifies DAEMON-1.
    #[test]
    fn a_full_disk_ends_only_the_recording() {
        let folder = tempfile::tempdir().unwrap();
        let mut written = recorder(&folder.path().join("a"));
        written.file = Some(BufWriter::with_capacity(8, OpenOptions::new().write(true).open("/dev/full").unwrap()));
        written.write(&EventRecord::Foreground { pids: vec![1] });
        assert!(written.file.is_none());
        written.write(&EventRecord::Foreground { pids: vec![1] });
    }

    // Verifies DAEMON-1.
    #[test]
    fn files_of_a_probe_are_recorded_when_they_change() {
        let folder = tempfile::tempdir().unwrap();
        let (_tree, root) = brisk_sys::test_trees::root_of(&[("proc/a", "1")]);
        let path = folder.path().join("a");
        let mut written = recorder(&path);
        for text in ["1", "1", "2"] {
            fs::write(root.path("/proc/a"), text).unwrap();
            written.recording_root(&root).read("/proc/a").unwrap();
            written.write_found_files();
        }
        drop(written);
        assert_eq!(fs::read_to_string(&path).unwrap().matches("\"found\"").count(), 2);
    }
}
