//! One timer for all deadlines, on the clock of [`BootTime`], disarmed while there are none.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use crate::BootTime;

/// A timer that becomes readable at a given time.
#[derive(Debug)]
pub struct Timer {
    descriptor: OwnedFd,
    deadline: Option<BootTime>,
}

impl Timer {
    /// A disarmed timer.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(Self { descriptor: timerfd_create(TimerfdClockId::Boottime, flags)?, deadline: None })
    }

    /// Arms the timer for `deadline`, or disarms it.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn set(&mut self, deadline: Option<BootTime>) -> io::Result<()> {
        if self.deadline == deadline {
            return Ok(());
        }
        // Zero would disarm it; a time in the past fires at once.
        let nanoseconds = deadline.map_or(0, |deadline| deadline.nanoseconds().max(1));
        let value = Timespec {
            tv_sec: i64::try_from(nanoseconds / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: (nanoseconds % 1_000_000_000) as _,
        };
        let interval = Timespec { tv_sec: 0, tv_nsec: 0 };
        timerfd_settime(
            &self.descriptor,
            TimerfdTimerFlags::ABSTIME,
            &Itimerspec { it_interval: interval, it_value: value },
        )?;
        self.deadline = deadline;
        Ok(())
    }

    /// Acknowledges that the timer fired.
    pub fn acknowledge(&mut self) {
        let mut expirations = [0u8; 8];
        if rustix::io::read(&self.descriptor, &mut expirations).is_ok() {
            self.deadline = None;
        }
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}
