//! Where the cgroup hierarchies are mounted, and which group of each a thread is in.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{DeviceError, Root};

/// A hierarchy that can distribute CPU time or CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hierarchy {
    /// Version 1's `cpu`.
    Cpu,
    /// Version 1's `cpuset`.
    Cpuset,
    /// Version 2, with all controllers.
    Unified,
}

/// A mounted hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Which it is.
    pub hierarchy: Hierarchy,
    /// Its mount point, as named on the device.
    pub folder: PathBuf,
    /// The kernel also accounts CPU time by its groups (`cpuacct`).
    pub accounts: bool,
}

/// The mounted hierarchies, each at its first mount point.
pub fn mounts(root: &Root) -> Vec<Mount> {
    parse_mounts(&root.read("/proc/mounts").unwrap_or_default())
}

/// Where version 2 is mounted.
pub fn unified(root: &Root) -> Option<PathBuf> {
    mounts(root).into_iter().find(|mount| mount.hierarchy == Hierarchy::Unified).map(|mount| mount.folder)
}

/// Parses /proc/mounts (proc_pid_mounts(5)).
pub fn parse_mounts(text: &str) -> Vec<Mount> {
    let mut mounts: Vec<Mount> = Vec::new();
    for line in text.lines() {
        let mut fields = line.split(' ');
        let (Some(_), Some(folder), Some(kind), Some(options)) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let has = |name: &str| options.split(',').any(|option| option == name);
        let hierarchy = match kind {
            "cgroup2" => Hierarchy::Unified,
            "cgroup" if has("cpu") => Hierarchy::Cpu,
            "cgroup" if has("cpuset") => Hierarchy::Cpuset,
            _ => continue,
        };
        if !mounts.iter().any(|mount| mount.hierarchy == hierarchy) {
            mounts.push(Mount { hierarchy, folder: folder.into(), accounts: has("cpuacct") });
        }
    }
    mounts
}

/// The processes in the group in `folder`, ascending.
///
/// # Errors
/// [`DeviceError`] when it was removed, is threaded (version 2), or its file is not as documented.
pub fn members(root: &Root, folder: &Path) -> Result<Vec<u32>, DeviceError> {
    let file = folder.join("cgroup.procs");
    let text = root.read(&file)?;
    parse_members(&text).ok_or_else(|| DeviceError::malformed(&root.path(&file), "one process id a line", &text))
}

/// The child groups of the one in `folder`.
pub fn children(root: &Root, folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(root.path(folder)).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let folder = folder.to_owned();
    folders.map(move |entry| folder.join(entry.file_name()))
}

/// Parses `cgroup.procs`: one process ID per line, in any order, some of them twice (v1).
pub fn parse_members(text: &str) -> Option<Vec<u32>> {
    let pids: Option<BTreeSet<u32>> = text.split_ascii_whitespace().map(|word| word.parse().ok()).collect();
    Some(pids?.into_iter().collect())
}

/// The group of a thread in `hierarchy`, from /proc/TID/cgroup; none where it is outside the visible hierarchy.
pub fn group_in(text: &str, hierarchy: Hierarchy) -> Option<&str> {
    let group = text.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, group) = (fields.next()?, fields.next()?, fields.next()?);
        let is_it = match hierarchy {
            Hierarchy::Cpu => controllers.split(',').any(|name| name == "cpu"),
            Hierarchy::Cpuset => controllers.split(',').any(|name| name == "cpuset"),
            Hierarchy::Unified => controllers.is_empty(),
        };
        is_it.then_some(group)
    })?;
    is_plain(group).then_some(group)
}

/// The group of process `pid` in version 2, as [`group_in`]; none where the process has ended, too.
pub fn unified_group(root: &Root, pid: u32) -> Option<PathBuf> {
    let text = root.read(format!("/proc/{pid}/cgroup")).ok()?;
    group_in(&text, Hierarchy::Unified).map(PathBuf::from)
}

/// True when `file`, a list of controllers, contains `controller`.
pub(super) fn lists(root: &Root, file: &Path, controller: &str) -> bool {
    root.read(file).is_ok_and(|text| text.split_ascii_whitespace().any(|listed| listed == controller))
}

/// True for the path of a visible group: not one of another namespace (`/../x`), and not a deleted one.
pub fn is_plain(group: &str) -> bool {
    group.starts_with('/')
        && !group.ends_with(" (deleted)")
        && !group.split('/').any(|part| part == ".." || part == ".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hierarchies_are_found_at_any_mount_point() {
        let android = "none /dev/cpuctl cgroup rw,nosuid,nodev,noexec,relatime,cpu 0 0\n\
                       none /dev/cpuset cgroup rw,nosuid,nodev,noexec,relatime,cpuset,noprefix 0 0\n\
                       none /sys/fs/cgroup cgroup2 rw,nosuid,nodev,noexec,relatime 0 0\n";
        let debian = "cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,nosuid,cpu,cpuacct 0 0\n\
                      cgroup /elsewhere cgroup rw,cpu,cpuacct 0 0\ntmpfs /cpuset tmpfs rw,cpuset 0 0\nbroken\n";
        let mount = |hierarchy, folder: &str, accounts| Mount { hierarchy, folder: folder.into(), accounts };
        assert_eq!(
            parse_mounts(android),
            [
                mount(Hierarchy::Cpu, "/dev/cpuctl", false),
                mount(Hierarchy::Cpuset, "/dev/cpuset", false),
                mount(Hierarchy::Unified, "/sys/fs/cgroup", false)
            ]
        );
        assert_eq!(parse_mounts(debian), [mount(Hierarchy::Cpu, "/sys/fs/cgroup/cpu,cpuacct", true)]);
        assert_eq!(parse_mounts(""), []);
    }

    #[test]
    fn members_parse_one_per_line() {
        assert_eq!(parse_members(""), Some(vec![]));
        assert_eq!(parse_members("2\n1\n2\n"), Some(vec![1, 2]));
        assert_eq!(parse_members("-1\n"), None);
        assert_eq!(parse_members("1 x"), None);
    }

    #[test]
    fn a_threads_group_is_read_for_each_hierarchy() {
        let text = "5:cpuset:/top-app\n4:cpu,cpuacct:/\n1:name=systemd:/x\n0::/apps/uid_10\n";
        for (hierarchy, group) in
            [(Hierarchy::Cpu, "/"), (Hierarchy::Cpuset, "/top-app"), (Hierarchy::Unified, "/apps/uid_10")]
        {
            assert_eq!(group_in(text, hierarchy), Some(group));
        }
        for text in ["", "0:", "0::/../other", "0::/gone (deleted)", "0::relative", "cpu"] {
            assert_eq!(group_in(text, Hierarchy::Unified), None, "{text:?}");
        }
    }
}
