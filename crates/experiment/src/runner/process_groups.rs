//! Android's groups of processes. Where the device has them, the runner places each process as ActivityManager does (`OomAdjuster`,
//! libprocessgroup's `task_profiles.json`), and a daemon sees the foreground by them.

use brisk_lab::activity_manager::HIERARCHIES;
use brisk_sys::Root;

/// What a process is to the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    TopApp,
    /// What the user hears or waits for, without a screen.
    Perceptible,
    Background,
}

impl Place {
    fn group(self) -> &'static str {
        match self {
            Self::TopApp => "top-app",
            Self::Perceptible => "foreground",
            Self::Background => "background",
        }
    }
}

/// The groups of a device that has them.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProcessGroups<'a> {
    root: &'a Root,
}

impl<'a> ProcessGroups<'a> {
    /// `None` where the device is not Android.
    pub(super) fn find(root: &'a Root) -> Option<Self> {
        root.exists(members(HIERARCHIES[0], Place::TopApp)).then_some(Self { root })
    }

    /// Moves process `pid`, unless it has just been killed.
    pub(super) fn place(self, pid: u32, place: Place) -> anyhow::Result<()> {
        for hierarchy in HIERARCHIES {
            match self.root.write(members(hierarchy, place), &pid.to_string()) {
                Err(error) if !error.is_missing() => return Err(error.into()),
                _ => {}
            }
        }
        Ok(())
    }

    /// Gives the groups of what the user sees, hears or waits for this weight on each CPU; the background has 1024.
    pub(super) fn weigh(self, shares: u32) -> anyhow::Result<()> {
        for place in [Place::TopApp, Place::Perceptible] {
            let file = format!("{}/{}/cpu.shares", HIERARCHIES[1], place.group());
            self.root.write(file, &shares.to_string())?;
        }
        Ok(())
    }
}

fn members(hierarchy: &str, place: Place) -> String {
    format!("{hierarchy}/{}/cgroup.procs", place.group())
}

#[cfg(test)]
mod tests {
    use super::*;
    use brisk_sys::test_trees::root_of;

    const SET: (&str, &str) = ("/dev/cpuset/top-app/cgroup.procs", "");
    const WEIGHT: (&str, &str) = ("/dev/cpuctl/top-app/cgroup.procs", "");

    #[test]
    fn a_process_is_placed_in_both_hierarchies() {
        let (_folder, root) = root_of(&[SET, WEIGHT]);
        ProcessGroups::find(&root).unwrap().place(7, Place::TopApp).unwrap();
        assert_eq!([SET.0, WEIGHT.0].map(|file| root.read(file).unwrap()), ["7", "7"]);
    }

    #[test]
    fn another_device_has_no_groups() {
        let (_folder, root) = root_of(&[WEIGHT]);
        assert!(ProcessGroups::find(&root).is_none());
    }
}
