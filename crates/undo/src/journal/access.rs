//! Reads, writes and restores the targets of leases.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::holder::{Holder, has_possible_original};
use super::{JournalError, Lease, RestoreOutcome, limit};
use brisk_sys::binder::cache;
use brisk_sys::bpf::egress::{self, EgressPriority};
use brisk_sys::cgroup::{group, hierarchy, weight};
use brisk_sys::cpu::{governor, hotplug};
use brisk_sys::io::io_priority;
use brisk_sys::memory::{swap_area, zram};
use brisk_sys::process::kinship::KinCache;
use brisk_sys::sched::autogroup::{self, Autogroups};
use brisk_sys::sched::{affinity, priority, uclamp};
use brisk_sys::{DeviceError, Operation, Root, Target, Tunable, process};

/// At most this many descriptors are kept open; when one more is needed, all of them are closed.
const KEPT_DESCRIPTORS: usize = 64;
/// The polling period of limits that settle late.
const LATE_POLL_PERIOD: Duration = Duration::from_millis(2);

/// Access to targets, through descriptors that are kept open.
#[derive(Debug)]
pub(super) struct Access {
    holder: Holder,
    root: Root,
    tunables: BTreeMap<PathBuf, Tunable>,
    /// Limits that did not show the restored value in time.
    pending: BTreeMap<Target, PendingLimit>,
    /// The cgroup mounts; read on first use.
    mounts: Vec<hierarchy::Mount>,
    autogroups: Autogroups,
    /// The priorities of packets that this process holds, by the folders of their groups.
    egress: Vec<(PathBuf, EgressPriority)>,
}

#[derive(Debug)]
struct PendingLimit {
    /// What the limit showed last: an older or a stricter request.
    shown: String,
    /// The value written, which is in force.
    original: String,
}

impl Access {
    pub(super) fn new(holder: Holder, root: &Root) -> Self {
        Self {
            holder,
            root: root.clone(),
            tunables: BTreeMap::new(),
            pending: BTreeMap::new(),
            mounts: Vec::new(),
            autogroups: Autogroups::default(),
            egress: Vec::new(),
        }
    }

    /// The holder of this journal.
    pub(super) fn holder(&self) -> Holder {
        self.holder
    }

    /// True when the holder of this journal may hold `target`.
    pub(super) fn may_hold(&mut self, target: &Target) -> bool {
        if self.mounts.is_empty() {
            self.mounts = hierarchy::mounts(&self.root);
        }
        self.holder.may_hold(target, &self.mounts)
    }

    /// True when the holder may restore `lease`, which may come from a forged log.
    pub(super) fn may_restore(&mut self, lease: &Lease) -> bool {
        self.may_hold(&lease.target) && has_possible_original(lease)
    }

    /// The present value of `target`.
    pub(super) fn read(&mut self, target: &Target) -> Result<String, DeviceError> {
        match target {
            Target::Tunable(file) => self.tunable(file)?.read(),
            Target::Governor(folder) => governor::read(&self.root, folder),
            Target::UtilizationClampMinimum { pid, start_time_ticks } => {
                self.same_process(*pid, *start_time_ticks, Operation::Read)?;
                Ok(self.clamps(*pid, Operation::Read)?.minimum.to_string())
            }
            Target::CpuAffinity { tid, start_time_ticks } => {
                self.same_process(*tid, *start_time_ticks, Operation::Read)?;
                Ok(hotplug::format_list(&affinity::allowed(&self.root, *tid)?))
            }
            Target::Priority { tid, start_time_ticks } => {
                self.same_process(*tid, *start_time_ticks, Operation::Read)?;
                let fault = |error| task_error(&self.root, *tid, Operation::Read, error);
                Ok(priority::of(*tid).map_err(fault)?.to_string())
            }
            Target::IoPriority { tid, start_time_ticks } => {
                self.same_process(*tid, *start_time_ticks, Operation::Read)?;
                let fault = |error| task_error(&self.root, *tid, Operation::Read, error);
                Ok(io_priority::of(*tid).map_err(fault)?.to_string())
            }
            Target::ZramAlgorithm(name) => zram::algorithm(&self.root, name),
            Target::ZramBacking(name) => zram::backing_device(&self.root, name),
            Target::ZramSize(name) => zram::size_bytes(&self.root, name).map(|bytes| bytes.to_string()),
            Target::ZramSwap(name) => swap_area::state(&self.root, name),
            Target::Group(folder) => Ok(group::state(&self.root, folder).to_owned()),
            Target::GroupWeight(folder) => weight::read(&self.root, folder),
            Target::EgressPriority(folder) => self.egress_priority(folder),
            Target::Autogroup(id) => self.autogroups.read(&self.root, *id).map(|nice| nice.to_string()),
            Target::LookupProfile(context) => cache::profile(&self.root, context),
            Target::GroupMember { hierarchy, tid, start_time_ticks } => {
                let stat = self.same_process(*tid, *start_time_ticks, Operation::Read)?;
                let gone = || task_error(&self.root, *tid, Operation::Read, io::ErrorKind::NotFound.into());
                // The kernel accepts a write that moves an exiting thread, but leaves it in its group.
                if stat.is_exiting {
                    return Err(gone());
                }
                let text = self.root.read(format!("/proc/{tid}/cgroup"))?;
                let group = hierarchy::group_in(&text, *hierarchy);
                group.map(str::to_owned).ok_or_else(gone)
            }
        }
    }

    /// Writes `value` into `target`.
    pub(super) fn write(&mut self, target: &Target, value: &str) -> Result<(), DeviceError> {
        match target {
            Target::Tunable(file) => self.tunable(file)?.write(value),
            Target::Governor(folder) => governor::write(&self.root, folder, value),
            Target::UtilizationClampMinimum { pid, start_time_ticks } => {
                self.same_process(*pid, *start_time_ticks, Operation::Write)?;
                let fault = |error| task_error(&self.root, *pid, Operation::Write, error);
                let minimum: u32 = value.parse().map_err(|_| fault(io::Error::from(io::ErrorKind::InvalidInput)))?;
                // The kernel refuses a lower clamp above the upper one, so the upper one takes precedence.
                let maximum = self.clamps(*pid, Operation::Write)?.maximum;
                uclamp::set_minimum(*pid, minimum.min(maximum)).map_err(fault)
            }
            Target::CpuAffinity { tid, start_time_ticks } => {
                self.same_process(*tid, *start_time_ticks, Operation::Write)?;
                let fault = |error| task_error(&self.root, *tid, Operation::Write, error);
                let cpus = hotplug::parse_list(value).unwrap_or_default();
                affinity::set(*tid, &cpus).map_err(fault)
            }
            Target::Priority { tid, start_time_ticks } => {
                self.same_process(*tid, *start_time_ticks, Operation::Write)?;
                let fault = |error| task_error(&self.root, *tid, Operation::Write, error);
                let wanted = value.parse().map_err(|()| fault(io::ErrorKind::InvalidInput.into()))?;
                priority::set(*tid, wanted).map_err(fault)
            }
            Target::IoPriority { tid, start_time_ticks } => {
                self.same_process(*tid, *start_time_ticks, Operation::Write)?;
                let fault = |error| task_error(&self.root, *tid, Operation::Write, error);
                let wanted = value.parse().map_err(|()| fault(io::ErrorKind::InvalidInput.into()))?;
                io_priority::set(*tid, wanted).map_err(fault)
            }
            Target::ZramAlgorithm(name) => zram::set_algorithm(&self.root, name, value),
            Target::ZramBacking(name) => zram::set_backing_device(&self.root, name, value),
            Target::ZramSize(name) => zram::set_size(&self.root, name, value),
            Target::ZramSwap(name) => swap_area::set_state(&self.root, name, value),
            Target::Group(folder) if value.starts_with(group::ABSENT) => group::remove(&self.root, folder, value),
            Target::Group(folder) => group::make(&self.root, folder, value),
            Target::GroupWeight(folder) => weight::write(&self.root, folder, value),
            Target::EgressPriority(folder) => self.set_egress_priority(folder, value),
            Target::Autogroup(id) => {
                let invalid = || DeviceError::malformed(Path::new(autogroup::FILE), "a nice value", value);
                self.autogroups.write(&self.root, *id, autogroup::parse_nice(value).ok_or_else(invalid)?)
            }
            Target::LookupProfile(context) => cache::set_profile(&self.root, context, value),
            Target::GroupMember { hierarchy, tid, .. } => {
                let from = self.read(target)?;
                let mount = self.mounts.iter().find(|mount| mount.hierarchy == *hierarchy);
                let gone = || task_error(&self.root, *tid, Operation::Write, io::ErrorKind::NotFound.into());
                let folder = &mount.ok_or_else(gone)?.folder;
                group::enter(&self.root, folder, *hierarchy, (&from, value), *tid)
            }
        }
    }

    /// True when restoring `lease` takes several writes. If the process died between them, the target would look as if another
    /// tool had written it, so the log must first say that it may hold any value. Sets the lease to say so.
    pub(super) fn begin_stepwise_restore(&mut self, lease: &mut Lease) -> bool {
        let has_steps = match &lease.target {
            Target::Governor(_) => lease.original.contains('\t'),
            // When `cpu.idle` is cleared, the kernel resets the group's weight to the default.
            Target::GroupWeight(_) => lease.observed.as_deref() == Some(weight::IDLE),
            _ => false,
        };
        if !has_steps || lease.observed.is_none() {
            return false;
        }
        let Ok(found) = self.read(&lease.target) else { return false };
        let begins = self.is_ours(lease, &found).unwrap_or(false);
        if begins {
            lease.observed = None;
        }
        begins
    }

    /// Restores the targets of `leases`, in this order, unless another process has changed them since; if a target can be
    /// restored only in part, its lease gets the value read back. The process may die in here: its leases are still on record,
    /// so the next replay finds the originals and searches for inherited values again. Calls `record` for a lease that must be
    /// recorded again before its target is written. A target that the holder may not hold is refused untouched.
    pub(super) fn restore(&mut self, leases: &mut [Lease], mut record: impl FnMut(&Lease)) -> Vec<RestoreOutcome> {
        let mut outcomes = Vec::with_capacity(leases.len());
        for batch in leases.chunk_by_mut(|one, next| is_inherited(&one.target) && is_inherited(&next.target)) {
            let mut held = Vec::with_capacity(batch.len());
            for lease in batch.iter_mut() {
                let is_allowed = self.may_restore(lease);
                if is_allowed && self.begin_stepwise_restore(lease) {
                    record(lease);
                }
                held.push(lease.observed.clone().filter(|_| is_allowed));
            }
            let batch_start = outcomes.len();
            outcomes.extend(batch.iter_mut().map(|lease| self.restore_one(lease)));
            // From here on new threads no longer inherit leased values, so one search finds all that did.
            let mut families = KinCache::default();
            for ((lease, held), outcome) in batch.iter().zip(held).zip(&outcomes[batch_start..]) {
                if let Some(held) = held.filter(|_| *outcome != RestoreOutcome::Vanished) {
                    self.restore_inherited(lease, &held, &mut families);
                }
            }
        }
        outcomes
    }

    fn restore_one(&mut self, lease: &mut Lease) -> RestoreOutcome {
        if !self.may_restore(lease) {
            let error = JournalError::NotLeasable { target: lease.target.clone() };
            return RestoreOutcome::Refused { error: error.to_string() };
        }
        match self.try_restore(lease) {
            Ok(outcome) => outcome,
            Err(error) if error.is_missing() => RestoreOutcome::Vanished,
            Err(error) => RestoreOutcome::Refused { error: error.with_advice() },
        }
    }

    fn try_restore(&mut self, lease: &mut Lease) -> Result<RestoreOutcome, DeviceError> {
        let Lease { target, original, .. } = &*lease;
        let found = self.read(target)?;
        let confined = matches!(target, Target::CpuAffinity { .. });
        if found == *original && !limit::is_limit(target) {
            return Ok(RestoreOutcome::Restored);
        }
        if found != *original && !self.is_ours(lease, &found)? {
            return Ok(RestoreOutcome::ChangedByOther { found });
        }
        self.write(target, original)?;
        if limit::is_limit(target) {
            self.settle(target, original)?;
            return Ok(RestoreOutcome::Restored);
        }
        let found = self.read(target)?;
        let governs = matches!(target, Target::Governor(_)) && governor::is_same(&found, original);
        let removed = matches!(target, Target::Group(_)) && found == group::ABSENT;
        if governs || removed || found == *original {
            return Ok(RestoreOutcome::Restored);
        }
        let error = format!("{target} holds {found:?} after {original:?} was written back");
        if confined {
            // The kernel restores only the CPUs that are online; the others follow when they come online.
            lease.observed = Some(found);
        }
        Ok(RestoreOutcome::Refused { error })
    }

    /// Restores the original in threads that inherited the `held` value at fork from the leased one. A thread that cannot be
    /// read or written has exited, or its tid belongs to another process by now.
    fn restore_inherited(&mut self, lease: &Lease, held: &str, families: &mut KinCache) {
        let Some(tid) = lease.target.thread().filter(|_| is_inherited(&lease.target)) else { return };
        for child in families.created_since(&self.root, tid, lease.since) {
            let Some(target) = lease.target.of_child(child.tid, child.start_time_ticks) else { return };
            if self.read(&target).is_ok_and(|found| found == held) {
                let _ = self.write(&target, &lease.original);
            }
        }
    }

    /// True when the lease's target holds `found` because of the lease, and not because another process has written it since.
    pub(super) fn is_ours(&mut self, lease: &Lease, found: &str) -> Result<bool, DeviceError> {
        match &lease.observed {
            // The writer died between its write and the record of it. The kernel may have rounded the value, so any value
            // is taken for ours.
            None => Ok(true),
            Some(observed) if observed == found => Ok(true),
            Some(_) if limit::is_limit(&lease.target) => self.is_our_limit(lease, found),
            Some(observed) if matches!(lease.target, Target::CpuAffinity { .. }) => {
                let online = hotplug::online(&self.root)?;
                Ok(is_kernel_change(&lease.original, observed, found, &online))
            }
            // A group that another process has removed stays removed; after any other change it is still ours.
            Some(_) if matches!(lease.target, Target::Group(_)) => Ok(found != group::ABSENT),
            Some(_) => Ok(false),
        }
    }

    /// A limit may show our request late, rounded, or not at all while another is stricter. In the last case our value is
    /// written once more: if the request is hidden, the limit does not change; if it changes, another tool had written the
    /// limit, and its value is restored here.
    fn is_our_limit(&mut self, lease: &Lease, found: &str) -> Result<bool, DeviceError> {
        let Lease { target, original, value, .. } = lease;
        let rounded = limit::rounded(&self.root, target, value);
        if found == original || found == value || rounded.as_deref() == Some(found) {
            return Ok(true);
        }
        self.write(target, value)?;
        if self.shows(target, |now| now != found)? {
            self.write(target, found)?;
            return Ok(false);
        }
        Ok(true)
    }

    /// Waits until a limit shows the restored `original`; remembers a limit that does not in time.
    fn settle(&mut self, target: &Target, original: &str) -> Result<(), DeviceError> {
        self.pending.remove(target);
        if !self.shows(target, |now| now == original)? {
            let shown = self.read(target)?;
            self.pending.insert(target.clone(), PendingLimit { shown, original: original.to_owned() });
        }
        Ok(())
    }

    /// Waits at most `timeout` until no limit shows its value from before the restore. False when one still does.
    pub(super) fn await_limits(&mut self, timeout: Duration) -> bool {
        limit::poll_until(timeout, LATE_POLL_PERIOD, || Ok::<_, Infallible>(self.are_limits_applied())) == Ok(true)
    }

    fn are_limits_applied(&mut self) -> bool {
        for (target, pending) in std::mem::take(&mut self.pending) {
            if self.read(&target).is_ok_and(|found| found == pending.shown) {
                self.pending.insert(target, pending);
            }
        }
        self.pending.is_empty()
    }

    /// Polls a limit until `wanted` accepts its value, for as long as the kernel may take to apply a request.
    fn shows(&mut self, target: &Target, wanted: impl Fn(&str) -> bool) -> Result<bool, DeviceError> {
        limit::poll_until(limit::READ_BACK_TIMEOUT, limit::POLL_PERIOD, || Ok(wanted(&self.read(target)?)))
    }

    /// The original to restore after leasing `target`, which is not leased and shows `found`.
    pub(super) fn original(&self, target: &Target, found: String) -> String {
        if let Target::Group(folder) = target {
            // The group is brisk's even if it exists already: an earlier process did not remove it.
            return group::original(&self.root, folder);
        }
        match self.pending.get(target) {
            Some(pending) if pending.shown == found => pending.original.clone(),
            _ => found,
        }
    }

    fn tunable(&mut self, file: &Path) -> Result<&mut Tunable, DeviceError> {
        // Two lookups, because the borrow checker rejects an early return of the first one's borrow.
        if !self.tunables.contains_key(file) {
            if self.tunables.len() >= KEPT_DESCRIPTORS {
                self.tunables.clear();
            }
            self.tunables.insert(file.to_owned(), Tunable::open(&self.root, file)?);
        }
        self.tunables
            .get_mut(file)
            .ok_or_else(|| DeviceError::io(&self.root.path(file), Operation::Read, io::ErrorKind::NotFound))
    }

    /// The priority that this process holds; another one that held it has ended, and with it the priority.
    fn egress_priority(&mut self, folder: &Path) -> Result<String, DeviceError> {
        let root = &self.root;
        self.egress.retain(|(of, held)| of != folder || held.of(root, folder).is_some());
        let held = self.egress.iter().find(|(of, _)| of == folder).and_then(|(_, held)| held.of(root, folder));
        if !self.root.is_folder(folder) {
            return Err(DeviceError::io(&self.root.path(folder), Operation::Read, io::ErrorKind::NotFound));
        }
        Ok(held.map_or_else(|| egress::NONE.to_owned(), |priority| priority.to_string()))
    }

    fn set_egress_priority(&mut self, folder: &Path, value: &str) -> Result<(), DeviceError> {
        if value == egress::NONE {
            self.egress.retain(|(of, _)| of != folder);
            return Ok(());
        }
        let invalid = || DeviceError::malformed(folder, "a priority of packets", value);
        let priority = value.parse().map_err(|_| invalid())?;
        let attached = EgressPriority::attach(&self.root, folder, priority)?;
        self.egress.retain(|(of, _)| of != folder);
        self.egress.push((folder.to_owned(), attached));
        Ok(())
    }

    fn clamps(&self, tid: u32, operation: Operation) -> Result<uclamp::Clamps, DeviceError> {
        uclamp::of(tid).map_err(|error| task_error(&self.root, tid, operation, error))
    }

    /// The kernel reuses pids: only the start time shows that this is still the process that was leased.
    fn same_process(
        &self,
        pid: u32,
        start_time_ticks: u64,
        operation: Operation,
    ) -> Result<process::StatFacts, DeviceError> {
        let stat = process::stat(&self.root, pid)?;
        if stat.start_time_ticks == start_time_ticks {
            return Ok(stat);
        }
        Err(task_error(&self.root, pid, operation, io::ErrorKind::NotFound.into()))
    }
}

fn task_error(root: &Root, pid: u32, operation: Operation, source: io::Error) -> DeviceError {
    DeviceError::io(&root.path(format!("/proc/{pid}")), operation, source)
}

/// True when the kernel itself may have changed a mask to `found`, which was `original` before the lease and `observed` after
/// it. When the last CPU of a mask goes offline, the kernel widens the mask to all CPUs. When any CPU goes offline, a cpuset
/// removes it from its members' masks. A thread that moves back into a cpuset gets the CPUs of its mask that are `online`.
pub(super) fn is_kernel_change(original: &str, observed: &str, found: &str, online: &[u32]) -> bool {
    let [original, observed, found] =
        [original, observed, found].map(|list| hotplug::parse_list(list).unwrap_or_default());
    let is_widened = !original.is_empty() && original.iter().all(|cpu| found.contains(cpu));
    let is_rest_of = |mask: &[u32]| {
        let rest = mask.iter().filter(|cpu| online.contains(cpu));
        rest.clone().count() < mask.len() && rest.eq(&found)
    };
    is_widened || is_rest_of(&original) || is_rest_of(&observed)
}

/// True for an attribute that threads inherit at fork.
fn is_inherited(target: &Target) -> bool {
    target.of_child(0, 0).is_some()
}
