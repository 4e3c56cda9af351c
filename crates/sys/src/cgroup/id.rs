//! The number of a control group of version 2: its folder's inode (cgroup_id of the kernel), as sockets and BPF know it.

use std::fs;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::Root;

/// The number of the group in `folder`; `None` where there is none.
pub fn of(root: &Root, folder: &Path) -> Option<u64> {
    fs::metadata(root.path(folder)).ok().map(|metadata| metadata.ino())
}

/// Those of the groups `ids` that are below the mount point `mount`, with their paths in the hierarchy (`/apps/one`).
pub fn find(root: &Root, mount: &Path, ids: &[u64]) -> Vec<(u64, PathBuf)> {
    let mut found = Vec::new();
    let mut open = vec![PathBuf::from("/")];
    while let Some(group) = open.pop().filter(|_| found.len() < ids.len()) {
        let folder = root.path(folder(mount, &group));
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            let child = group.join(entry.file_name());
            if ids.contains(&entry.ino()) {
                found.push((entry.ino(), child.clone()));
            }
            open.push(child);
        }
    }
    found
}

/// The folder of `group`, a path in the hierarchy that is mounted at `mount`.
pub fn folder(mount: &Path, group: &Path) -> PathBuf {
    mount.join(group.strip_prefix("/").unwrap_or(group))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_trees::root_of;

    // Verifies PLACE-2.
    #[test]
    fn groups_are_found_by_their_numbers() {
        let files = ["a/b/cgroup.procs", "a/c/cgroup.procs", "d/cgroup.procs"].map(|file| format!("/cg/{file}"));
        let files: Vec<(&str, &str)> = files.iter().map(|file| (file.as_str(), "")).collect();
        let (_folder, root) = root_of(&files);
        let mount = Path::new("/cg");
        let id = |group: &str| of(&root, &folder(mount, Path::new(group))).unwrap();
        for groups in [&[][..], &["/a/c"], &["/a", "/a/b", "/d"]] {
            let ids: Vec<u64> = groups.iter().map(|group| id(group)).collect();
            let mut found: Vec<PathBuf> = find(&root, mount, &ids).into_iter().map(|(_, group)| group).collect();
            found.sort();
            assert_eq!(found, groups.iter().map(PathBuf::from).collect::<Vec<_>>());
        }
        assert_eq!(find(&root, mount, &[id("/")]), [], "the root is no group to change");
        assert_eq!(of(&root, Path::new("/cg/none")), None);
    }
}
