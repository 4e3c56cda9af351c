//! Utilisation clamps of one task (Documentation/scheduler/sched-util-clamp.rst; Linux 5.3, CONFIG_UCLAMP_TASK).
//!
//! What the kernel does with them, by kernel/sched/{core,fair,cpufreq_schedutil}.c:
//! - The highest clamp of all threads that run or wait on a CPU applies to it: a low clamp slows down no thread that has a high
//!   one, and saves energy only where no other thread is. The utilisation itself is never changed.
//! - On unequal CPUs a task wakes up where its clamped utilisation fits, from 5.6 on. No clamp moves a task off a bigger CPU or keeps
//!   it from one.
//! - schedutil requests the clamped utilisation and a quarter more, from 6.8 on no more than the clamp.
//! - A child inherits its parent's clamps, unless the parent has SCHED_FLAG_RESET_ON_FORK; a change of policy or priority keeps
//!   clamps that were requested, and a change of clamps keeps policy, priority and that flag.
//! - A lower clamp above the upper one is refused (EINVAL); a group's clamp (`cpu.uclamp.max`) applies beside a task's own.
//! - From 5.9 on nothing is accounted before a process sets the first clamp, and everything from then on until the next boot:
//!   that costs a little on each wake-up, and cannot be undone.

use std::io;

use crate::Root;
use crate::sched::scheduling_attributes::SchedulingAttributes;

/// A clamp is a share of the biggest CPU at its highest frequency.
pub const MAXIMUM: u32 = 1024;

const KEEP_POLICY: u64 = 0x08;
const KEEP_PARAMETERS: u64 = 0x10;
const CLAMP_MINIMUM: u64 = 0x20;
const CLAMP_MAXIMUM: u64 = 0x40;

/// The files that a kernel with utilisation clamps has: upstream's name, and that of Android's 5.4.
const FILES: [&str; 2] = ["/proc/sys/kernel/sched_util_clamp_min", "/proc/sys/kernel/sched_uclamp_util_min"];

/// The clamps that a task requested, each 0 to 1024; its group and the system may allow less.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clamps {
    /// It is scheduled as if it used at least this much.
    pub minimum: u32,
    /// It is scheduled as if it used at most this much.
    pub maximum: u32,
}

/// The file that shows that this kernel has utilisation clamps, as named on the device.
pub fn support_file(root: &Root) -> Option<&'static str> {
    FILES.into_iter().find(|file| root.exists(file))
}

/// The clamps that task `tid` requested.
///
/// # Errors
/// ESRCH when the task has exited; `Unsupported` when the kernel is older than the clamps.
pub fn of(tid: u32) -> io::Result<Clamps> {
    let attributes = SchedulingAttributes::of(tid)?;
    let clamps = Clamps { minimum: attributes.clamp_minimum, maximum: attributes.clamp_maximum };
    attributes
        .has_clamps()
        .then_some(clamps)
        .ok_or_else(|| io::Error::new(io::ErrorKind::Unsupported, "this kernel is older than utilisation clamps (5.3)"))
}

/// Requests that task `tid` is scheduled as if it used at least `minimum` of 1024; policy, priority and upper clamp stay.
///
/// # Errors
/// ESRCH when the task has exited, EPERM without CAP_SYS_NICE for another user's task, EOPNOTSUPP without CONFIG_UCLAMP_TASK,
/// EINVAL above [`MAXIMUM`] or above the task's upper clamp.
pub fn set_minimum(tid: u32, minimum: u32) -> io::Result<()> {
    let flags = KEEP_POLICY | KEEP_PARAMETERS | CLAMP_MINIMUM;
    SchedulingAttributes { flags, clamp_minimum: minimum, ..Default::default() }.set(tid)
}

/// Requests that task `tid` is scheduled as if it used at most `maximum` of 1024; policy, priority and lower clamp stay.
///
/// # Errors
/// As [`set_minimum`]; EINVAL below the task's lower clamp.
pub fn set_maximum(tid: u32, maximum: u32) -> io::Result<()> {
    let flags = KEEP_POLICY | KEEP_PARAMETERS | CLAMP_MAXIMUM;
    SchedulingAttributes { flags, clamp_maximum: maximum, ..Default::default() }.set(tid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::priority::{self, SchedulingPolicy};

    // Verifies PLACE-5.
    #[test]
    fn this_thread_keeps_its_policy_while_it_is_clamped() {
        let clamped = || -> io::Result<()> {
            let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
            let (before, priority) = (of(tid)?, priority::of(tid)?);
            set_minimum(tid, 512)?;
            set_maximum(tid, 600)?;
            let clamped = Clamps { minimum: 512, maximum: 600 };
            assert_eq!((of(tid)?, priority::of(tid)?), (clamped, priority));
            assert!(set_maximum(tid, 511).is_err() && set_minimum(tid, 601).is_err(), "neither passes the other");
            priority::set(tid, priority::Priority { policy: SchedulingPolicy::Idle, nice: 5 })?;
            assert_eq!(of(tid)?, clamped, "a change of priority keeps clamps");
            let child = std::thread::spawn(|| of(rustix::thread::gettid().as_raw_nonzero().get() as u32));
            assert_eq!(child.join().unwrap()?, clamped, "inherited");
            set_minimum(tid, before.minimum)?;
            set_maximum(tid, before.maximum)?;
            assert_eq!(of(tid)?, before);
            assert!(set_minimum(tid, MAXIMUM + 1).is_err() && set_maximum(tid, MAXIMUM + 1).is_err());
            Ok(())
        };
        // A separate thread: only root may return to a better priority.
        match std::thread::spawn(clamped).join().unwrap() {
            Ok(()) => {}
            Err(error) => {
                assert!(support_file(&Root::system()).is_none(), "{error}");
                eprintln!("skipped: {error}");
            }
        }
    }

    #[test]
    fn a_task_that_has_exited_is_an_error() {
        let gone = u32::from(u16::MAX) << 12;
        assert_eq!(of(gone).unwrap_err().raw_os_error(), Some(libc::ESRCH));
        assert_eq!(set_maximum(gone, MAXIMUM).unwrap_err().raw_os_error(), Some(libc::ESRCH));
    }
}
