//! The user whose journal it is: root restores what the service has leased with the rights of the service, and no other.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::process::{Gid, Uid, geteuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, set_capabilities, set_keep_capabilities, set_thread_groups, set_thread_res_gid,
    set_thread_res_uid,
};

use super::Holder;
use super::access::Access;
use super::log::Log;
use brisk_sys::system::grant;
use brisk_sys::{Root, Target};

/// The user to whom the journal in `folder` belongs, where this process is root's and the folder is not.
pub fn other_owner(folder: &Path) -> Option<u32> {
    let owner = folder.symlink_metadata().ok()?.uid();
    (geteuid().is_root() && owner != 0).then_some(owner)
}

/// Makes root the owner of `folder`: user and group, no other groups, and of all capabilities CAP_SYS_NICE, which is what
/// the service restores masks and priorities with. Only the calling thread changes.
///
/// # Errors
/// When root may not change its user, as in some containers.
pub fn become_owner(folder: &Path) -> io::Result<()> {
    let metadata = folder.symlink_metadata()?;
    let (user, group) = (Uid::from_raw(metadata.uid()), Gid::from_raw(metadata.gid()));
    let rights = CapabilitySet::SYS_NICE;
    set_thread_groups(&[])?;
    set_thread_res_gid(group, group, group)?;
    set_keep_capabilities(true)?;
    set_thread_res_uid(user, user, user)?;
    set_capabilities(
        None,
        CapabilitySets { effective: rights, permitted: rights, inheritable: CapabilitySet::empty() },
    )?;
    Ok(())
}

/// Tunables that belong to the owner of a journal for as long as this lives, so that it can restore them: the service had
/// them granted while it ran, and has not any more.
#[derive(Debug)]
pub struct Loan {
    root: Root,
    files: Vec<PathBuf>,
}

impl Loan {
    /// Those that the journal of `holder` in `folder` names and may name, and that belong to root.
    pub fn of(holder: Holder, folder: &Path, root: &Root, owner: u32) -> Self {
        let mut access = Access::new(holder, root);
        let leases = Log::peek(folder).ok().flatten().unwrap_or_default().leases;
        let files =
            leases.into_iter().filter(|lease| access.may_restore(lease)).filter_map(|lease| match lease.target {
                Target::Tunable(file) if grant::is_grantable(&file) => Some(file),
                _ => None,
            });
        // What cannot be lent is refused to the owner, who says so.
        let files = files.filter(|file| grant::give(root, file, owner).unwrap_or(false)).collect();
        Self { root: root.clone(), files }
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.files.iter().for_each(|file| grant::take_back(&self.root, file));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Verifies SECURITY-1.
    #[test]
    fn root_becomes_the_owner_with_one_right_left() {
        if !geteuid().is_root() {
            eprintln!("skipped: only root can become another user");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(other_owner(folder.path()), None, "root's own");
        assert_eq!(other_owner(&folder.path().join("none")), None);
        std::os::unix::fs::chown(folder.path(), Some(23_456), Some(34_567)).unwrap();
        assert_eq!(other_owner(folder.path()), Some(23_456));
        let path = folder.path().to_owned();
        let status = std::thread::spawn(move || {
            become_owner(&path).unwrap();
            std::fs::read_to_string("/proc/thread-self/status").unwrap()
        });
        let status = status.join().unwrap();
        for line in [
            "Uid:\t23456\t23456\t23456\t23456",
            "Gid:\t34567\t34567\t34567\t34567",
            "Groups:\t",
            // CAP_SYS_NICE is bit 23 (linux/capability.h).
            "CapPrm:\t0000000000800000",
            "CapEff:\t0000000000800000",
        ] {
            assert!(status.lines().any(|found| found.trim_end() == line.trim_end()), "{line}: {status}");
        }
        assert!(geteuid().is_root(), "the other threads stay root's");
    }
}
