//! The control groups of an arm, by hand or without limits: made before its background starts, and removed after its foreground
//! has ended.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::cgroup_version_1::Version1;
use crate::spec::{GroupVersion, GroupsByHand};
use brisk_sys::Root;
use brisk_sys::cgroup::group;
use brisk_sys::cgroup::hierarchy::{Mount, mounts};

const FOREGROUND: &str = "foreground";
const BACKGROUND: &str = "background";
/// Where version 2 tells whether the CPUs of a group are really its own.
const PARTITION: &str = "cpuset.cpus.partition";

/// The groups of an arm; dropping it removes them, and their processes move to the root group.
pub(super) struct ControlGroups {
    root: Root,
    mounts: Vec<Mount>,
    /// The folders, and what their parents delegated before.
    made: Vec<(PathBuf, String)>,
    /// Where version 1 was mounted for them.
    version_1: Option<Version1>,
}

impl ControlGroups {
    /// Makes the groups that `by_hand` describes.
    ///
    /// # Errors
    /// When a hierarchy cannot be mounted, the kernel refuses a setting, or an exclusive CPU is not exclusive.
    pub(super) fn make(root: &Root, by_hand: &GroupsByHand) -> anyhow::Result<Self> {
        let wanted = by_hand.hierarchies();
        let find =
            || -> Vec<Mount> { mounts(root).into_iter().filter(|mount| wanted.contains(&mount.hierarchy)).collect() };
        let mut groups = Self { root: root.clone(), mounts: find(), made: Vec::new(), version_1: None };
        if by_hand.cgroup == GroupVersion::V1 && groups.mounts.len() < wanted.len() {
            groups.version_1 = Some(Version1::mount(root, &wanted)?);
            groups.mounts = find();
        }
        if groups.mounts.len() < wanted.len() {
            bail!("the control groups {wanted:?} are not mounted here");
        }
        // A partition takes its CPUs from the other group, which must have its own by then.
        for (name, settings) in [(BACKGROUND, &by_hand.background), (FOREGROUND, &by_hand.foreground)] {
            for mount in groups.mounts.clone() {
                groups.make_one(&mount.folder.join(name), &settings.settings(mount.hierarchy))?;
            }
        }
        Ok(groups)
    }

    fn make_one(&mut self, folder: &Path, settings: &str) -> anyhow::Result<()> {
        self.made.push((folder.to_owned(), group::original(&self.root, folder)));
        group::make(&self.root, folder, settings).with_context(|| format!("cannot make {}", folder.display()))?;
        let partition = self.root.read(folder.join(PARTITION)).unwrap_or_default();
        // The kernel accepts the value also where it cannot give the CPUs, and says so only here.
        if partition.contains("invalid") {
            bail!("{}: {partition}", folder.join(PARTITION).display());
        }
        Ok(())
    }

    /// Moves process `pid` and its later children into the foreground's group.
    pub(super) fn enter_foreground(&self, pid: u32) -> anyhow::Result<()> {
        self.enter(FOREGROUND, pid)
    }

    /// Moves process `pid` and its later children into the background's group.
    pub(super) fn enter_background(&self, pid: u32) -> anyhow::Result<()> {
        self.enter(BACKGROUND, pid)
    }

    fn enter(&self, name: &str, pid: u32) -> anyhow::Result<()> {
        for mount in &self.mounts {
            let file = mount.folder.join(name).join("cgroup.procs");
            self.root.write(&file, &pid.to_string()).with_context(|| format!("{pid} cannot enter {name}"))?;
        }
        Ok(())
    }

    /// Removes the groups.
    ///
    /// # Errors
    /// When one remains, or version 2 does not get its controllers back.
    pub(super) fn remove(mut self) -> anyhow::Result<()> {
        self.remove_all()
    }

    fn remove_all(&mut self) -> anyhow::Result<()> {
        let mut outcome = Ok(());
        while let Some((folder, original)) = self.made.pop() {
            let removed = group::remove(&self.root, &folder, &original);
            outcome = outcome.and(removed.with_context(|| format!("cannot remove {}", folder.display())));
        }
        let unmounted = self.version_1.take().map_or(Ok(()), Version1::unmount);
        outcome.and(unmounted)
    }
}

impl Drop for ControlGroups {
    fn drop(&mut self) {
        if let Err(error) = self.remove_all() {
            tracing::error!("{error:#}");
        }
    }
}
