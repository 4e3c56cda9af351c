//! Acting as another user temporarily: the driver checks the caller and the opener (setresuid(2)).

use rustix::io::Errno;
use rustix::process::Uid;
use rustix::thread::set_thread_res_uid;

/// Runs `act` with the effective user `uid`, in this thread only; the process can still become root again.
///
/// # Errors
/// EPERM when this is not root.
pub fn as_user<T>(uid: u32, act: impl FnOnce() -> T) -> Result<T, Errno> {
    let become_user = |uid| set_thread_res_uid(Uid::ROOT, Uid::from_raw(uid), Uid::ROOT);
    become_user(uid)?;
    let outcome = act();
    become_user(0)?;
    Ok(outcome)
}
