//! Android's groups of processes. Where the device has them, the runner places each process as ActivityManager does (`OomAdjuster`,
//! libprocessgroup's `task_profiles.json`), and a daemon sees the foreground by them.

use brisk_sys::Root;

/// The hierarchies of version 1 in which a process's place depends on what it is to the user.
const HIERARCHIES: [&str; 2] = ["/dev/cpuset", "/dev/cpuctl"];

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

/// True where the device has Android's groups.
pub(super) fn exist(root: &Root) -> bool {
    root.exists(format!("{}/{}/cgroup.procs", HIERARCHIES[0], Place::TopApp.group()))
}

/// Moves process `pid`, unless it has just been killed.
pub(super) fn place(root: &Root, pid: u32, place: Place) -> anyhow::Result<()> {
    for hierarchy in HIERARCHIES {
        let file = format!("{hierarchy}/{}/cgroup.procs", place.group());
        match root.write(file, &pid.to_string()) {
            Err(error) if !error.is_missing() => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
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
        assert!(exist(&root));
        place(&root, 7, Place::TopApp).unwrap();
        assert_eq!([SET.0, WEIGHT.0].map(|file| root.read(file).unwrap()), ["7", "7"]);
    }

    #[test]
    fn another_device_has_no_groups() {
        let (_folder, root) = root_of(&[WEIGHT]);
        assert!(!exist(&root));
    }
}
