//! Keeping this process's own pages in memory: mlockall(2), within RLIMIT_MEMLOCK.

use std::io;

use rustix::mm::{MapFlags, MlockAllFlags, ProtFlags, mlockall, mmap_anonymous, munmap};
use rustix::process::{Resource, getrlimit};

/// What this process must still be able to map while all its mappings are locked.
const ROOM_BYTES: usize = 16 << 20;

/// What is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Locked {
    /// Everything, as it is used.
    All,
    /// What is mapped now. The limit has no room for more, and an allocation beyond it would fail.
    MappedNow,
}

/// Locks the pages of this process as they are used.
///
/// # Errors
/// ENOMEM or EPERM when the limit is too low for what is mapped now (nothing is locked then), EINVAL before Linux 4.4.
pub fn lock_as_used() -> io::Result<Locked> {
    let now = MlockAllFlags::CURRENT | MlockAllFlags::ONFAULT;
    mlockall(now | MlockAllFlags::FUTURE)?;
    if has_room() {
        return Ok(Locked::All);
    }
    mlockall(now)?;
    Ok(Locked::MappedNow)
}

fn has_room() -> bool {
    // SAFETY: a new private mapping at an address that the kernel chooses, which no code may access.
    let room = unsafe { mmap_anonymous(std::ptr::null_mut(), ROOM_BYTES, ProtFlags::empty(), MapFlags::PRIVATE) };
    let Ok(room) = room else { return false };
    // SAFETY: exactly the mapping that was made above, and nothing points into it.
    let _ = unsafe { munmap(room, ROOM_BYTES) };
    true
}

/// How much this process may lock without CAP_IPC_LOCK; `None` for no limit.
pub fn limit_kib() -> Option<u64> {
    getrlimit(Resource::Memlock).current.map(|bytes| bytes >> 10)
}
