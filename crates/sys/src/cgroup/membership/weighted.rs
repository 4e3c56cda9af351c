//! The control groups above threads that compete by weights which brisk may change.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::Groups;
use crate::Root;
use crate::cgroup::hierarchy::{Hierarchy, Mount, group_in};
use crate::cgroup::unit::Units;
use crate::cgroup::weight::{self, WeightedGroup};

/// Reads the files of each group once per sample.
#[derive(Debug)]
pub(super) struct WeightedGroups<'a> {
    root: &'a Root,
    hierarchy: Hierarchy,
    /// Where it is mounted.
    mount: PathBuf,
    /// The highest group whose children brisk may change.
    top: PathBuf,
    /// Set where systemd manages them.
    units: Option<Units<'a>>,
    /// By the text of /proc/TID/cgroup.
    chains: BTreeMap<String, Vec<WeightedGroup>>,
    weights: BTreeMap<PathBuf, Option<u32>>,
}

impl<'a> WeightedGroups<'a> {
    /// None where no group's weight may be changed.
    pub(super) fn of(root: &'a Root, groups: &'a Groups) -> Option<Self> {
        let (mount, top) = groups.weighted_subtree()?;
        let units = groups.units.as_deref().map(|top| Units::of(root, top));
        let Mount { hierarchy, folder: mount, .. } = mount;
        Some(Self { root, hierarchy, mount, top, units, chains: BTreeMap::new(), weights: BTreeMap::new() })
    }

    /// The groups above thread `tid`, from the top down to its own; empty where it is outside of the sub-tree.
    pub(super) fn above(&mut self, tid: u32) -> Vec<WeightedGroup> {
        let Ok(text) = self.root.read(format!("/proc/{tid}/cgroup")) else { return Vec::new() };
        if let Some(known) = self.chains.get(&text) {
            return known.clone();
        }
        let Some(group) = group_in(&text, self.hierarchy) else { return Vec::new() };
        let folder = self.mount.join(group.trim_start_matches('/'));
        let Self { root, top, units, weights, .. } = self;
        let chain = weight::chain(root, top, &folder, |folder| {
            *weights.entry(folder.to_owned()).or_insert_with(|| {
                let may_change = match units {
                    Some(units) => units.may_change(folder),
                    None => !is_managed(root, top, folder),
                };
                may_change.then(|| weight::read(root, folder).ok()?.parse().ok()).flatten()
            })
        });
        self.chains.insert(text, chain.clone());
        chain
    }
}

/// True where a systemd of its own, for example a container's, manages the group in `folder` below `top`.
fn is_managed(root: &Root, top: &Path, folder: &Path) -> bool {
    let mut above = folder.ancestors().skip(1).take_while(|above| above.starts_with(top));
    above.any(|above| root.exists(above.join("init.scope")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_trees::root_of;

    /// The folder of each group above a process in `group` with its weight, below /cg/kiosk.
    fn above(group: &str) -> Vec<(String, Option<u32>)> {
        let membership = format!("0::{group}\n");
        let (_folder, root) = root_of(&[
            ("/proc/7/cgroup", &membership),
            ("/cg/kiosk/cpu.weight", "100\n"),
            ("/cg/kiosk/app/cpu.weight", "100\n"),
            ("/cg/kiosk/app/cgroup.type", "domain threaded\n"),
            ("/cg/kiosk/app/part/cgroup.type", "threaded\n"),
            ("/cg/kiosk/brisk-processes/cgroup.procs", "9\n"),
            ("/cg/kiosk/idle/cpu.weight", "100\n"),
            ("/cg/kiosk/idle/cpu.idle", "1\n"),
            ("/cg/kiosk/box/cpu.weight", "30\n"),
            ("/cg/kiosk/box/init.scope/cpu.weight", "100\n"),
            ("/cg/kiosk/box/system.slice/one.service/cpu.weight", "100\n"),
            ("/cg/else/cpu.weight", "100\n"),
        ]);
        let (mount, top) = (PathBuf::from("/cg"), PathBuf::from("/cg/kiosk"));
        let (chains, weights) = (BTreeMap::new(), BTreeMap::new());
        let hierarchy = Hierarchy::Unified;
        let chain = WeightedGroups { root: &root, hierarchy, mount, top, units: None, chains, weights }.above(7);
        chain.into_iter().map(|group| (group.folder.display().to_string(), group.weight)).collect()
    }

    // Verifies PLACE-4.
    #[test]
    fn managed_threaded_and_idle_groups_have_no_weight() {
        for (group, expected) in [
            ("/kiosk", vec![]),
            ("/kiosk/app", vec![("app", Some(100))]),
            ("/kiosk/app/part", vec![("app", Some(100))]),
            ("/kiosk/brisk-processes", vec![]),
            ("/kiosk/idle", vec![("idle", None)]),
            ("/kiosk/box", vec![("box", Some(30))]),
            ("/kiosk/box/init.scope", vec![("box", Some(30)), ("box/init.scope", None)]),
            (
                "/kiosk/box/system.slice/one.service",
                vec![("box", Some(30)), ("box/system.slice", None), ("box/system.slice/one.service", None)],
            ),
        ] {
            let expected = expected.into_iter().map(|(folder, weight)| (format!("/cg/kiosk/{folder}"), weight));
            let expected: Vec<_> = [("/cg/kiosk".to_owned(), None)].into_iter().chain(expected).collect();
            assert_eq!(above(group), expected, "{group}");
        }
        for outside in ["/else", "/", "/kiosks/app"] {
            assert_eq!(above(outside), [], "{outside}");
        }
    }
}
