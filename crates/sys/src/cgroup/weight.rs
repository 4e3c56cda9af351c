//! The weight of a control group among its siblings: `cpu.weight` (cgroup-v2.rst, "CPU") or, in version 1, `cpu.shares`
//! (sched-design-CFS.rst, "Group scheduler extensions"), and `cpu.idle` as one value, since the kernel discards the weight when
//! the group becomes idle. A group that is a systemd unit gets its weight from its manager ([`super::unit`]).

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::group::is_brisk_group;
use super::unit::Unit;
use crate::{DeviceError, Root};

pub use super::unit::IDLE;

/// In version 2 and in version 1, each with the lowest weight.
const FILES: [(&str, &str); 2] = [("cpu.weight", "1"), ("cpu.shares", "2")];
const IDLE_FILE: &str = "cpu.idle";

/// A control group and its weight among its siblings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WeightedGroup {
    pub folder: PathBuf,
    /// Its weight; none where brisk must not change it: its siblings are outside the sub-tree, a manager controls it, or it is
    /// idle already.
    pub weight: Option<u32>,
}

/// The file with the weight of the group in `folder`, and the lowest weight.
fn file(root: &Root, folder: &Path) -> (PathBuf, &'static str) {
    let [unified, version_1] = FILES.map(|(name, lowest)| (folder.join(name), lowest));
    if root.exists(&version_1.0) { version_1 } else { unified }
}

/// The weight of the group in `folder`: 1 to 10000, in version 1 2 to 262144, or [`IDLE`]. For a unit that has ended, the weight
/// that was set at runtime.
///
/// # Errors
/// [`DeviceError::is_missing`] when the group was removed or its parent does not enable the `cpu` controller.
pub fn read(root: &Root, folder: &Path) -> Result<String, DeviceError> {
    match root.read(folder.join(IDLE_FILE)) {
        Ok(idle) if idle == "1" => Ok(IDLE.to_owned()),
        _ => root.read(file(root, folder).0).or_else(|error| match Unit::of(root, folder) {
            Some(unit) if error.is_missing() => unit.runtime_weight(root),
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
    let ((weight, lowest), idle) = (file(root, folder), folder.join(IDLE_FILE));
    match value {
        IDLE if root.exists(&idle) => root.write(&idle, "1"),
        IDLE => root.write(&weight, lowest),
        _ => {
            // An idle group refuses a weight: EINVAL.
            if root.read(&idle).is_ok_and(|idle| idle != "0") {
                root.write(&idle, "0")?;
            }
            root.write(&weight, value)
        }
    }
}

/// The groups from `top`, which has no weight among brisk's groups, down to `folder`, each with what `weight_of` returns for it.
/// Groups of brisk and threaded ones end it: their threads belong to the process of a group above.
pub(super) fn chain(
    root: &Root,
    top: &Path,
    folder: &Path,
    mut weight_of: impl FnMut(&Path) -> Option<u32>,
) -> Vec<WeightedGroup> {
    let Ok(below) = folder.strip_prefix(top) else { return Vec::new() };
    let mut folder = top.to_owned();
    let mut chain = vec![WeightedGroup { folder: folder.clone(), weight: None }];
    for name in below {
        folder.push(name);
        if is_brisk_group(&folder) || is_threaded(root, &folder) {
            break;
        }
        chain.push(WeightedGroup { weight: weight_of(&folder), folder: folder.clone() });
    }
    chain
}

/// Its processes are those of an ancestor.
fn is_threaded(root: &Root, folder: &Path) -> bool {
    root.read(folder.join("cgroup.type")).is_ok_and(|kind| kind == "threaded")
}

#[cfg(test)]
mod tests {
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
            ("/cg/android/cpu.shares", "1024\n"),
        ]);
        for (group, value, expected) in [
            ("new", "5", "5"),
            ("new", IDLE, IDLE),
            ("new", "50", "50"),
            ("old", IDLE, "1"),
            ("old", "100", "100"),
            ("android", "110", "110"),
            ("android", IDLE, "2"),
            ("android", "1024", "1024"),
        ] {
            let folder = Path::new("/cg").join(group);
            write(&root, &folder, value).unwrap();
            assert_eq!(read(&root, &folder).unwrap(), expected, "{group} {value}");
        }
        assert_eq!(root.read("/cg/new/cpu.idle").unwrap(), "0");
        assert!(read(&root, Path::new("/cg/none")).unwrap_err().is_missing());
    }
}
