//! Which groups threads may be moved out of temporarily, and where the group that receives them may be made.
//!
//! A hierarchy has a manager: systemd, Android, a container's. A thread is moved only where that interferes with no manager: in
//! version 1, where systemd does not use `cpuset` and Android ignores child groups; in version 2, where the user has named a
//! sub-tree that is delegated to brisk, or there are no groups. No thread escapes a limit by it.

mod weighted;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

use super::group;
use super::hierarchy::{self, Hierarchy, Mount, group_in, lists};
use super::unit;
use super::weight::WeightedGroup;
use crate::Root;
use weighted::WeightedGroups;

/// Controllers that can distribute among threads of one process; all others work on whole processes.
const THREADED: [&str; 4] = ["cpu", "cpuset", "perf_event", "pids"];
/// Limits of a group, and the value that means no limit.
const LIMITS: [(&str, &str); 6] = [
    ("cpu.cfs_quota_us", "-1"),
    ("cpu.max", "max"),
    ("memory.max", "max"),
    ("memory.high", "max"),
    ("pids.max", "max"),
    ("cpuset.cpus", ""),
];

/// Which groups may be used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum GroupChoice {
    /// All that the device offers without interfering with a manager.
    #[default]
    Auto,
    /// None.
    Off,
    /// Only this sub-tree of version 2, by its folder.
    Tree(PathBuf),
}

impl FromStr for GroupChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "off" => Ok(Self::Off),
            _ if hierarchy::is_plain(text) => Ok(Self::Tree(text.into())),
            _ => Err("expected \"auto\", \"off\", or the folder of a sub-tree that is delegated to brisk".to_owned()),
        }
    }
}

impl TryFrom<String> for GroupChoice {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<GroupChoice> for String {
    fn from(choice: GroupChoice) -> Self {
        match choice {
            GroupChoice::Auto => "auto".to_owned(),
            GroupChoice::Off => "off".to_owned(),
            GroupChoice::Tree(folder) => folder.display().to_string(),
        }
    }
}

/// The hierarchies in which groups may be made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Groups {
    mounts: Vec<Mount>,
    /// The sub-tree of version 2 that the user named.
    tree: Option<String>,
    /// Where version 2 is mounted, if systemd units compete there by weights that brisk may change.
    units: Option<PathBuf>,
    /// Android's groups of processes for the `cpu` controller, which nothing changes after the boot.
    process_groups: Option<Mount>,
    /// Units of systemd compete by weights, and this process may not call their manager.
    has_unreachable_units: bool,
    /// Why there are no groups, or none in the named sub-tree.
    pub unsupported_reason: Option<String>,
}

/// A thread's group, and where a group that receives the thread temporarily may be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership {
    /// Its hierarchy.
    pub hierarchy: Hierarchy,
    pub group: String,
    /// The folder of the group that may receive it.
    pub taken_into: PathBuf,
    /// The same group's path within the hierarchy.
    pub taken_as: String,
    /// Only together with all threads of its process.
    pub whole_process: bool,
}

/// A thread's groups, by the resource; none where it may not be moved.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memberships {
    /// For its weight.
    pub cpu: Option<Membership>,
    /// For its CPUs.
    pub cpuset: Option<Membership>,
}

/// The groups of threads in one sample: threads of one group have the same answer, so its files are read once.
#[derive(Debug)]
pub struct MembershipCache<'a> {
    groups: &'a Groups,
    root: &'a Root,
    known: BTreeMap<String, Memberships>,
    weighed: Option<WeightedGroups<'a>>,
}

impl MembershipCache<'_> {
    /// The control groups above thread `tid` that compete by weights which brisk may change, from the top of their sub-tree down
    /// to the thread's own; empty outside of such a sub-tree.
    pub fn weighed(&mut self, tid: u32) -> Vec<WeightedGroup> {
        self.weighed.as_mut().map_or_else(Vec::new, |weighed| weighed.above(tid))
    }

    /// The groups of thread `tid` from which it may be moved.
    pub fn memberships(&mut self, tid: u32) -> Memberships {
        if self.groups.mounts.is_empty() {
            return Memberships::default();
        }
        let text = self.root.read(format!("/proc/{tid}/cgroup")).unwrap_or_default();
        if let Some(known) = self.known.get(&text) {
            return known.clone();
        }
        let memberships = self.groups.memberships(self.root, &text);
        self.known.insert(text, memberships.clone());
        memberships
    }
}

impl Groups {
    /// What the device below `root` supports under `choice`.
    pub fn of(root: &Root, choice: &GroupChoice) -> Self {
        let none = |why: &str| Self { unsupported_reason: Some(why.to_owned()), ..Self::default() };
        let mut mounts = hierarchy::mounts(root);
        let is_managed = root.exists("/run/systemd/system") || root.has_android_system();
        let (mut tree, mut units, mut has_unreachable_units, mut process_groups) = (None, None, false, None);
        match choice {
            GroupChoice::Off => return none("placement.groups is off"),
            GroupChoice::Tree(folder) => {
                let unified = mounts.iter().find(|mount| mount.hierarchy == Hierarchy::Unified);
                let below = unified.and_then(|mount| folder.strip_prefix(&mount.folder).ok()).and_then(Path::to_str);
                let Some(below) = below else {
                    return none(&format!("{} is in no mounted cgroup v2 hierarchy", folder.display()));
                };
                if root.exists(folder.join("init.scope")) {
                    return none(&format!("{} is managed by a systemd of its own", folder.display()));
                }
                if is_managed && !is_delegated(root, folder) {
                    return none(&format!("{} is not delegated (Delegate=yes in its unit)", folder.display()));
                }
                tree = Some(format!("/{below}"));
                mounts.retain(|mount| mount.hierarchy == Hierarchy::Unified);
            }
            // Where a program manages groups, brisk may by default change only what that program does not manage.
            GroupChoice::Auto if root.exists("/run/systemd/system") => {
                let unified = mounts.iter().find(|mount| mount.hierarchy == Hierarchy::Unified);
                units = unified.map(|mount| mount.folder.clone()).filter(|top| unit::have_weights(root, top));
                has_unreachable_units = units.is_some() && !unit::is_manager_reachable(root);
                units = units.filter(|_| !has_unreachable_units);
                mounts.retain(|mount| mount.hierarchy == Hierarchy::Cpuset);
            }
            GroupChoice::Auto if is_managed => {
                mounts.retain(|mount| mount.hierarchy != Hierarchy::Unified);
                process_groups = mounts.iter().find(|mount| has_writable_weights(root, mount)).cloned();
            }
            GroupChoice::Auto => {}
        }
        let top = tree.as_deref().unwrap_or("/");
        mounts.retain(|mount| is_writable(root, mount, top));
        let writable = mounts.len();
        mounts.retain(|mount| can_control_cpus(root, mount, top));
        let unsupported_reason = mounts.is_empty().then(|| match is_managed {
            _ if writable > 0 => "control groups have neither cpu nor cpuset here".to_owned(),
            true => "the system's manager controls all groups".to_owned(),
            false => "no control group can be written here".to_owned(),
        });
        Self { mounts, tree, units, process_groups, has_unreachable_units, unsupported_reason }
    }

    /// Why the sub-tree that `choice` names is not used; `None` where it is, and where it names none.
    pub fn unused_tree(&self, choice: &GroupChoice) -> Option<String> {
        let GroupChoice::Tree(folder) = choice else { return None };
        let why = self.unsupported_reason.as_ref()?;
        Some(format!("placement.groups = \"{}\" is not used: {why}", folder.display()))
    }

    /// Answers for several threads below `root` in one sample.
    pub fn at<'a>(&'a self, root: &'a Root) -> MembershipCache<'a> {
        MembershipCache { groups: self, root, known: BTreeMap::new(), weighed: WeightedGroups::of(root, self) }
    }

    /// The groups that a thread with `text` in its /proc/TID/cgroup may be moved out of.
    fn memberships(&self, root: &Root, text: &str) -> Memberships {
        let of = |controller: &str, own: Hierarchy| {
            let has = |mount: &&Mount| mount.hierarchy == own || has_controller(root, mount, controller);
            let mount = self.mounts.iter().find(has)?;
            self.membership(root, mount, controller, group_in(text, mount.hierarchy)?)
        };
        Memberships { cpu: of("cpu", Hierarchy::Cpu), cpuset: of("cpuset", Hierarchy::Cpuset) }
    }

    fn membership(&self, root: &Root, mount: &Mount, controller: &str, group: &str) -> Option<Membership> {
        let folder = below(mount, group);
        if group::is_brisk_group(&folder) {
            return None;
        }
        let (parent_folder, whole_process) = match mount.hierarchy {
            // A sibling of all other groups, to compete with them by weight; not where CPU accounting would miss its time.
            Hierarchy::Cpu if has_limit(root, &folder) || mount.accounts && group != "/" => return None,
            Hierarchy::Cpu => (mount.folder.clone(), false),
            // Below its own group, so that it stays within that group's CPUs, and falls back to them when CPUs go offline.
            Hierarchy::Cpuset => (folder, false),
            Hierarchy::Unified => self.place(root, mount, controller, group)?,
        };
        let taken_into = parent_folder.join(if whole_process { group::PROCESSES } else { group::THREADS });
        let taken_as = format!("/{}", taken_into.strip_prefix(&mount.folder).ok()?.display());
        Some(Membership { hierarchy: mount.hierarchy, group: group.to_owned(), taken_into, taken_as, whole_process })
    }

    /// Where a group of version 2 may be made for a member of `group`, and whether it holds whole processes only.
    fn place(&self, root: &Root, mount: &Mount, controller: &str, group: &str) -> Option<(PathBuf, bool)> {
        let folder = below(mount, group);
        let Some(tree) = &self.tree else {
            // Groups made by other programs are theirs to manage.
            return (group == "/" && can_enable_for_children(root, &folder, controller)).then_some((folder, false));
        };
        if !Path::new(group).starts_with(tree) {
            return None;
        }
        if supports_threaded_children(root, &folder) && can_enable_for_children(root, &folder, controller) {
            return Some((folder, false));
        }
        let top = below(mount, tree);
        // Before Linux 6.2 a thread loses its affinity mask when it enters a cpuset, and brisk has no record of the masks of a
        // process's other threads.
        let loses_affinity = lists(root, &top.join("cgroup.subtree_control"), "cpuset");
        let can_be_sibling = controller == "cpu" && group != tree && !loses_affinity;
        (can_be_sibling && can_enable_for_children(root, &top, controller) && !has_limit(root, &folder))
            .then_some((top, true))
    }

    /// Where control groups compete by weights that brisk may change: the hierarchy, and the folder of the highest group.
    fn weighted_subtree(&self) -> Option<(Mount, PathBuf)> {
        if let Some((mount, tree)) = self.mounts.first().zip(self.tree.as_deref()) {
            return Some((mount.clone(), below(mount, tree)));
        }
        let of_units = |folder: PathBuf| Mount { hierarchy: Hierarchy::Unified, folder, accounts: false };
        let whole = self.units.clone().map(of_units).or_else(|| self.process_groups.clone())?;
        Some((whole.clone(), whole.folder))
    }

    /// True where Android's groups of processes compete by weights that may be changed.
    pub fn has_process_groups(&self) -> bool {
        self.process_groups.is_some()
    }

    /// True where systemd units compete by weights that may be changed.
    pub fn has_units(&self) -> bool {
        self.units.is_some()
    }

    /// True where they do, and this process may not call their manager.
    pub fn has_unreachable_units(&self) -> bool {
        self.has_unreachable_units
    }

    /// A description for `brisk doctor`.
    pub fn describe(&self) -> String {
        let name = |mount: &Mount| {
            let what = match mount.hierarchy {
                Hierarchy::Cpu => "cpu",
                Hierarchy::Cpuset => "cpuset",
                Hierarchy::Unified => "version 2",
            };
            format!("{what} at {}", below(mount, self.tree.as_deref().unwrap_or("/")).display())
        };
        self.mounts.iter().map(name).collect::<Vec<_>>().join(", ")
    }
}

fn below(mount: &Mount, group: &str) -> PathBuf {
    match group.trim_start_matches('/') {
        "" => mount.folder.clone(),
        group => mount.folder.join(group),
    }
}

/// True when `mount` is of version 2 and its root offers `controller`.
fn has_controller(root: &Root, mount: &Mount, controller: &str) -> bool {
    mount.hierarchy == Hierarchy::Unified && lists(root, &mount.folder.join("cgroup.controllers"), controller)
}

/// True when groups in `group` of `mount` can control CPU time or CPUs.
fn can_control_cpus(root: &Root, mount: &Mount, group: &str) -> bool {
    let offered = below(mount, group).join("cgroup.controllers");
    mount.hierarchy != Hierarchy::Unified || ["cpu", "cpuset"].iter().any(|name| lists(root, &offered, name))
}

/// True when children of `folder` have `controller`, or it can be enabled for them without affecting any other group.
fn can_enable_for_children(root: &Root, folder: &Path, controller: &str) -> bool {
    let offered = lists(root, &folder.join("cgroup.controllers"), controller);
    offered
        && (lists(root, &folder.join("cgroup.subtree_control"), controller) || !group::has_foreign_groups(root, folder))
}

/// True when threads of `folder`'s own processes may be moved into its children (cgroup-v2.rst, "Threads"): it is the root, is
/// threaded already, or has no children and delegates only controllers that can be threaded.
fn supports_threaded_children(root: &Root, folder: &Path) -> bool {
    let Ok(kind) = root.read(folder.join("cgroup.type")) else { return true };
    let enabled_controllers = root.read(folder.join("cgroup.subtree_control")).unwrap_or_default();
    match kind.as_str() {
        "threaded" | "domain threaded" => true,
        "domain" => {
            let threaded_only = enabled_controllers.split_ascii_whitespace().all(|name| THREADED.contains(&name));
            threaded_only && !group::has_foreign_groups(root, folder)
        }
        _ => false,
    }
}

/// True when a group limits its members: elsewhere they would escape that.
fn has_limit(root: &Root, folder: &Path) -> bool {
    LIMITS.iter().any(|(file, none)| {
        let held = root.read(folder.join(file)).ok();
        held.is_some_and(|held| held.split(' ').next() != Some(*none))
    })
}

/// True when a group of version 1 has a weight that this process may set, whether or not it may make groups there.
fn has_writable_weights(root: &Root, mount: &Mount) -> bool {
    let mut groups = hierarchy::children(root, &mount.folder);
    mount.hierarchy == Hierarchy::Cpu && groups.any(|group| root.is_writable(group.join("cpu.shares")))
}

/// True when systemd has marked the group in `folder` as delegated.
fn is_delegated(root: &Root, folder: &Path) -> bool {
    ["user.delegate", "trusted.delegate"].iter().any(|name| {
        let mut value = [0u8; 8];
        rustix::fs::getxattr(root.path(folder), *name, &mut value[..]).is_ok_and(|length| value[..length] == *b"1")
    })
}

fn is_writable(root: &Root, mount: &Mount, group: &str) -> bool {
    // In version 1 only root may move another user's threads, whatever the capabilities.
    let may_move = !root.is_system() || mount.hierarchy == Hierarchy::Unified || geteuid().is_root();
    may_move && root.is_writable(below(mount, group))
}

#[cfg(test)]
mod tests;
