//! The journal: every lasting change is recorded before it is made, ends by a deadline, and can be undone.
//!
//! An append-only log of JSON lines on a tmpfs, one write(2) per record. A lease takes five steps: read the original, record
//! it, write the value, read it back as the kernel rounded it, record that. If the process dies between any two steps,
//! [`Replay::of`] restores everything from the log, but never overwrites a value that another tool has written since.

mod access;
mod error;
mod holder;
mod lease;
mod limit;
mod log;
mod owner;
pub mod record;
mod replay;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use access::Access;
use brisk_sys::kernel;
use brisk_sys::process;
use brisk_sys::{BootTime, Root, Target};
pub use error::JournalError;
pub use holder::Holder;
pub use lease::{Lease, Restoration, RestoreOutcome};
use log::Log;
pub use owner::{TunableGrant, become_owner, other_owner};
pub use record::Tenure;
use record::{Contents, JournalRecord};
pub use replay::Replay;

/// First pause before a failed restore is retried; it doubles each time up to the longest, since a CPU may be offline for
/// days.
const RETRY_AFTER: Duration = Duration::from_secs(1);
const RETRY_AFTER_LONGEST: Duration = Duration::from_secs(60);

/// The state of a journal, as another process sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum JournalState {
    /// brisk has not run since boot, or it left no changes.
    Empty,
    /// A process has it open.
    InUse {
        /// The process, if the log names it.
        pid: Option<u32>,
        /// The number of leased targets.
        held: usize,
    },
    /// No process has it open, and it has malformed lines whose meaning is lost.
    Damaged {
        /// Their number.
        malformed_lines: usize,
    },
    /// Its writer died and left targets changed: `brisk restore` restores them.
    LeftBehind {
        /// The number of changed targets.
        held: usize,
    },
}

impl JournalState {
    /// Reads the journal in `folder` without locking it.
    ///
    /// # Errors
    /// When it cannot be read or is not trusted.
    pub fn of(folder: &Path) -> Result<Self, JournalError> {
        let Some(contents) = Log::peek(folder)? else { return Ok(Self::Empty) };
        let held = contents.leases.len();
        Ok(match (Log::is_locked(folder), held) {
            (true, _) => Self::InUse { pid: contents.writer, held },
            (false, 0) if contents.malformed_lines > 0 => Self::Damaged { malformed_lines: contents.malformed_lines },
            (false, 0) => Self::Empty,
            (false, _) => Self::LeftBehind { held },
        })
    }
}

/// The open journal: all lasting changes are made through it. When dropped, it restores everything.
#[derive(Debug)]
pub struct Journal {
    log: Log,
    access: Access,
    /// In the order of first leasing; restored in reverse, so that a governor's tunables are restored before the governor.
    leases: Vec<Lease>,
    /// For each target whose restore failed: the pause before the next attempt.
    refused: BTreeMap<Target, Duration>,
    replay: Replay,
}

impl Journal {
    /// Locks the journal of `holder` in `folder` (a real path, see [`Holder::folder`]), and first restores what a dead
    /// writer left behind; failed restores stay in the journal and [`Journal::expire`] retries them.
    ///
    /// # Errors
    /// [`JournalError::Locked`] for a second opener, and when the log cannot be used.
    pub fn open(holder: Holder, folder: &Path, root: &Root) -> Result<Self, JournalError> {
        Self::open_for(Tenure::Lasting, holder, folder, root)
    }

    /// As [`Journal::open`], and records `tenure` in the log: a process that opens the journal for longer waits for this one.
    ///
    /// # Errors
    /// The same.
    pub fn open_for(tenure: Tenure, holder: Holder, folder: &Path, root: &Root) -> Result<Self, JournalError> {
        let (mut log, contents) = Log::lock(folder, tenure)?;
        let mut access = Access::new(holder, root);
        let boot_id = kernel::boot_id(root);
        let path = log.path().to_owned();
        let (replay, mut leases) = replay::replay(&mut access, contents, boot_id.as_deref(), &path, Some(&mut log))?;
        let header = JournalRecord::Open { format: record::FORMAT, boot_id, pid: std::process::id(), tenure };
        let begun = if leases.is_empty() {
            log.begin(&header)
        } else {
            // Failed restores are due at once, and stay in the log meanwhile.
            leases.iter_mut().for_each(|lease| lease.until = BootTime::default());
            let kept: Vec<_> = leases.iter().filter_map(JournalRecord::observed).collect();
            let mut records = replay.closing_records().chain(kept);
            records.try_for_each(|record| log.append(&record)).and_then(|()| log.resume(&header))
        };
        begun.map_err(|cause| JournalError::Unusable { path: log.path().to_owned(), cause })?;
        Ok(Self { log, access, leases, refused: BTreeMap::new(), replay })
    }

    /// What was restored when this journal was opened.
    pub fn replayed(&self) -> &Replay {
        &self.replay
    }

    /// The log file.
    pub fn path(&self) -> &Path {
        self.log.path()
    }

    /// True when the log in `folder` is this journal's file, and not one that replaced it.
    pub fn is_in(&self, folder: &Path) -> bool {
        self.log.is_in(folder)
    }

    /// Holds `value` in `target` until `until`. Leasing a leased target again changes value, deadline and reason and
    /// keeps the first original; if another process has written the target since, its value becomes the original.
    ///
    /// # Errors
    /// Nothing is changed when the original cannot be read or the change cannot be recorded. When the kernel refuses the
    /// value, the original is restored and an earlier lease of the target ends.
    pub fn lease(
        &mut self,
        now: BootTime,
        target: &Target,
        value: &str,
        until: BootTime,
        reason: &str,
    ) -> Result<(), JournalError> {
        if !self.access.may_hold(target) {
            return Err(JournalError::NotLeasable { target: target.clone() });
        }
        let found = self.access.read(target)?;
        if found.is_empty() {
            return Err(JournalError::NoOriginal { target: target.clone() });
        }
        self.refused.remove(target);
        let held = self.leases.iter().position(|lease| lease.target == *target);
        let undisturbed = match held {
            Some(index) if self.access.is_ours(&self.leases[index], &found)? => Some(index),
            _ => None,
        };
        if let Some(index) = undisturbed.filter(|&index| self.leases[index].value == value) {
            return self.extend(index, until, reason);
        }
        let (original, since) = match undisturbed {
            Some(index) => (self.leases[index].original.clone(), self.leases[index].since),
            None => (self.access.original(target, found), now),
        };
        let (value, reason) = (value.to_owned(), reason.to_owned());
        let lease = Lease { target: target.clone(), original, value, observed: None, since, until, reason };
        if !self.access.may_restore(&lease) {
            return Err(JournalError::NotLeasable { target: target.clone() });
        }
        self.record(&JournalRecord::Intent { lease: lease.clone() }, target)?;
        // From here on the log says that the target may hold any value; `leases` must agree.
        let index = match held {
            Some(index) => {
                self.leases[index] = lease;
                index
            }
            None => {
                self.leases.push(lease);
                self.leases.len() - 1
            }
        };
        self.apply(now, index)
    }

    /// Writes the value of a recorded lease and records the value read back; undoes the lease when either fails.
    fn apply(&mut self, now: BootTime, index: usize) -> Result<(), JournalError> {
        let Lease { target, value, .. } = self.leases[index].clone();
        let outcome = self
            .access
            .write(&target, &value)
            .and_then(|()| self.access.read(&target))
            .map_err(JournalError::from)
            .and_then(|observed| {
                self.leases[index].observed = Some(observed.clone());
                self.record(&JournalRecord::Observed { target: target.clone(), value: observed }, &target)
            });
        if outcome.is_err() {
            self.restore_one(now, index);
        }
        outcome
    }

    fn extend(&mut self, index: usize, until: BootTime, reason: &str) -> Result<(), JournalError> {
        let target = self.leases[index].target.clone();
        self.record(&JournalRecord::Extended { target: target.clone(), until, reason: reason.to_owned() }, &target)?;
        self.leases[index].until = until;
        reason.clone_into(&mut self.leases[index].reason);
        Ok(())
    }

    fn record(&mut self, record: &JournalRecord, target: &Target) -> Result<(), JournalError> {
        self.log.append(record).map_err(|cause| JournalError::Unrecorded {
            target: target.clone(),
            path: self.log.path().to_owned(),
            cause,
        })
    }

    /// True when `target` is leased and another tool has written it since.
    pub fn is_displaced(&mut self, target: &Target) -> bool {
        let Some(lease) = self.leases.iter().find(|lease| lease.target == *target) else { return false };
        self.access.read(target).is_ok_and(|found| self.access.is_ours(lease, &found).is_ok_and(|is_ours| !is_ours))
    }

    /// Restores `target` now; when that fails, [`Journal::expire`] retries.
    ///
    /// # Errors
    /// [`JournalError::NotLeased`]. A failed restore is no error but an outcome in [`Restoration`].
    pub fn release(&mut self, now: BootTime, target: &Target) -> Result<Restoration, JournalError> {
        match self.leases.iter().position(|lease| lease.target == *target) {
            Some(index) => Ok(self.restore_one(now, index)),
            None => Err(JournalError::NotLeased { target: target.clone() }),
        }
    }

    /// Restores several targets, in this order. This is faster than one by one, because one search finds all threads that
    /// inherited leased values. `None` for targets that are not leased.
    pub fn release_each(&mut self, now: BootTime, targets: &[&Target]) -> Vec<Option<Restoration>> {
        let position = |target: &&Target| self.leases.iter().position(|lease| lease.target == **target);
        let indices: Vec<_> = targets.iter().map(position).collect();
        let mut restorations = self.restore(now, indices.iter().flatten().copied().collect()).into_iter();
        indices.iter().map(|index| index.and_then(|_| restorations.next())).collect()
    }

    /// Sets `target` to `original`, if it holds `inherited`, a value that its thread got at fork from a leased parent.
    /// `None` when it does not hold that value, or is leased itself.
    ///
    /// # Errors
    /// When it cannot be read, or the change cannot be recorded.
    pub fn disinherit(
        &mut self,
        now: BootTime,
        target: &Target,
        inherited: &str,
        original: &str,
    ) -> Result<Option<Restoration>, JournalError> {
        let is_leased = self.leases.iter().any(|lease| lease.target == *target);
        if is_leased || !self.access.may_hold(target) || self.access.read(target)? != inherited {
            return Ok(None);
        }
        let lease = Lease {
            target: target.clone(),
            original: original.to_owned(),
            value: inherited.to_owned(),
            observed: Some(inherited.to_owned()),
            since: now,
            until: now,
            reason: "inherited".to_owned(),
        };
        self.record(&JournalRecord::Intent { lease: lease.clone() }, target)?;
        self.leases.push(lease);
        Ok(Some(self.restore_one(now, self.leases.len() - 1)))
    }

    /// Leases `target`, which holds `value` already, until `until`; then it is set to `original`. For a value that was set
    /// before any process ran, such as by a kernel parameter.
    ///
    /// # Errors
    /// When it cannot be read, holds something else, is leased already, or the lease cannot be recorded.
    pub fn adopt(
        &mut self,
        now: BootTime,
        target: &Target,
        value: &str,
        original: &str,
        until: BootTime,
        reason: &str,
    ) -> Result<(), JournalError> {
        let is_leased = self.leases.iter().any(|lease| lease.target == *target);
        if is_leased || !self.access.may_hold(target) || self.access.read(target)? != value {
            return Err(JournalError::NotLeasable { target: target.clone() });
        }
        let (value, original, reason) = (value.to_owned(), original.to_owned(), reason.to_owned());
        let observed = Some(value.clone());
        let lease = Lease { target: target.clone(), original, value, observed, since: now, until, reason };
        self.record(&JournalRecord::Intent { lease: lease.clone() }, target)?;
        self.leases.push(lease);
        Ok(())
    }

    /// Restores all leases, the latest first.
    pub fn release_all(&mut self) -> Vec<Restoration> {
        self.restore(BootTime::default(), (0..self.leases.len()).rev().collect())
    }

    /// Restores the leases that are due at `now`, the latest first.
    pub fn expire(&mut self, now: BootTime) -> Vec<Restoration> {
        let due = (0..self.leases.len()).rev().filter(|&index| self.leases[index].until <= now).collect();
        self.restore(now, due)
    }

    /// Retries all failed restores at once, because the device has changed.
    pub fn retry(&mut self, now: BootTime) -> Vec<Restoration> {
        let refused = std::mem::take(&mut self.refused);
        let is_due = |&index: &usize| refused.contains_key(&self.leases[index].target);
        let due = (0..self.leases.len()).rev().filter(is_due).collect();
        self.restore(now, due)
    }

    /// Waits at most `timeout` until every frequency limit reads back as restored, so that the device can be probed.
    /// False when one does not: a stricter request may hide it for long.
    pub fn await_limits(&mut self, timeout: Duration) -> bool {
        self.access.await_limits(timeout)
    }

    /// When [`Journal::expire`] is due next.
    pub fn next_deadline(&self) -> Option<BootTime> {
        self.leases.iter().map(|lease| lease.until).min()
    }

    /// All leases, in the order of leasing.
    pub fn leases(&self) -> &[Lease] {
        &self.leases
    }

    /// Closes the journal without restoring: `brisk restore`, or the process that opens the journal next, restores its leases.
    pub fn close_without_restore(mut self) {
        self.leases.clear();
    }

    /// A second journal, in `folder`, with the same leases. Either one is enough to restore everything, so no lease is lost
    /// between this call and [`Journal::discard`] of the journal that is no longer needed.
    ///
    /// # Errors
    /// When the log there cannot be used, is locked by another process, or holds leases. Nothing has changed then.
    pub fn duplicate(&self, folder: &Path, root: &Root) -> Result<Self, JournalError> {
        let tenure = Tenure::Lasting;
        let (mut log, contents) = Log::lock(folder, tenure)?;
        if !contents.leases.is_empty() {
            let path = log.path().to_owned();
            let Contents { writer: pid, tenure, .. } = contents;
            return Err(JournalError::Locked { path, pid, has_ended: pid.is_some_and(process::has_ended), tenure });
        }
        let boot_id = kernel::boot_id(root);
        let header = JournalRecord::Open { format: record::FORMAT, boot_id, pid: std::process::id(), tenure };
        let mut leases = self.leases.iter().map(|lease| JournalRecord::Intent { lease: lease.clone() });
        let written = log.begin(&header).and_then(|()| leases.try_for_each(|record| log.append(&record)));
        if let Err(cause) = written {
            let _ = log.clear();
            return Err(JournalError::Unusable { path: log.path().to_owned(), cause });
        }
        let access = Access::new(self.access.holder(), root);
        Ok(Self { log, access, leases: self.leases.clone(), refused: self.refused.clone(), replay: Replay::default() })
    }

    /// Empties and closes the journal without restoring: its duplicate holds the same leases.
    pub fn discard(mut self) {
        self.leases.clear();
        // If this fails, the leases are restored twice; the second restore finds the originals.
        let _ = self.log.clear();
    }

    fn restore_one(&mut self, now: BootTime, index: usize) -> Restoration {
        self.restore(now, vec![index]).remove(0)
    }

    /// Restores the leases at `indices`, in this order, each once.
    fn restore(&mut self, now: BootTime, indices: Vec<usize>) -> Vec<Restoration> {
        let mut leases: Vec<_> = indices.into_iter().map(|index| self.leases[index].clone()).collect();
        let observed: Vec<_> = leases.iter().map(|lease| lease.observed.clone()).collect();
        let outcomes = self.access.restore(&mut leases, |lease| {
            // If this cannot be recorded, the restore goes on: the record matters only if this process dies during it.
            let _ = self.log.append(&JournalRecord::Intent { lease: lease.clone() });
        });
        let closed = leases.into_iter().zip(observed).zip(outcomes);
        closed.map(|((lease, observed), outcome)| self.close(now, lease, observed.as_deref(), outcome)).collect()
    }

    /// Records the outcome of restoring `lease`, whose last recorded value was `observed`.
    fn close(&mut self, now: BootTime, lease: Lease, observed: Option<&str>, outcome: RestoreOutcome) -> Restoration {
        let Lease { target, original, .. } = lease.clone();
        if lease.observed.as_deref() != observed
            && let Some(record) = JournalRecord::observed(&lease)
            && let Err(error) = self.log.append(&record)
        {
            tracing::warn!("cannot record in {} what {target} holds: {error}", self.log.path().display());
        }
        if outcome.is_final() {
            self.refused.remove(&target);
            self.leases.retain(|held| held.target != target);
            let closed = if self.leases.is_empty() {
                self.log.discard()
            } else {
                self.log.append(&JournalRecord::Closed { target: target.clone() })
            };
            // A log that still names the target is harmless: the replay finds its original in place.
            if let Err(error) = closed {
                tracing::warn!("cannot record in {} that {target} was restored: {error}", self.log.path().display());
            }
        } else {
            let pause = self.refused.entry(target.clone()).or_insert(RETRY_AFTER);
            if let Some(held) = self.leases.iter_mut().find(|held| held.target == target) {
                *held = Lease { until: now + *pause, ..lease };
            }
            *pause = (*pause * 2).min(RETRY_AFTER_LONGEST);
        }
        Restoration { target, original, outcome }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        for restoration in self.release_all() {
            if let RestoreOutcome::Refused { error } = restoration.outcome {
                tracing::error!("{error}; `brisk restore` tries again");
            }
        }
    }
}
