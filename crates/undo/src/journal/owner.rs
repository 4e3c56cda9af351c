//! The user that owns a journal: root restores the leases of the service with the service's rights only.

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

/// The user that owns the journal in `folder`, if this process runs as root and that user is not root.
pub fn other_owner(folder: &Path) -> Option<u32> {
    let owner = folder.symlink_metadata().ok()?.uid();
    (geteuid().is_root() && owner != 0).then_some(owner)
}

/// Turns the calling thread from root into the owner of `folder`: its user and group, no other groups, and no capability but
/// CAP_SYS_NICE, with which the service restores masks and priorities. Other threads do not change.
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

/// Gives tunables to the owner of a journal until dropped, so that the owner can restore them: they were granted to the
/// service only while it ran.
#[derive(Debug)]
pub struct TunableGrant {
    root: Root,
    files: Vec<PathBuf>,
}

impl TunableGrant {
    /// Takes the tunables that `holder`'s journal in `folder` names and may hold, and that belong to root.
    pub fn of(holder: Holder, folder: &Path, root: &Root, owner: u32) -> Self {
        let mut access = Access::new(holder, root);
        let leases = Log::peek(folder).ok().flatten().unwrap_or_default().leases;
        let files =
            leases.into_iter().filter(|lease| access.may_restore(lease)).filter_map(|lease| match lease.target {
                Target::Tunable(file) if grant::is_grantable(&file) => Some(file),
                _ => None,
            });
        // A file that cannot be given: the owner's restore of it will fail and report that.
        let files = files.filter(|file| grant::give(root, file, owner).unwrap_or(false)).collect();
        Self { root: root.clone(), files }
    }
}

impl Drop for TunableGrant {
    fn drop(&mut self) {
        self.files.iter().for_each(|file| grant::revoke(&self.root, file));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Verifies SECURITY-1.
    #[test]
    fn root_becomes_the_owner_with_only_cap_sys_nice() {
        if !geteuid().is_root() {
            eprintln!("skipped: only root can become another user");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(other_owner(folder.path()), None, "root owns it");
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
