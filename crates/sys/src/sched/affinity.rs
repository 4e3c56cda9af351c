//! The CPUs that a thread may run on: `Cpus_allowed_list` of /proc/TID/status and sched_setaffinity(2).
//!
//! Reads the file, not sched_getaffinity(2): the call leaves out CPUs that are offline now, so its result cannot be restored
//! later.

use std::io;

use crate::cpu::hotplug;
use crate::{DeviceError, Root};

/// Covers all CPUs that the lists of [`hotplug::parse_list`] can name.
const MASK_WORDS: usize = 8192 / WORD_BITS;
const WORD_BITS: usize = usize::BITS as usize;

/// The CPUs that thread `tid` may run on, ascending, including offline ones.
///
/// # Errors
/// [`DeviceError::is_missing`] when it has ended, [`DeviceError::is_malformed`] when the kernel does not report them.
pub fn allowed(root: &Root, tid: u32) -> Result<Vec<u32>, DeviceError> {
    let file = format!("/proc/{tid}/status");
    let text = root.read(&file)?;
    parse_allowed(&text)
        .ok_or_else(|| DeviceError::malformed(&root.path(&file), "a line `Cpus_allowed_list:` with CPUs", &text))
}

/// The CPUs of the `Cpus_allowed_list:` line.
pub fn parse_allowed(status: &str) -> Option<Vec<u32>> {
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    hotplug::parse_list(list).filter(|cpus| !cpus.is_empty())
}

/// Restricts thread `tid` to `cpus`. The kernel uses those of them that are online and in its cpuset.
///
/// # Errors
/// ESRCH when it has ended, EINVAL when none of `cpus` is usable (an empty mask never reaches the kernel), EPERM without
/// CAP_SYS_NICE for another user's thread.
pub fn set(tid: u32, cpus: &[u32]) -> io::Result<()> {
    let mut mask = [0usize; MASK_WORDS];
    for &cpu in cpus {
        let cpu = cpu as usize;
        let word = mask.get_mut(cpu / WORD_BITS).ok_or(io::ErrorKind::InvalidInput)?;
        *word |= 1 << (cpu % WORD_BITS);
    }
    let Some(last) = mask.iter().rposition(|&word| word != 0) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let bytes = (last + 1) * size_of::<usize>();
    // SAFETY: the kernel only reads `bytes` bytes of `mask`, which is longer and outlives the call.
    let result = unsafe { libc::syscall(libc::SYS_sched_setaffinity, tid as libc::pid_t, bytes, mask.as_ptr()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The calling thread's CPU mask, narrowed temporarily. It ends with the thread, so it need not be restored.
#[derive(Debug, Default)]
pub struct OwnMask {
    /// The narrowed mask, and the one before.
    narrowed: Option<[Vec<u32>; 2]>,
}

impl OwnMask {
    /// Restricts the calling thread to `cpus`, or restores the mask that it had before, which it also has after a refusal.
    pub fn narrow_to(&mut self, cpus: Option<&[u32]>) {
        if self.narrowed.as_ref().map(|[narrowed, _]| narrowed.as_slice()) == cpus {
            return;
        }
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        if let Some([_, before]) = self.narrowed.take() {
            let _ = set(tid, &before);
        }
        self.narrowed = cpus.and_then(|cpus| {
            let before = allowed(&Root::system(), tid).ok()?;
            set(tid, cpus).ok().map(|()| [cpus.to_vec(), before])
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_found_among_the_other_lines() {
        let status = "Name:\tsh\nCpus_allowed:\tff\nCpus_allowed_list:\t0-3,5\nMems_allowed_list:\t0\n";
        assert_eq!(parse_allowed(status), Some(vec![0, 1, 2, 3, 5]));
        for status in ["", "Cpus_allowed_list:\t\n", "Cpus_allowed_list:\tall\n", "Cpus_allowed:\tff\n"] {
            assert_eq!(parse_allowed(status), None, "{status:?}");
        }
    }

    #[test]
    fn a_thread_is_confined_and_its_mask_restored() {
        std::thread::spawn(|| {
            let root = Root::system();
            let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
            let before = allowed(&root, tid).unwrap();
            let online = hotplug::online(&root).unwrap();
            let one = *before.iter().find(|cpu| online.contains(cpu)).unwrap();
            set(tid, &[one]).unwrap();
            assert_eq!(allowed(&root, tid).unwrap(), [one]);
            set(tid, &before).unwrap();
            let after = allowed(&root, tid).unwrap();
            assert!(after.iter().all(|cpu| before.contains(cpu)) && after.contains(&one), "{after:?} of {before:?}");
        })
        .join()
        .unwrap();
    }

    // Verifies PLACE-3.
    #[test]
    fn a_threads_own_mask_is_narrowed_and_restored() {
        std::thread::spawn(|| {
            let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
            let online = hotplug::online(&Root::system()).unwrap();
            let mine = || -> Vec<u32> {
                allowed(&Root::system(), tid).unwrap().into_iter().filter(|cpu| online.contains(cpu)).collect()
            };
            let (before, mut mask) = (mine(), OwnMask::default());
            for cpus in [&before[..1], &before[before.len() - 1..]] {
                mask.narrow_to(Some(cpus));
                assert_eq!(mine(), cpus);
            }
            mask.narrow_to(Some(&[8191]));
            assert_eq!(mine(), before, "there is no such CPU");
            mask.narrow_to(Some(&before[..1]));
            mask.narrow_to(None);
            assert_eq!(mine(), before);
        })
        .join()
        .unwrap();
    }

    // Verifies PLACE-4.
    #[test]
    fn empty_masks_and_threads_that_have_exited_are_refused() {
        assert_eq!(set(0, &[]).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(set(0, &[1 << 20]).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(set(u32::from(u16::MAX) << 12, &[0]).unwrap_err().raw_os_error(), Some(libc::ESRCH));
    }
}
