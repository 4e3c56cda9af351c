//! The weight of a control group of version 2 among its siblings (cgroup-v2.rst, "CPU"): `cpu.weight` and `cpu.idle` as one
//! value, since the kernel discards the first when the second is set. A group that is a systemd unit gets its weight from its
//! manager ([`super::unit`]).

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::group::is_ours;
use super::hierarchy::{children, members};
use super::unit::{Unit, Units};
use crate::{DeviceError, Root};

pub use super::unit::IDLE;

const FILE: &str = "cpu.weight";
const IDLE_FILE: &str = "cpu.idle";
/// A sub-tree with more groups than this is not read at all.
const MOST_GROUPS: usize = 512;

/// One sample of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WeighedGroup {
    pub folder: PathBuf,
    /// Its weight; none where brisk must not change it: its siblings are outside the sub-tree, a manager controls it, or it is
    /// idle already.
    pub weight: Option<u32>,
    /// Its processes, without those of its children, unless those are threaded.
    pub pids: Vec<u32>,
}

/// The weight of the group in `folder`: 1 to 10000, or [`IDLE`]. For a unit that has ended, the weight that was set at runtime.
///
/// # Errors
/// [`DeviceError::is_missing`] when the group was removed or its parent does not enable the `cpu` controller.
pub fn read(root: &Root, folder: &Path) -> Result<String, DeviceError> {
    match root.read(folder.join(IDLE_FILE)) {
        Ok(idle) if idle == "1" => Ok(IDLE.to_owned()),
        _ => root.read(folder.join(FILE)).or_else(|error| match Unit::of(root, folder) {
            Some(unit) if error.is_missing() => unit.set_at_runtime(root),
            _ => Err(error),
        }),
    }
}

/// Sets the weight of the group in `folder` to `value`. Before Linux 5.15 there are no idle groups, and the lowest weight is
/// the closest substitute.
///
/// # Errors
/// With the kernel's answer (ERANGE for an invalid weight) or the manager's.
pub fn write(root: &Root, folder: &Path, value: &str) -> Result<(), DeviceError> {
    if let Some(unit) = Unit::of(root, folder) {
        return unit.set_weight(root, value);
    }
    let (weight, idle) = (folder.join(FILE), folder.join(IDLE_FILE));
    match value {
        IDLE if root.exists(&idle) => root.write(&idle, "1"),
        IDLE => root.write(&weight, "1"),
        _ => {
            // An idle group refuses a weight: EINVAL.
            if root.read(&idle).is_ok_and(|idle| idle != "0") {
                root.write(&idle, "0")?;
            }
            root.write(&weight, value)
        }
    }
}

/// The group in `tree` and all below it that hold processes of their own, each followed by its descendants.
pub fn groups(root: &Root, tree: &Path) -> Vec<WeighedGroup> {
    // A systemd runs in that group and manages its siblings.
    let is_managed = |folder: &Path| root.exists(folder.join("init.scope"));
    let is_below = |folder: &&Path| folder.starts_with(tree);
    walk(root, tree, |folder| folder != tree && !folder.ancestors().skip(1).take_while(is_below).any(is_managed))
}

/// The groups of the hierarchy at `top`, each followed by its descendants; those of systemd units have a weight where this
/// process may call their manager.
pub fn units(root: &Root, top: &Path) -> Vec<WeighedGroup> {
    let mut units = Units::of(root, top);
    walk(root, top, |folder| units.may_change(folder))
}

/// The group in `top` and all below it, each followed by its descendants, with the weights of those that may be changed.
fn walk(root: &Root, top: &Path, mut may_change: impl FnMut(&Path) -> bool) -> Vec<WeighedGroup> {
    let mut found = Vec::new();
    let mut next = vec![top.to_owned()];
    while let Some(folder) = next.pop() {
        if found.len() == MOST_GROUPS {
            return Vec::new();
        }
        next.extend(children(root, &folder).filter(|child| !is_ours(child) && !is_threaded(root, child)));
        let weight = || read(root, &folder).ok()?.parse().ok();
        let weight = may_change(&folder).then(weight).flatten();
        let pids = members(root, &folder).unwrap_or_default();
        found.push(WeighedGroup { folder, weight, pids });
    }
    found
}

/// Its processes are those of an ancestor.
fn is_threaded(root: &Root, folder: &Path) -> bool {
    root.read(folder.join("cgroup.type")).is_ok_and(|kind| kind == "threaded")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::test_trees::root_of;

    // Verifies PLACE-4.
    #[test]
    fn weight_and_idleness_are_one_value() {
        let (_folder, root) = root_of(&[
            ("/cg/new/cpu.weight", "50\n"),
            ("/cg/new/cpu.idle", "0\n"),
            ("/cg/old/cpu.weight", "100\n"),
            ("/cg/none/cgroup.procs", ""),
        ]);
        for (group, value, expected) in
            [("new", "5", "5"), ("new", IDLE, IDLE), ("new", "50", "50"), ("old", IDLE, "1"), ("old", "100", "100")]
        {
            let folder = Path::new("/cg").join(group);
            write(&root, &folder, value).unwrap();
            assert_eq!(read(&root, &folder).unwrap(), expected, "{group} {value}");
        }
        assert_eq!(root.read("/cg/new/cpu.idle").unwrap(), "0");
        assert!(read(&root, Path::new("/cg/none")).unwrap_err().is_missing());
    }

    // Verifies PLACE-4.
    #[test]
    fn a_subtree_is_read_whole_and_managed_groups_get_no_weight() {
        let (_folder, root) = root_of(&[
            ("/cg/kiosk/cpu.weight", "100\n"),
            ("/cg/kiosk/cgroup.procs", "1\n"),
            ("/cg/kiosk/app/cpu.weight", "100\n"),
            ("/cg/kiosk/app/cgroup.procs", "7\n8\n"),
            ("/cg/kiosk/app/cgroup.type", "domain threaded\n"),
            ("/cg/kiosk/app/part/cgroup.type", "threaded\n"),
            ("/cg/kiosk/app/brisk-threads/cgroup.type", "threaded\n"),
            ("/cg/kiosk/brisk-processes/cgroup.procs", "9\n"),
            ("/cg/kiosk/idle/cpu.weight", "100\n"),
            ("/cg/kiosk/idle/cpu.idle", "1\n"),
            ("/cg/kiosk/box/cpu.weight", "30\n"),
            ("/cg/kiosk/box/init.scope/cgroup.procs", "10\n"),
            ("/cg/kiosk/box/init.scope/cpu.weight", "100\n"),
            ("/cg/kiosk/box/system.slice/cpu.weight", "100\n"),
            ("/cg/kiosk/box/system.slice/one.service/cpu.weight", "100\n"),
            ("/cg/kiosk/box/system.slice/one.service/cgroup.procs", "11\n"),
            ("/cg/else/cpu.weight", "100\n"),
        ]);
        let mut found = groups(&root, Path::new("/cg/kiosk"));
        for (index, WeighedGroup { folder, .. }) in found.iter().enumerate() {
            let is_below = |other: &&WeighedGroup| other.folder.starts_with(folder);
            let below = found.iter().filter(is_below).count();
            assert_eq!(
                found[index..].iter().take_while(is_below).count(),
                below,
                "{} and all below it",
                folder.display()
            );
        }
        found.sort_by(|one, other| one.folder.cmp(&other.folder));
        let group = |folder: &str, weight, pids: &[u32]| WeighedGroup {
            folder: Path::new("/cg/kiosk").join(folder),
            weight,
            pids: pids.to_vec(),
        };
        let expected = [
            WeighedGroup { folder: "/cg/kiosk".into(), weight: None, pids: vec![1] },
            group("app", Some(100), &[7, 8]),
            group("box", Some(30), &[]),
            group("box/init.scope", None, &[10]),
            group("box/system.slice", None, &[]),
            group("box/system.slice/one.service", None, &[11]),
            group("idle", None, &[]),
        ];
        assert_eq!(found, expected);
    }

    // Verifies PLACE-4.
    #[test]
    fn a_tree_with_too_many_groups_is_not_read() {
        let (_folder, root) = root_of(&[]);
        for group in 0..MOST_GROUPS {
            fs::create_dir_all(root.path(format!("/cg/{group}"))).unwrap();
        }
        assert_eq!(groups(&root, Path::new("/cg")), []);
        fs::remove_dir(root.path("/cg/0")).unwrap();
        assert_eq!(groups(&root, Path::new("/cg")).len(), MOST_GROUPS);
    }
}
