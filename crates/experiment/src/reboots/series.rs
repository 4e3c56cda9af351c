//! The record of a series of reboots, and the step that it implies for the current boot.

use std::io;
use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use brisk_sys::durable_file;

const FILE: &str = "series.json";
/// A replicate whose boot is refused is run once more; after that the series ends.
const TRIES: u32 = 2;

/// A running series.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Series {
    /// The compared arms: those that this device supports.
    pub arms: Vec<String>,
    /// The replicate of the next boot.
    pub armed: Option<ArmedReplicate>,
    /// The replicate to arm next, after a refused boot.
    pub again: Option<Retry>,
}

/// A replicate that is run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// Its number in the schedule.
    pub replicate: u32,
    /// Number of attempts.
    pub tries: u32,
}

/// A replicate that waits for its boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArmedReplicate {
    /// Its number in the schedule.
    pub replicate: u32,
    /// Number of earlier attempts.
    pub tries: u32,
    /// The boot that armed it: the next boot is the replicate's.
    pub armed_by: String,
    /// Whether that boot ended in order and the next one is not judged yet. Otherwise the power was cut, the user reset the
    /// device, or this program was killed.
    pub in_order: bool,
}

/// The step to take in the current boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SeriesStep {
    /// Nothing is armed: arm this replicate, or the next one.
    Arm(Option<Retry>),
    /// This boot has armed a replicate, but has not ended yet.
    Reboot,
    /// This boot is that of a replicate: judge it.
    Judge(ArmedReplicate),
}

impl Series {
    /// The step to take in `boot`.
    pub fn step(&self, boot: &str) -> SeriesStep {
        match &self.armed {
            None => SeriesStep::Arm(self.again),
            Some(armed) if armed.armed_by == boot => SeriesStep::Reboot,
            Some(armed) => SeriesStep::Judge(armed.clone()),
        }
    }

    /// True when a series is under way whose state is in `folder`.
    pub fn is_active(folder: &Path) -> bool {
        folder.join(FILE).exists()
    }

    /// Reads the record in `folder`; `None` when no series is under way.
    ///
    /// # Errors
    /// When the record cannot be read, or is damaged.
    pub fn read(folder: &Path) -> anyhow::Result<Option<Self>> {
        let path = folder.join(FILE);
        match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
            Ok(text) => {
                let series = serde_json::from_slice(text.as_bytes());
                series.with_context(|| format!("{} is damaged", path.display())).map(Some)
            }
        }
    }

    /// Writes the record; it then survives a power cut.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, folder: &Path) -> anyhow::Result<()> {
        let path = folder.join(FILE);
        let text = serde_json::to_string(self)? + "\n";
        durable_file::write(&path, &text, 0o644).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Removes the record.
    ///
    /// # Errors
    /// When the file cannot be removed.
    pub fn forget(folder: &Path) -> anyhow::Result<()> {
        let path = folder.join(FILE);
        durable_file::remove(&path).with_context(|| format!("cannot remove {}", path.display()))
    }
}

impl ArmedReplicate {
    /// The next attempt after this one has failed; `None` after the last.
    pub fn next_retry(&self) -> Option<Retry> {
        let tries = self.tries + 1;
        (tries < TRIES).then_some(Retry { replicate: self.replicate, tries })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn armed(tries: u32) -> ArmedReplicate {
        ArmedReplicate { replicate: 3, tries, armed_by: "one".into(), in_order: true }
    }

    // Verifies BOOT-4.
    #[test]
    fn the_boot_after_arming_is_a_replicate_and_counts_once() {
        let nothing = Series::default();
        let series = Series { armed: Some(armed(0)), ..Series::default() };
        let again = Some(Retry { replicate: 3, tries: 1 });
        let refused = Series { again, ..Series::default() };
        for (series, boot, expected) in [
            (&nothing, "one", SeriesStep::Arm(None)),
            (&refused, "one", SeriesStep::Arm(again)),
            (&series, "one", SeriesStep::Reboot),
            (&series, "two", SeriesStep::Judge(armed(0))),
        ] {
            assert_eq!(series.step(boot), expected, "{boot}");
        }
    }

    // Verifies BOOT-4.
    #[test]
    fn a_replicate_is_tried_twice() {
        assert_eq!(armed(0).next_retry(), Some(Retry { replicate: 3, tries: 1 }));
        assert_eq!(armed(1).next_retry(), None);
    }

    // Verifies BOOT-4.
    #[test]
    fn a_record_is_written_whole_and_damage_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let folder = &folder.path().join("reboots");
        assert_eq!(Series::read(folder).unwrap(), None);
        let series = Series { arms: vec!["stock".into(), "hold".into()], armed: Some(armed(1)), again: None };
        series.write(folder).unwrap();
        // A process was killed while it wrote the next record.
        std::fs::write(folder.join("series.new"), "{\"armed\":{\"rep").unwrap();
        assert_eq!(Series::read(folder).unwrap(), Some(series));
        assert!(Series::is_active(folder));
        std::fs::write(folder.join(FILE), "{\"armed\":{").unwrap();
        assert!(Series::read(folder).unwrap_err().to_string().ends_with("series.json is damaged"));
        Series::forget(folder).unwrap();
        assert_eq!((Series::read(folder).unwrap(), Series::is_active(folder)), (None, false));
        assert_eq!(std::fs::read_dir(folder).unwrap().count(), 0, "no draft remains either");
    }
}
