//! Taking memory from a control group of version 2 (cgroup-v2.rst, "Memory": `memory.reclaim`, Linux 5.19).

use std::fs;
use std::path::{Path, PathBuf};

use super::hierarchy::{Hierarchy, group_in};
use crate::device::{DeviceError, Root};

/// Whether the group in `folder` has groups of its own.
fn has_groups(root: &Root, folder: &Path) -> bool {
    let mut entries = fs::read_dir(root.path(folder)).into_iter().flatten().flatten();
    entries.any(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
}

/// The group of process `pid` below `mount` whose memory can be taken at once: one that has no groups below itself, and is
/// not the root.
pub fn reclaimable(root: &Root, mount: &Path, pid: u32) -> Option<PathBuf> {
    let text = root.read(format!("/proc/{pid}/cgroup")).ok()?;
    let group = group_in(&text, Hierarchy::Unified)?.trim_start_matches('/');
    let folder = mount.join(group);
    let is_own = !group.is_empty() && root.exists(folder.join("memory.reclaim")) && !has_groups(root, &folder);
    is_own.then_some(folder)
}

/// Takes `kib` from the group in `folder`, what was used longest ago first, pages of files included.
///
/// # Errors
/// EAGAIN when so much cannot be taken any more.
pub fn reclaim(root: &Root, folder: &Path, kib: u64) -> Result<(), DeviceError> {
    root.write(folder.join("memory.reclaim"), &format!("{kib}K"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::cgroup::hierarchy::{members, unified};

    /// A tree of groups: each file with its text.
    fn device(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        for (file, text) in files {
            let path = root.path(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        (folder, root)
    }

    #[test]
    fn only_a_group_of_an_applications_own_is_taken_from() {
        let (folder, root) = device(&[
            ("/proc/mounts", "cgroup2 /cg cgroup2 rw 0 0\n"),
            ("/proc/7/cgroup", "0::/apps/gallery\n"),
            ("/proc/8/cgroup", "0::/apps\n"),
            ("/proc/9/cgroup", "0::/\n"),
            ("/proc/10/cgroup", "0::/old\n"),
            ("/cg/memory.reclaim", ""),
            ("/cg/apps/memory.reclaim", ""),
            ("/cg/apps/gallery/memory.reclaim", ""),
            ("/cg/old/memory.current", "1\n"),
            ("/cg/apps/gallery/cgroup.procs", "7\n12\n"),
        ]);
        let mount = unified(&root).unwrap();
        let found = [7, 8, 9, 10, 11].map(|pid| reclaimable(&root, &mount, pid));
        let gallery = PathBuf::from("/cg/apps/gallery");
        assert_eq!(found, [Some(gallery.clone()), None, None, None, None]);
        assert_eq!(members(&root, &gallery).unwrap(), [7, 12]);
        reclaim(&root, &gallery, 512).unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("cg/apps/gallery/memory.reclaim")).unwrap(), "512K");
    }
}
