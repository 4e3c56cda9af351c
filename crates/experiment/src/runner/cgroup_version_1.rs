//! Control groups of version 1 for a while, in a guest that has version 2: a controller belongs to one hierarchy at a time, and moves
//! while no group uses it. Arms of both versions then run in one guest, and are comparable.

use std::ffi::CString;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use brisk_sys::cgroup::hierarchy::{Hierarchy, unified};
use brisk_sys::{BootTime, Root};

/// Where the hierarchies are mounted.
const PLACE: &str = "/run/brisk-cgroup-v1";
/// The kernel destroys removed groups asynchronously, and until then they keep their controller.
const LIMIT: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(10);
/// How long an unmounted hierarchy may take to give its controller back before it is mounted again.
const RETURN_TIME: Duration = Duration::from_millis(300);

/// The mounted hierarchies; dropping it unmounts them.
pub(super) struct Version1 {
    root: Root,
    /// Where version 2 is mounted.
    unified: PathBuf,
    taken: Vec<(&'static str, PathBuf)>,
}

impl Version1 {
    /// Mounts one hierarchy for each of `hierarchies`.
    ///
    /// # Errors
    /// When version 2 is not mounted, a group of it uses the controller, or the kernel refuses the mount.
    pub(super) fn mount(root: &Root, hierarchies: &[Hierarchy]) -> anyhow::Result<Self> {
        let unified = unified(root).context("control groups of version 2 are not mounted here")?;
        let mut version_1 = Self { root: root.clone(), unified, taken: Vec::new() };
        hierarchies.iter().filter_map(|&hierarchy| controller(hierarchy)).try_for_each(|name| version_1.take(name))?;
        Ok(version_1)
    }

    fn take(&mut self, controller: &'static str) -> anyhow::Result<()> {
        let place = self.root.path(PLACE).join(controller);
        fs::create_dir_all(&place).with_context(|| format!("cannot make {}", place.display()))?;
        self.delegate(&format!("-{controller}"))?;
        self.taken.push((controller, place.clone()));
        let limit = BootTime::now() + LIMIT;
        loop {
            match mount_controller(controller, &place) {
                Err(Errno::BUSY) if BootTime::now() < limit => sleep(PAUSE),
                outcome => return outcome.with_context(|| format!("cannot mount {controller} of version 1")),
            }
        }
    }

    /// Unmounts them, and version 2 delegates the controllers again.
    ///
    /// # Errors
    /// When a group still uses a controller.
    pub(super) fn unmount(mut self) -> anyhow::Result<()> {
        self.return_all()
    }

    fn return_all(&mut self) -> anyhow::Result<()> {
        let mut outcome = Ok(());
        while let Some((controller, place)) = self.taken.pop() {
            outcome = outcome.and(self.return_one(controller, &place));
        }
        outcome
    }

    fn return_one(&self, controller: &str, place: &Path) -> anyhow::Result<()> {
        let limit = BootTime::now() + LIMIT;
        loop {
            match unmount(place, UnmountFlags::empty()) {
                // It could not be mounted.
                Ok(()) | Err(Errno::INVAL) => {}
                Err(error) => return Err(error).with_context(|| format!("cannot unmount {}", place.display())),
            }
            if self.has_returned(controller) {
                break;
            }
            if BootTime::now() > limit {
                bail!("version 1 of control groups does not return {controller}");
            }
            // A removed group that was not yet destroyed kept the hierarchy: it ends with a later unmount.
            mount_controller(controller, place).with_context(|| format!("cannot mount {controller} again"))?;
        }
        self.delegate(&format!("+{controller}"))?;
        fs::remove_dir(place).with_context(|| format!("cannot remove {}", place.display()))
    }

    fn has_returned(&self, controller: &str) -> bool {
        let file = self.unified.join("cgroup.controllers");
        let is_listed = || self.root.read(&file).is_ok_and(|text| text.split(' ').any(|listed| listed == controller));
        let limit = BootTime::now() + RETURN_TIME;
        while !is_listed() {
            if BootTime::now() > limit {
                return false;
            }
            sleep(PAUSE);
        }
        true
    }

    fn delegate(&self, change: &str) -> anyhow::Result<()> {
        let file = self.unified.join("cgroup.subtree_control");
        self.root.write(&file, change).with_context(|| format!("version 2 does not accept {change}"))
    }
}

impl Drop for Version1 {
    fn drop(&mut self) {
        if let Err(error) = self.return_all() {
            tracing::error!("{error:#}");
        }
    }
}

fn mount_controller(controller: &str, place: &Path) -> Result<(), Errno> {
    let options = CString::new(controller).map_err(|_| Errno::INVAL)?;
    mount("cgroup", place, "cgroup", MountFlags::empty(), Some(options.as_c_str()))
}

/// The name of the controller of a hierarchy of version 1.
fn controller(hierarchy: Hierarchy) -> Option<&'static str> {
    match hierarchy {
        Hierarchy::Cpu => Some("cpu"),
        Hierarchy::Cpuset => Some("cpuset"),
        Hierarchy::Unified => None,
    }
}
