//! What is on record of a series of reboots, and what follows from it for the boot under way.

use std::io;
use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use brisk_sys::durable_file;

const FILE: &str = "series.json";
/// A replicate whose boot is refused is run once more; after that the series ends.
const TRIES: u32 = 2;

/// A series that is under way.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Series {
    /// The arms that this device offers: those that are compared.
    pub arms: Vec<String>,
    /// What the next boot is for.
    pub armed: Option<Armed>,
    /// What is armed next, where a boot was refused.
    pub again: Option<Again>,
}

/// A replicate that is run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Again {
    /// Its number in the schedule.
    pub replicate: u32,
    /// How often it was tried.
    pub tries: u32,
}

/// A replicate, and the boot that it is waiting for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Armed {
    /// Its number in the schedule.
    pub replicate: u32,
    /// How often it was tried before.
    pub tries: u32,
    /// The boot that armed it: its own is the next one.
    pub armed_by: String,
    /// Whether that one has ended in order, and the next one is not judged yet. Else the power was cut, or a person
    /// has reset the device, or this program was killed.
    pub in_order: bool,
}

/// What is to be done in the boot under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SeriesStep {
    /// Nothing is armed: this replicate is, or the next one.
    Arm(Option<Again>),
    /// This boot has armed a replicate; the reboot has not come.
    Reboot,
    /// This boot is that of a replicate.
    Judge(Armed),
}

impl Series {
    /// What `boot` is for.
    pub fn step(&self, boot: &str) -> SeriesStep {
        match &self.armed {
            None => SeriesStep::Arm(self.again),
            Some(armed) if armed.armed_by == boot => SeriesStep::Reboot,
            Some(armed) => SeriesStep::Judge(armed.clone()),
        }
    }

    /// True when a series is under way whose state is in `folder`.
    pub fn is_under_way(folder: &Path) -> bool {
        folder.join(FILE).exists()
    }

    /// Reads what is on record in `folder`: nothing when no series is under way.
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

    /// Puts it on record; it survives a power cut from then on.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, folder: &Path) -> anyhow::Result<()> {
        let path = folder.join(FILE);
        let text = serde_json::to_string(self)? + "\n";
        durable_file::write(&path, &text, 0o644).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Takes the record away.
    ///
    /// # Errors
    /// When the file cannot be removed.
    pub fn forget(folder: &Path) -> anyhow::Result<()> {
        let path = folder.join(FILE);
        durable_file::remove(&path).with_context(|| format!("cannot remove {}", path.display()))
    }
}

impl Armed {
    /// What becomes of its replicate, now that this time has failed; `None` when that was enough.
    pub fn once_more(&self) -> Option<Again> {
        let tries = self.tries + 1;
        (tries < TRIES).then_some(Again { replicate: self.replicate, tries })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn armed(tries: u32) -> Armed {
        Armed { replicate: 3, tries, armed_by: "one".into(), in_order: true }
    }

    // Verifies BOOT-4.
    #[test]
    fn the_boot_after_arming_is_a_replicate_and_counts_once() {
        let nothing = Series::default();
        let series = Series { armed: Some(armed(0)), ..Series::default() };
        let again = Some(Again { replicate: 3, tries: 1 });
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
        assert_eq!(armed(0).once_more(), Some(Again { replicate: 3, tries: 1 }));
        assert_eq!(armed(1).once_more(), None);
    }

    // Verifies BOOT-4.
    #[test]
    fn what_is_on_record_is_whole_and_what_is_damaged_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let folder = &folder.path().join("reboots");
        assert_eq!(Series::read(folder).unwrap(), None);
        let series = Series { arms: vec!["stock".into(), "hold".into()], armed: Some(armed(1)), again: None };
        series.write(folder).unwrap();
        // A process was killed while writing the next one.
        std::fs::write(folder.join("series.new"), "{\"armed\":{\"rep").unwrap();
        assert_eq!(Series::read(folder).unwrap(), Some(series));
        assert!(Series::is_under_way(folder));
        std::fs::write(folder.join(FILE), "{\"armed\":{").unwrap();
        assert!(Series::read(folder).unwrap_err().to_string().ends_with("series.json is damaged"));
        Series::forget(folder).unwrap();
        assert_eq!((Series::read(folder).unwrap(), Series::is_under_way(folder)), (None, false));
        assert_eq!(std::fs::read_dir(folder).unwrap().count(), 0, "nor a draft of it");
    }
}
