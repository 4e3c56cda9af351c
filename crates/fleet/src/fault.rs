//! Why a file, or a row of it, is set aside instead of being counted.

use crate::partition::{date, day};

/// What is wrong with a file that was to be imported. None of its rows is used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It does not begin with the header of an export, and is none of the other files.
    #[error(
        "is no export, its first line is no header; nor is it a proof, a recording of a boot or an explanation of a trace"
    )]
    Foreign,
    /// Its format has another version.
    #[error("has format {0}, and this brisk reads format {reads}: import it with the brisk that knows it", reads = crate::FORMAT)]
    OtherVersion(u64),
    /// It has no trailer.
    #[error("is half a file: its last line is no trailer; export or copy it again")]
    Half,
    /// Its bytes are not those that were written.
    #[error("is damaged: its bytes have the checksum {found}, and its trailer says {stated}; copy it again")]
    Checksum {
        /// By the trailer.
        stated: u32,
        /// Of the bytes.
        found: u32,
    },
    /// The trailer counts other rows.
    #[error("is damaged: its trailer counts {stated} rows, and it has {found}")]
    RowCount {
        /// By the trailer.
        stated: u64,
        /// Lines between header and trailer.
        found: u64,
    },
    /// A line is not what the format describes.
    #[error("has a wrong line {line}: {what}")]
    Line {
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
    /// It was exported before 2020, so no time in it can be trusted.
    #[error("was exported by a clock that is off: it said {}, which is before 2020", date(day(*exported_at_s)))]
    PastClock {
        /// The time of its header.
        exported_at_s: i64,
    },
    /// It was exported in the future, so no time in it can be trusted.
    #[error("was exported by a clock that is off: it said {}, which is more than a day ahead", date(day(*exported_at_s)))]
    FutureClock {
        /// The time of its header.
        exported_at_s: i64,
    },
    /// A row is more than a day older than one before it, or younger than the export.
    #[error("has a clock that went back by more than a day at row {row}: which of its times are right is not known")]
    RowClock {
        /// The row's number.
        row: u64,
    },
    /// The device was another one in an earlier export.
    #[error("contradicts what device {device:016x} said before: {what}")]
    OtherDevice {
        /// The device's hash.
        device: u64,
        /// What differs.
        what: String,
    },
    /// A proof or an explanation that ends too early.
    #[error("is half a file: it ends within a value; copy it again")]
    Cut,
    /// A proof, a recording or an explanation is not what brisk writes.
    #[error("is damaged: {0}")]
    Damaged(String),
    /// Of which device it is does not follow from it, and was not given.
    #[error(
        "does not say which device it is of: import it with --device, and with --model where no export of that device \
         is in the data set"
    )]
    NoDevice,
    /// When it was made does not follow from it, and was not given.
    #[error("does not say when it was made: import it with --date")]
    NoDate,
    /// It cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// It is larger than any export.
    #[error("has {mib} MiB, and files of devices have at most {limit} MiB", limit = crate::LIMIT_BYTES >> 20)]
    TooLarge {
        /// Its size.
        mib: u64,
    },
}

impl Fault {
    /// Its kind, under which such files are counted.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Foreign => "no export",
            Self::OtherVersion(_) => "other format",
            Self::Half | Self::Cut => "half file",
            Self::Checksum { .. } | Self::RowCount { .. } | Self::Line { .. } | Self::Damaged(_) => "damaged",
            Self::PastClock { .. } | Self::FutureClock { .. } | Self::RowClock { .. } => "clock off",
            Self::OtherDevice { .. } => "contradicting device",
            Self::NoDevice => "no device",
            Self::NoDate => "no date",
            Self::Unreadable(_) | Self::TooLarge { .. } => "unreadable",
        }
    }
}

/// Why the data set cannot be opened or written. It stays as it was.
#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    /// The folder has files, but no manifest.
    #[error("{0} is no data set of brisk, and not empty: name another folder")]
    Foreign(String),
    /// A newer brisk has written it.
    #[error("{folder} has schema {found}, and this brisk writes schema {own}: use the brisk that made it")]
    OtherSchema {
        /// The data set.
        folder: String,
        /// Its schema.
        found: u32,
        /// This program's.
        own: u32,
    },
    /// Another import has it open.
    #[error("another import writes to {0}: wait until it has ended")]
    Locked(String),
    /// There is none.
    #[error("{0} is no data set: make one with brisk fleet import FOLDER --to {0}")]
    Missing(String),
    /// Simulated rows would be among others for ever.
    #[error("{0} has rows: name another folder for simulated devices, or remove this one")]
    NotEmpty(String),
    /// An import has not ended.
    #[error("an import into {0} has not ended; if none is running, brisk fleet import --to {0} completes it")]
    Interrupted(String),
    /// A file of the data set that it needs is not what it wrote.
    #[error("{path} is damaged: {what}; restore it, or import the exports into a new folder")]
    Damaged {
        /// The file.
        path: String,
        /// What is wrong.
        what: String,
    },
    /// The file system refuses.
    #[error("cannot {operation} {path}: {source}")]
    Io {
        /// What was tried.
        operation: &'static str,
        /// The file.
        path: String,
        /// The cause.
        source: std::io::Error,
    },
    /// The Parquet writer refuses.
    #[error("cannot write {path}: {source}")]
    Parquet {
        /// The file.
        path: String,
        /// The cause.
        source: parquet::errors::ParquetError,
    },
}

impl DatasetError {
    /// Names the operation and the path of an error of the file system.
    pub(crate) fn io(operation: &'static str, path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.display().to_string();
        move |source| Self::Io { operation, path, source }
    }

    /// The same for the Parquet writer.
    pub(crate) fn parquet(path: &std::path::Path) -> impl FnOnce(parquet::errors::ParquetError) -> Self {
        let path = path.display().to_string();
        move |source| Self::Parquet { path, source }
    }
}
