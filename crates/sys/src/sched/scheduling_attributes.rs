//! The scheduling attributes of one thread: sched_getattr(2) and sched_setattr(2) (Linux 3.14).

use std::io;

/// `struct sched_attr` of linux/sched/types.h since 5.3. An older kernel knows its first 48 bytes, and accepts and returns this
/// size too as long as the rest is zero.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SchedulingAttributes {
    /// The structure's size: [`Self::of`] fills in how much the kernel knows of it; [`Self::set`] sets it.
    pub(super) size: u32,
    pub(super) policy: u32,
    pub(super) flags: u64,
    pub(super) nice: i32,
    pub(super) priority: u32,
    pub(super) runtime: u64,
    pub(super) deadline: u64,
    pub(super) period: u64,
    pub(super) clamp_minimum: u32,
    pub(super) clamp_maximum: u32,
}

const BYTES: u32 = size_of::<SchedulingAttributes>() as u32;
const _: () = assert!(BYTES == 56);

impl SchedulingAttributes {
    /// The attributes of thread `tid`.
    ///
    /// # Errors
    /// ESRCH when it has ended, ENOSYS before Linux 3.14.
    pub(super) fn of(tid: u32) -> io::Result<Self> {
        let mut attributes = Self::default();
        // SAFETY: the kernel writes at most BYTES bytes into `attributes`, which is that large, plain data, and outlives
        // the call.
        let result =
            unsafe { libc::syscall(libc::SYS_sched_getattr, tid as libc::pid_t, &raw mut attributes, BYTES, 0u32) };
        if result == 0 { Ok(attributes) } else { Err(io::Error::last_os_error()) }
    }

    /// Sets them for thread `tid`, except those that `flags` says to keep.
    ///
    /// # Errors
    /// ESRCH when it has ended, EPERM without CAP_SYS_NICE, EINVAL and EOPNOTSUPP for what this kernel cannot set.
    pub(super) fn set(mut self, tid: u32) -> io::Result<()> {
        self.size = BYTES;
        // SAFETY: the kernel only reads BYTES bytes of `self`, which outlives the call.
        let result = unsafe { libc::syscall(libc::SYS_sched_setattr, tid as libc::pid_t, &raw const self, 0u32) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// True when the kernel has utilisation clamps (5.3).
    pub(super) fn has_clamps(&self) -> bool {
        self.size >= BYTES
    }
}
