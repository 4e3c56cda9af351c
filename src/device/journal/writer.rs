//! Undoing, as root, what a daemon has left that runs as a user of its own.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::process::{Uid, geteuid};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_keep_capabilities, set_thread_res_uid};

/// Makes root the owner of the journal's folder, with the rights that the service has to write tunables and no other:
/// so whoever can write the journal gets nothing written that the service could not write itself. Only the calling
/// thread changes. Nothing happens for other users, for root's own journal, and where there is none.
///
/// # Errors
/// When root may not change its user, as in some containers.
pub fn become_writer(folder: &Path) -> io::Result<()> {
    let owner = match folder.symlink_metadata() {
        Ok(metadata) => metadata.uid(),
        Err(_) => return Ok(()),
    };
    if !geteuid().is_root() || owner == 0 {
        return Ok(());
    }
    let owner = Uid::from_raw(owner);
    let rights = CapabilitySet::DAC_OVERRIDE | CapabilitySet::SYS_NICE;
    set_keep_capabilities(true)?;
    set_thread_res_uid(owner, owner, owner)?;
    set_capabilities(
        None,
        CapabilitySets { effective: rights, permitted: rights, inheritable: CapabilitySet::empty() },
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_becomes_the_writer_with_two_rights_left() {
        if !geteuid().is_root() {
            eprintln!("skipped: only root can become another user");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::chown(folder.path(), Some(23_456), None).unwrap();
        let path = folder.path().to_owned();
        let status = std::thread::spawn(move || {
            become_writer(&path).unwrap();
            std::fs::read_to_string("/proc/thread-self/status").unwrap()
        });
        let status = status.join().unwrap();
        assert!(status.contains("\nUid:\t23456\t23456\t23456\t23456\n"), "{status}");
        // CAP_DAC_OVERRIDE is bit 1, CAP_SYS_NICE bit 23 (linux/capability.h).
        assert!(status.contains("\nCapPrm:\t0000000000800002\nCapEff:\t0000000000800002\n"), "{status}");
        assert!(geteuid().is_root(), "the other threads stay root's");
    }

    #[test]
    fn ones_own_journal_and_a_missing_one_change_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let before = geteuid();
        become_writer(folder.path()).unwrap();
        become_writer(&folder.path().join("none")).unwrap();
        assert_eq!(geteuid(), before);
    }
}
