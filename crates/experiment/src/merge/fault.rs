//! What is wrong with a folder of a shard.

use std::path::PathBuf;

use serde::Serialize;

/// Why a folder cannot be joined.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Fault {
    /// The folder of the shard.
    pub folder: PathBuf,
    /// What kind of fault it is.
    pub kind: FaultKind,
    /// What is wrong, in words.
    pub reason: String,
}

/// Kinds of faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// It belongs to another run: version, experiment, seed, scenario, kernel or device differ.
    Foreign,
    /// It has replicates that another folder also has.
    Double,
    /// Its files are not what brisk writes.
    Damaged,
}

impl FaultKind {
    /// Its word in messages.
    pub fn word(self) -> &'static str {
        match self {
            Self::Foreign => "foreign",
            Self::Double => "double",
            Self::Damaged => "damaged",
        }
    }
}
