//! The number of a control group of version 2: its folder's inode (cgroup_id of the kernel), as sockets and BPF know it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::hierarchy::children;
use crate::Root;

/// The number of the group in `folder`; `None` where there is none.
pub fn of(root: &Root, folder: &Path) -> Option<u64> {
    fs::metadata(root.path(folder)).ok().map(|metadata| metadata.ino())
}

/// Those of the groups `ids` that are below the mount point `mount`, with their paths in the hierarchy (`/apps/one`).
pub fn find(root: &Root, mount: &Path, ids: &[u64]) -> Vec<(u64, PathBuf)> {
    let mut found = Vec::new();
    let mut open = vec![mount.to_owned()];
    while let Some(parent) = open.pop().filter(|_| found.len() < ids.len()) {
        for child in children(root, &parent) {
            if let Some(id) = of(root, &child).filter(|id| ids.contains(id)) {
                found.push((id, Path::new("/").join(child.strip_prefix(mount).unwrap_or(&child))));
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
