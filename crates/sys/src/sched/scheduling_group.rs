//! The scheduling group in which a thread competes: against threads of other groups that group's weight decides, and the
//! thread's nice value applies only among the group's members.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::Root;
use crate::cgroup::hierarchy::{self, Hierarchy, Mount, group_in};
use crate::sched::autogroup::{self, Autogroup};

/// A file that a group of version 2 has where the `cpu` controller makes it a scheduling group.
const WEIGHT: &str = "cpu.weight";

/// A scheduling group.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SchedulingGroup {
    /// The root: nice values apply against everything in it.
    #[default]
    Root,
    /// The autogroup of its session.
    Autogroup(Autogroup),
    /// A control group, by its folder.
    Cgroup(PathBuf),
}

/// Answers for several threads in one sample.
#[derive(Debug)]
pub struct SchedulingGroups<'a> {
    root: &'a Root,
    /// The hierarchy that has the `cpu` controller.
    cpu: Option<Mount>,
    has_autogroups: bool,
    /// The autogroup of this process.
    own: Option<u64>,
    /// The control group of each text of /proc/TID/cgroup; none at the root.
    known: BTreeMap<String, Option<PathBuf>>,
}

impl<'a> SchedulingGroups<'a> {
    /// For the system below `root`, as it is now.
    pub fn of(root: &'a Root) -> Self {
        let mounts = hierarchy::mounts(root);
        let of = |wanted: Hierarchy| mounts.iter().find(|mount| mount.hierarchy == wanted).cloned();
        Self {
            root,
            cpu: of(Hierarchy::Cpu).or_else(|| of(Hierarchy::Unified)),
            has_autogroups: autogroup::is_enabled(root),
            own: autogroup::of(root, std::process::id()).ok().flatten().map(|own| own.id),
            known: BTreeMap::new(),
        }
    }

    /// The group of thread `tid`; the root where the kernel does not report it.
    pub fn group(&mut self, tid: u32) -> SchedulingGroup {
        if let Some(folder) = self.control_group(tid) {
            return SchedulingGroup::Cgroup(folder);
        }
        let autogroup = self.has_autogroups.then(|| autogroup::of(self.root, tid).ok().flatten()).flatten();
        let told = |group: Autogroup| Autogroup { is_own: self.own == Some(group.id), ..group };
        autogroup.map_or(SchedulingGroup::Root, |group| SchedulingGroup::Autogroup(told(group)))
    }

    fn control_group(&mut self, tid: u32) -> Option<PathBuf> {
        let mount = self.cpu.as_ref()?;
        let text = self.root.read(format!("/proc/{tid}/cgroup")).ok()?;
        if let Some(known) = self.known.get(&text) {
            return known.clone();
        }
        let group =
            group_in(&text, mount.hierarchy).and_then(|group| nearest_scheduling_group(self.root, mount, group));
        self.known.insert(text, group.clone());
        group
    }
}

/// The lowest scheduling group at or above `group`; none at the root.
fn nearest_scheduling_group(root: &Root, mount: &Mount, group: &str) -> Option<PathBuf> {
    let below = |group: &Path| (group != Path::new("")).then(|| mount.folder.join(group));
    let mut above = Path::new(group.trim_start_matches('/')).ancestors().filter_map(below);
    above.find(|folder| mount.hierarchy == Hierarchy::Cpu || root.exists(folder.join(WEIGHT)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_trees::root_of;

    const V1: &str = "none /sys/fs/cgroup/cpu cgroup rw,cpu,cpuacct 0 0\n";
    const V2: &str = "none /sys/fs/cgroup cgroup2 rw 0 0\n";

    fn group(mounts: &str, cgroup: &str, enabled: &str, autogroup: &str) -> SchedulingGroup {
        let (_folder, root) = root_of(&[
            ("/proc/mounts", mounts),
            ("/proc/sys/kernel/sched_autogroup_enabled", enabled),
            ("/proc/7/cgroup", cgroup),
            ("/proc/7/autogroup", autogroup),
            ("/sys/fs/cgroup/user.slice/cpu.weight", "100\n"),
            ("/sys/fs/cgroup/user.slice/session.scope/cgroup.procs", ""),
            ("/sys/fs/cgroup/plain/cgroup.procs", ""),
        ]);
        SchedulingGroups::of(&root).group(7)
    }

    // Verifies PLACE-8.
    #[test]
    fn a_session_competes_as_one_only_outside_of_control_groups() {
        let session = || SchedulingGroup::Autogroup(Autogroup { id: 4, nice: 0, is_own: false });
        let cgroup = |folder: &str| SchedulingGroup::Cgroup(folder.into());
        let told = "/autogroup-4 nice 0\n";
        for (case, mounts, membership, enabled, autogroup, expected) in [
            ("no control groups", "", "", "1", told, session()),
            ("switched off", "", "", "0", told, SchedulingGroup::Root),
            ("in no session", "", "", "1", "", SchedulingGroup::Root),
            ("the root of version 2", V2, "0::/\n", "1", told, session()),
            ("the controller is off there", V2, "0::/plain\n", "1", told, session()),
            ("version 2", V2, "0::/user.slice\n", "1", told, cgroup("/sys/fs/cgroup/user.slice")),
            ("enabled above", V2, "0::/user.slice/session.scope\n", "1", told, cgroup("/sys/fs/cgroup/user.slice")),
            ("the root of version 1", V1, "3:cpu,cpuacct:/\n0::/x\n", "1", told, session()),
            ("version 1", V1, "3:cpu,cpuacct:/user/a\n", "1", told, cgroup("/sys/fs/cgroup/cpu/user/a")),
            ("both mounted", &format!("{V2}{V1}"), "3:cpu:/\n0::/user.slice\n", "1", told, session()),
        ] {
            assert_eq!(group(mounts, membership, enabled, autogroup), expected, "{case}");
        }
    }
}
