//! Replays the journal of a writer that died: restores all leases, the latest first.

use std::path::Path;

use serde::Serialize;

use super::access::Access;
use super::log::Log;
use super::record::{Contents, JournalRecord, Tenure};
use super::{Holder, JournalError, Lease, Restoration};
use brisk_sys::kernel::boot_id;
use brisk_sys::{BootTime, Root, Target};

/// The result of a replay.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Replay {
    /// The outcome for each lease, in the order of restoring.
    pub restorations: Vec<Restoration>,
    /// True when the log is from an earlier boot: the reboot has reset the tunables, so nothing was written.
    pub earlier_boot: bool,
    /// True when the writer died while it recorded a change that it had not made yet.
    pub torn: bool,
    /// Malformed lines; the leases that they may have held are lost.
    pub malformed_lines: usize,
}

impl Replay {
    /// Restores the leases of `holder`'s journal in `folder`, and removes them from it. Does nothing without a journal.
    ///
    /// # Errors
    /// [`JournalError::Locked`] while its writer lives, and when the log cannot be used.
    pub fn of(holder: Holder, folder: &Path, root: &Root) -> Result<Self, JournalError> {
        if Log::peek(folder)?.is_none() {
            return Ok(Self::default());
        }
        let (mut log, contents) = Log::lock(folder, Tenure::Passing)?;
        let mut access = Access::new(holder, root);
        let path = log.path().to_owned();
        let (replay, refused) = replay(&mut access, contents, boot_id(root).as_deref(), &path, Some(&mut log))?;
        let tidied = if refused.is_empty() {
            log.clear()
        } else {
            let kept = refused.iter().filter_map(JournalRecord::observed);
            replay.closing_records().chain(kept).try_for_each(|record| log.append(&record))
        };
        // A log that still names restored targets is harmless: the next replay finds the originals.
        if let Err(error) = tidied {
            tracing::warn!("cannot tidy {}: {error}", log.path().display());
        }
        Ok(replay)
    }

    /// Restores the leases that were due before `due`, while the writer lives but hangs, and returns when the next lease
    /// ends. The log stays as it is: the writer will find the originals in place.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn overdue(
        holder: Holder,
        folder: &Path,
        root: &Root,
        due: BootTime,
    ) -> Result<(Self, Option<BootTime>), JournalError> {
        let Some(mut contents) = Log::peek(folder)? else { return Ok((Self::default(), None)) };
        let next = contents.leases.iter().map(|lease| lease.until).filter(|&until| until >= due).min();
        contents.leases.retain(|lease| lease.until < due);
        let path = folder.join("journal");
        let (replay, _) = replay(&mut Access::new(holder, root), contents, boot_id(root).as_deref(), &path, None)?;
        Ok((replay, next))
    }

    /// The process that wrote the log in `folder` last, if the log names it.
    pub fn writer(folder: &Path) -> Option<u32> {
        Log::peek(folder).ok().flatten()?.writer
    }

    /// Adds the result of a later replay of another journal.
    pub fn append(&mut self, mut later: Self) {
        self.restorations.append(&mut later.restorations);
        self.earlier_boot |= later.earlier_boot;
        self.torn |= later.torn;
        self.malformed_lines += later.malformed_lines;
    }

    /// The records that close the restored leases in the log.
    pub(super) fn closing_records(&self) -> impl Iterator<Item = JournalRecord> {
        let done = self.restorations.iter().filter(|restoration| restoration.outcome.is_final());
        done.map(|restoration| JournalRecord::Closed { target: restoration.target.clone() })
    }

    /// The targets whose restore failed.
    pub fn refused(&self) -> impl Iterator<Item = &Target> {
        let refused = self.restorations.iter().filter(|restoration| !restoration.outcome.is_final());
        refused.map(|restoration| &restoration.target)
    }

    /// True when no target holds a leased value any more.
    pub fn is_complete(&self) -> bool {
        self.restorations.iter().all(|restoration| restoration.outcome.is_final())
    }
}

/// Restores the leases in `contents`; returns those whose restore failed, in the order of leasing. `log` is their log, if
/// this process has locked it.
pub(super) fn replay(
    access: &mut Access,
    contents: Contents,
    boot_id: Option<&str>,
    path: &Path,
    mut log: Option<&mut Log>,
) -> Result<(Replay, Vec<Lease>), JournalError> {
    if let Some(format) = contents.foreign_format {
        return Err(JournalError::ForeignFormat { path: path.to_owned(), format });
    }
    let earlier_boot = boot_id.zip(contents.boot_id.as_deref()).is_some_and(|(now, then)| now != then);
    let mut replay =
        Replay { earlier_boot, torn: contents.torn, malformed_lines: contents.malformed_lines, ..Replay::default() };
    let mut refused = Vec::new();
    let mut leases: Vec<_> = contents.leases.into_iter().rev().filter(|_| !earlier_boot).collect();
    let outcomes = access.restore(&mut leases, |lease| {
        if let Some(log) = &mut log {
            let _ = log.append(&JournalRecord::Intent { lease: lease.clone() });
        }
    });
    for (lease, outcome) in leases.into_iter().zip(outcomes) {
        let (target, original) = (lease.target.clone(), lease.original.clone());
        if !outcome.is_final() {
            refused.insert(0, lease);
        }
        replay.restorations.push(Restoration { target, original, outcome });
    }
    Ok((replay, refused))
}
