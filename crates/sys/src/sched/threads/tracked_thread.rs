//! The state of a known thread and its usage since the last sample, for both sensors.

use std::os::fd::OwnedFd;
use std::time::Duration;

use crate::BootTime;
use crate::process::schedstat::{Schedstat, Usage};

/// A thread without usage is sampled again after this long, then after twice and four times as long ...
const QUIET_SAMPLE_NS: u64 = 950_000_000;
const QUIET_DOUBLINGS: u32 = 2;
/// ... and while the CPUs are idle, so that it cannot have used much, up to 64 times.
const IDLE_DOUBLINGS: u32 = 6;
/// A thread that was active is sampled every time for this long: it may only have blocked briefly.
const QUIET_DELAY: Duration = Duration::from_millis(400);
/// What a new thread has used since its creation counts only if it ran and waited for at least this part of the time since the last
/// sample: only then its creation time is read.
pub const NEW_AND_BUSY_DIVISOR: u64 = 10;

/// One thread.
#[derive(Debug)]
pub(super) struct TrackedThread {
    /// Its `schedstat`; `None` with the BPF sensor, or where descriptors have run out.
    pub(super) file: Option<OwnedFd>,
    last: Schedstat,
    /// Its creation time, where the sensor reports it.
    pub(super) born: Option<BootTime>,
    pub(super) read_at: BootTime,
    /// When usage was last seen.
    used_at: BootTime,
    /// Consecutive samples without usage, counted once it was quiet for [`QUIET_DELAY`].
    quiet_samples: u32,
}

impl TrackedThread {
    /// A thread found at `now`; nothing of its usage so far, `has`, is known to be recent.
    pub(super) fn new(now: BootTime, has: Schedstat) -> Self {
        Self { file: None, last: has, born: None, read_at: now, used_at: BootTime::default(), quiet_samples: 0 }
    }

    /// The same with its creation time.
    pub(super) fn born(self, at: BootTime) -> Self {
        Self { born: Some(at), ..self }
    }

    /// The same with its `file`.
    pub(super) fn with_file(self, file: Option<OwnedFd>) -> Self {
        Self { file, ..self }
    }

    /// The same, marked as awake because it was just created.
    pub(super) fn awake(self) -> Self {
        Self { used_at: self.read_at, ..self }
    }

    /// True unless it is known to have been created at another time.
    pub(super) fn is_of(&self, born: BootTime) -> bool {
        self.born.is_none_or(|at| at == born)
    }

    /// True when it is due for a sample at `now`.
    pub(super) fn is_due(&self, now: BootTime, are_cpus_idle: bool) -> bool {
        let most = if are_cpus_idle { IDLE_DOUBLINGS } else { QUIET_DOUBLINGS };
        self.quiet_samples
            .checked_sub(1)
            .is_none_or(|doublings| now.since(self.read_at).as_nanos() as u64 >= QUIET_SAMPLE_NS << doublings.min(most))
    }

    /// Makes it due for a sample.
    pub(super) fn wake(&mut self) {
        self.quiet_samples = 0;
    }

    /// Records its usage up to `now`; returns the usage since its last sample, if any.
    pub(super) fn take(&mut self, now: BootTime, present: Schedstat) -> Option<Usage> {
        let usage = present.since(self.last, now.since(self.read_at).as_nanos() as u64);
        let is_quiet = usage.slices == 0 && usage.run_ns == 0 && usage.wait_ns == 0;
        if !is_quiet {
            (self.used_at, self.quiet_samples) = (now, 0);
        } else if now.since(self.used_at) >= QUIET_DELAY {
            self.quiet_samples = self.quiet_samples.saturating_add(1);
        }
        (self.last, self.read_at) = (present, now);
        (!is_quiet && usage.wall_ns > 0).then_some(usage)
    }
}

/// The usage at `now` of a thread that was created after `since`, at `born_at`, if it was busy.
pub(super) fn first_usage(
    has: Schedstat,
    (since, now): (BootTime, BootTime),
    born_at: impl FnOnce() -> BootTime,
) -> Option<Usage> {
    let used = has.since(Schedstat::default(), now.since(since).as_nanos() as u64);
    // Whether a less busy thread was created just now or has slept is unknown.
    if used.run_ns + used.wait_ns < used.wall_ns / NEW_AND_BUSY_DIVISOR {
        return None;
    }
    let wall_ns = now.since(born_at().max(since)).as_nanos() as u64;
    (wall_ns > 0).then_some(Usage { wall_ns, ..used })
}
