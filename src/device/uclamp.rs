//! Utilisation clamps of one task (Documentation/scheduler/sched-util-clamp.rst; Linux 5.3, CONFIG_UCLAMP_TASK).

use std::io;

use super::Root;
use super::scheduling_attributes::SchedulingAttributes;

/// A clamp is a share of the biggest CPU at its highest frequency.
pub const MAXIMUM: u32 = 1024;

const KEEP_POLICY: u64 = 0x08;
const KEEP_PARAMETERS: u64 = 0x10;
const CLAMP_MINIMUM: u64 = 0x20;

/// The files that a kernel with utilisation clamps has: upstream's name, and that of Android's 5.4.
const FILES: [&str; 2] = ["/proc/sys/kernel/sched_util_clamp_min", "/proc/sys/kernel/sched_uclamp_util_min"];

/// The file by which this kernel shows that it clamps utilisation, as named on the device.
pub fn evidence(root: &Root) -> Option<&'static str> {
    FILES.into_iter().find(|file| root.exists(file))
}

/// The lower clamp that task `tid` asked for, 0 to 1024.
///
/// # Errors
/// ESRCH when the task is gone; `Unsupported` when the kernel is older than the clamps.
pub fn minimum(tid: u32) -> io::Result<u32> {
    let attributes = SchedulingAttributes::of(tid)?;
    if !attributes.has_clamps() {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "this kernel is older than utilisation clamps (5.3)"));
    }
    Ok(attributes.clamp_minimum)
}

/// Asks that task `tid` is scheduled as if it used at least `minimum` of 1024; policy, priority and the upper clamp stay.
///
/// # Errors
/// ESRCH when the task is gone, EPERM without CAP_SYS_NICE for another user's task, EOPNOTSUPP without
/// CONFIG_UCLAMP_TASK, EINVAL above [`MAXIMUM`] or above the task's upper clamp.
pub fn set_minimum(tid: u32, minimum: u32) -> io::Result<()> {
    let flags = KEEP_POLICY | KEEP_PARAMETERS | CLAMP_MINIMUM;
    SchedulingAttributes { flags, clamp_minimum: minimum, ..Default::default() }.set(tid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_can_be_clamped_where_the_kernel_clamps() {
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let before = match minimum(tid) {
            Ok(before) => before,
            Err(error) => return eprintln!("skipped: {error}"),
        };
        match set_minimum(tid, 512) {
            Ok(()) => {
                assert_eq!(minimum(tid).unwrap(), 512);
                set_minimum(tid, before).unwrap();
                assert_eq!(minimum(tid).unwrap(), before);
                assert!(set_minimum(tid, MAXIMUM + 1).is_err());
            }
            Err(error) => {
                assert!(evidence(&Root::system()).is_none(), "{error}");
                eprintln!("skipped: {error}");
            }
        }
    }

    #[test]
    fn a_task_that_is_gone_is_an_error() {
        assert_eq!(minimum(u32::from(u16::MAX) << 12).unwrap_err().raw_os_error(), Some(libc::ESRCH));
    }
}
