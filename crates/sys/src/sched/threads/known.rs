//! What is known of a thread, and what it has used since, whichever sensor sees it.

use std::os::fd::OwnedFd;
use std::time::Duration;

use crate::BootTime;
use crate::process::schedstat::{Schedstat, Usage};

/// A thread that used nothing is sampled again after this long, then after twice and four times as long ...
const QUIET_SAMPLE_NS: u64 = 950_000_000;
const QUIET_DOUBLINGS: u32 = 2;
/// ... and while the CPUs are idle, so that it cannot have used much, up to 64 times.
const IDLE_DOUBLINGS: u32 = 6;
/// One that was awake is sampled every time for so long: it may only have waited for a moment.
const DOZE: Duration = Duration::from_millis(400);
/// Who has run and waited for more than this part of the time since the last look is asked when it was born.
const BUSY_PART: u64 = 10;

/// One thread.
#[derive(Debug)]
pub(super) struct Known {
    /// Its `schedstat`. `None` where it is not sampled so, or where descriptors have run out.
    pub(super) file: Option<OwnedFd>,
    last: Schedstat,
    /// Where the sensor tells.
    pub(super) born: Option<BootTime>,
    pub(super) read_at: BootTime,
    /// Up to when it is known to have used something.
    used_at: BootTime,
    /// Looks in a row in which it had used nothing, once it was quiet for a while.
    quiet_samples: u32,
}

impl Known {
    /// One that is met at `now`, and is not known to have used any of what it `has` used just now.
    pub(super) fn new(now: BootTime, has: Schedstat) -> Self {
        Self { file: None, last: has, born: None, read_at: now, used_at: BootTime::default(), quiet_samples: 0 }
    }

    /// One that was born at that time.
    pub(super) fn born(self, at: BootTime) -> Self {
        Self { born: Some(at), ..self }
    }

    /// One that is kept by its `file`.
    pub(super) fn with_file(self, file: Option<OwnedFd>) -> Self {
        Self { file, ..self }
    }

    /// One that is awake, for it has just begun.
    pub(super) fn awake(self) -> Self {
        Self { used_at: self.read_at, ..self }
    }

    /// True unless it is known to have been born at another time.
    pub(super) fn is_of(&self, born: BootTime) -> bool {
        self.born.is_none_or(|at| at == born)
    }

    /// True when it is worth a sample at `now`.
    pub(super) fn is_due(&self, now: BootTime, are_cpus_idle: bool) -> bool {
        let most = if are_cpus_idle { IDLE_DOUBLINGS } else { QUIET_DOUBLINGS };
        self.quiet_samples
            .checked_sub(1)
            .is_none_or(|doublings| now.since(self.read_at).as_nanos() as u64 >= QUIET_SAMPLE_NS << doublings.min(most))
    }

    /// Makes it worth a sample.
    pub(super) fn wake(&mut self) {
        self.quiet_samples = 0;
    }

    /// Takes what it has used up to `now`; returns what it used since it was sampled last, if anything.
    pub(super) fn take(&mut self, now: BootTime, present: Schedstat) -> Option<Usage> {
        let usage = present.since(self.last, now.since(self.read_at).as_nanos() as u64);
        let is_quiet = usage.slices == 0 && usage.run_ns == 0 && usage.wait_ns == 0;
        if !is_quiet {
            (self.used_at, self.quiet_samples) = (now, 0);
        } else if now.since(self.used_at) >= DOZE {
            self.quiet_samples = self.quiet_samples.saturating_add(1);
        }
        (self.last, self.read_at) = (present, now);
        (!is_quiet && usage.wall_ns > 0).then_some(usage)
    }
}

/// What a thread that was born after `since`, at `born_at`, has used by `now`, where it was busy.
pub(super) fn first_usage(
    has: Schedstat,
    (since, now): (BootTime, BootTime),
    born_at: impl FnOnce() -> BootTime,
) -> Option<Usage> {
    let used = has.since(Schedstat::default(), now.since(since).as_nanos() as u64);
    // Whether the others were born just now or have rested cannot be told.
    if used.run_ns + used.wait_ns < used.wall_ns / BUSY_PART {
        return None;
    }
    let wall_ns = now.since(born_at().max(since)).as_nanos() as u64;
    (wall_ns > 0).then_some(Usage { wall_ns, ..used })
}
