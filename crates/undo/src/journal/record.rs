//! The journal's lines, and the leases that a log of them still holds.

use serde::{Deserialize, Serialize};

use super::Lease;
use brisk_sys::{BootTime, Target};

/// Raised when a line changes its meaning; a log of another format is refused and kept.
pub(super) const FORMAT: u32 = 1;

/// How long a process holds its journal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tenure {
    /// Until it is stopped.
    #[default]
    Lasting,
    /// For one launch.
    Passing,
}

impl Tenure {
    fn is_lasting(&self) -> bool {
        *self == Self::Lasting
    }
}

/// One line of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "kebab-case")]
pub(super) enum JournalRecord {
    /// The first line: the writing process and the boot.
    Open {
        format: u32,
        boot_id: Option<String>,
        pid: u32,
        #[serde(default, skip_serializing_if = "Tenure::is_lasting")]
        tenure: Tenure,
    },
    /// Written ahead: `lease.value` is about to be written to `lease.target`.
    Intent { lease: Lease },
    /// The value that the target held after the write, as the kernel rounded it.
    Observed { target: Target, value: String },
    /// The lease lasts longer (or shorter) and has a new reason.
    Extended { target: Target, until: BootTime, reason: String },
    /// The target is no longer leased.
    Closed { target: Target },
}

impl JournalRecord {
    /// The value that `lease` holds now, if it is known.
    pub(super) fn observed(lease: &Lease) -> Option<Self> {
        Some(Self::Observed { target: lease.target.clone(), value: lease.observed.clone()? })
    }
}

/// The parsed log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contents {
    /// The pid of the log's writer.
    pub writer: Option<u32>,
    /// How long that process holds it.
    pub tenure: Tenure,
    /// The boot during which it was written.
    pub boot_id: Option<String>,
    /// The log's format, if this version does not know it.
    pub foreign_format: Option<u32>,
    /// The leases still held, in the order of leasing.
    pub leases: Vec<Lease>,
    /// Complete lines that cannot be parsed.
    pub malformed_lines: usize,
    /// True when the last line is incomplete: the writer died while it wrote that line, before it changed anything.
    pub torn: bool,
}

/// Parses a log. It never fails, because every lease that can still be read must be restored.
pub fn parse(log: &[u8]) -> Contents {
    let mut contents = Contents::default();
    let mut lines = log.split_inclusive(|&byte| byte == b'\n');
    for line in &mut lines {
        if line.last() != Some(&b'\n') {
            contents.torn = true;
            continue;
        }
        match serde_json::from_slice(line) {
            Ok(record) => contents.apply(record),
            Err(_) => contents.malformed_lines += 1,
        }
    }
    contents
}

impl Contents {
    fn apply(&mut self, record: JournalRecord) {
        match record {
            JournalRecord::Open { format, boot_id, pid, tenure } => {
                self.tenure = tenure;
                self.foreign_format = (format != FORMAT).then_some(format);
                self.boot_id = boot_id;
                self.writer = Some(pid);
            }
            JournalRecord::Intent { lease } => match self.held(&lease.target) {
                Some(held) => *held = lease,
                None => self.leases.push(lease),
            },
            JournalRecord::Observed { target, value } => {
                if let Some(lease) = self.held(&target) {
                    lease.observed = Some(value);
                }
            }
            JournalRecord::Extended { target, until, reason } => {
                if let Some(lease) = self.held(&target) {
                    lease.until = until;
                    lease.reason = reason;
                }
            }
            JournalRecord::Closed { target } => self.leases.retain(|lease| lease.target != target),
        }
    }

    fn held(&mut self, target: &Target) -> Option<&mut Lease> {
        self.leases.iter_mut().find(|lease| lease.target == *target)
    }
}

/// The line of `record`, with its newline.
pub(super) fn line(record: &JournalRecord) -> Vec<u8> {
    // Records hold only strings and numbers, and a path that is not UTF-8 was refused earlier.
    let mut line = serde_json::to_vec(record).unwrap_or_default();
    line.push(b'\n');
    line
}
