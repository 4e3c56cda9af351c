//! Reading and writing what a lease can hold, and giving it back.

use std::collections::BTreeMap;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::{Lease, Outcome};
use crate::device::{DeviceError, Operation, Root, Target, Tunable, process, uclamp};

/// Descriptors kept at most; beyond it the ones not used now are closed.
const KEPT_DESCRIPTORS: usize = 64;

/// Targets by kept descriptors.
#[derive(Debug)]
pub(super) struct Access {
    root: Root,
    tunables: BTreeMap<PathBuf, Tunable>,
}

impl Access {
    pub(super) fn new(root: &Root) -> Self {
        Self { root: root.clone(), tunables: BTreeMap::new() }
    }

    /// The present value of `target`.
    pub(super) fn read(&mut self, target: &Target) -> Result<String, DeviceError> {
        match target {
            Target::Tunable(file) => self.tunable(file)?.read(),
            Target::UtilizationClampMinimum { pid, start_time_ticks } => {
                self.same_process(*pid, *start_time_ticks, Operation::Read)?;
                let value =
                    uclamp::minimum(*pid).map_err(|error| clamp_error(&self.root, *pid, Operation::Read, error))?;
                Ok(value.to_string())
            }
        }
    }

    /// Writes `value` into `target`.
    pub(super) fn write(&mut self, target: &Target, value: &str) -> Result<(), DeviceError> {
        match target {
            Target::Tunable(file) => self.tunable(file)?.write(value),
            Target::UtilizationClampMinimum { pid, start_time_ticks } => {
                self.same_process(*pid, *start_time_ticks, Operation::Write)?;
                let fault = |error| clamp_error(&self.root, *pid, Operation::Write, error);
                let minimum = value.parse().map_err(|_| fault(io::Error::from(io::ErrorKind::InvalidInput)))?;
                uclamp::set_minimum(*pid, minimum).map_err(fault)
            }
        }
    }

    /// Gives back what `lease` holds, unless somebody else has changed it since.
    pub(super) fn give_back(&mut self, lease: &Lease) -> Outcome {
        match self.try_give_back(lease) {
            Ok(outcome) => outcome,
            Err(error) if error.is_missing() => Outcome::Vanished,
            Err(error) => Outcome::Refused { error: error.to_string() },
        }
    }

    fn try_give_back(&mut self, lease: &Lease) -> Result<Outcome, DeviceError> {
        let found = self.read(&lease.target)?;
        if found == lease.original {
            return Ok(Outcome::Restored);
        }
        // Without `observed` the writer died between its write and the record of it: the kernel may have rounded the
        // value, so whatever is not the original counts as ours.
        if let Some(observed) = lease.observed.as_ref().filter(|observed| **observed != found) {
            return if is_limit(&lease.target) && self.is_masked(&lease.target, observed, &found)? {
                self.write(&lease.target, &lease.original)?;
                Ok(Outcome::Restored)
            } else {
                Ok(Outcome::ChangedByOther { found })
            };
        }
        self.write(&lease.target, &lease.original)?;
        let found = self.read(&lease.target)?;
        if found == lease.original {
            return Ok(Outcome::Restored);
        }
        let error = format!("{} holds {found:?} after {:?} was written back", lease.target, lease.original);
        Ok(Outcome::Refused { error })
    }

    /// A frequency limit shows the strictest of several requests (freq_qos), not what was written: a thermal cap or
    /// another driver's boost may hide our request, which must still be taken back. Writing our value once more tells:
    /// a hidden request changes nothing to be seen, while another tool's plain write is overwritten, and put back here.
    fn is_masked(&mut self, target: &Target, observed: &str, found: &str) -> Result<bool, DeviceError> {
        self.write(target, observed)?;
        if self.read(target)? == found {
            return Ok(true);
        }
        self.write(target, found)?;
        Ok(false)
    }

    fn tunable(&mut self, file: &Path) -> Result<&mut Tunable, DeviceError> {
        // Looked up twice, because a borrow that is returned early cannot be let go for the insertion.
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

    /// A pid is used again: only the start time says that it is still the process that was leased.
    fn same_process(&self, pid: u32, start_time_ticks: u64, operation: Operation) -> Result<(), DeviceError> {
        if process::start_time_ticks(&self.root, pid)? == start_time_ticks {
            return Ok(());
        }
        Err(clamp_error(&self.root, pid, operation, io::ErrorKind::NotFound.into()))
    }
}

/// True for a file that shows an aggregate of requests.
fn is_limit(target: &Target) -> bool {
    let Target::Tunable(file) = target else { return false };
    file.file_name().is_some_and(|name| name == "scaling_min_freq" || name == "scaling_max_freq")
}

fn clamp_error(root: &Root, pid: u32, operation: Operation, source: io::Error) -> DeviceError {
    DeviceError::io(&root.path(format!("/proc/{pid}")), operation, source)
}

/// True for what a lease may name: the kernel's file systems, by a plain absolute path.
pub(super) fn is_leasable(target: &Target) -> bool {
    let Target::Tunable(path) = target else { return true };
    let plain = path.components().skip(1).all(|part| matches!(part, Component::Normal(_)));
    plain && path.to_str().is_some() && ["/proc", "/sys", "/dev"].iter().any(|kernel| path.starts_with(kernel))
}
