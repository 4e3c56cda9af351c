//! Weights of systemd units: a control group that belongs to a unit gets its weight through its manager's own interface
//! (org.freedesktop.systemd1(5), SetUnitProperties), at runtime, and never through the group's files.
//!
//! The manager keeps what was set for a unit that has ended, in a runtime drop-in, where it can still be read.

mod call;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::hierarchy;
use crate::{DeviceError, Operation, Root};

/// The weight of an idle group: it gets only CPU time that no other group wants.
pub const IDLE: &str = "idle";
/// The weight of a unit that sets none (systemd.resource-control(5)).
const DEFAULT_WEIGHT: &str = "100";
/// The value that removes a unit's weight.
const UNSET: u64 = u64::MAX;
/// The value that makes a unit idle since version 252; older managers refuse it and get the lowest weight instead.
const IDLE_WEIGHT: u64 = 0;
const MIN_WEIGHT: u64 = 1;
const SUFFIXES: [&str; 6] = [".slice", ".service", ".scope", ".socket", ".mount", ".swap"];

/// A unit and its manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    name: String,
    /// The user of its manager; none for the system's.
    user: Option<u32>,
}

impl Unit {
    /// The unit to which the control group in `folder` belongs, running or not; none where no systemd manages it.
    pub fn of(root: &Root, folder: &Path) -> Option<Self> {
        if !root.is_folder("/run/systemd/system") {
            return None;
        }
        let top = hierarchy::unified(root)?;
        Self::named(folder.strip_prefix(top).ok()?)
    }

    /// The unit of the group at `path` below the hierarchy's root.
    fn named(path: &Path) -> Option<Self> {
        let mut unit: Option<Self> = None;
        for part in path {
            // systemd prefixes `_` to the name of a group that could be mistaken for one of its parent's files.
            let name = part.to_str()?;
            let name = name.strip_prefix('_').unwrap_or(name);
            let mut user = None;
            if let Some(above) = unit {
                let is_slice = above.name.ends_with(".slice");
                user = if is_slice { above.user } else { above.managed_user() };
                // A service manages its child groups itself.
                if !is_slice && user.is_none() {
                    return None;
                }
            }
            if name == "init.scope" || !SUFFIXES.iter().any(|suffix| name.ends_with(suffix)) {
                return None;
            }
            unit = Some(Self { name: name.to_owned(), user });
        }
        unit
    }

    /// The user whose manager runs in this unit.
    fn managed_user(&self) -> Option<u32> {
        if self.user.is_some() {
            return None;
        }
        self.name.strip_prefix("user@")?.strip_suffix(".service")?.parse().ok()
    }

    /// The folder of its manager, below /run.
    fn runtime_folder(&self) -> PathBuf {
        match self.user {
            Some(user) => format!("/run/user/{user}/systemd").into(),
            None => "/run/systemd".into(),
        }
    }

    fn socket(&self) -> PathBuf {
        self.runtime_folder().join("private")
    }

    /// True where this process may call the unit's manager: root may call any, a user only its own.
    pub fn is_reachable(&self, root: &Root) -> bool {
        let user = rustix::process::geteuid();
        let is_own = !root.is_system() || user.is_root() || self.user == Some(user.as_raw());
        is_own && root.is_writable(self.socket())
    }

    /// The weight that was set at runtime, whether the unit runs or not.
    ///
    /// # Errors
    /// [`DeviceError::is_missing`] where nothing was set.
    pub fn runtime_weight(&self, root: &Root) -> Result<String, DeviceError> {
        let kind = if self.user.is_some() { "user.control" } else { "system.control" };
        let drop_in = format!("{kind}/{}.d/50-CPUWeight.conf", self.name);
        let text = root.read(self.runtime_folder().join(drop_in))?;
        let value = text.lines().filter_map(|line| line.strip_prefix("CPUWeight=")).next_back();
        Ok(value.filter(|value| !value.is_empty()).unwrap_or(DEFAULT_WEIGHT).to_owned())
    }

    /// Sets the weight to `value` at runtime. The default weight removes the unit's own.
    ///
    /// # Errors
    /// With the manager's answer; [`DeviceError::is_missing`] where it knows no such unit.
    pub fn set_weight(&self, root: &Root, value: &str) -> Result<(), DeviceError> {
        let socket = root.path(self.socket());
        let fault = |error: io::Error| DeviceError::io(&socket, Operation::Write, error);
        let weight = match value {
            DEFAULT_WEIGHT => UNSET,
            IDLE => IDLE_WEIGHT,
            _ => value.parse().map_err(|_| DeviceError::malformed(&socket, "a weight", value))?,
        };
        let set = |weight| call::set_unit_property(&socket, &self.name, ("CPUWeight", weight));
        match set(weight) {
            Err(error) if weight == IDLE_WEIGHT && error.kind() != io::ErrorKind::NotFound => set(MIN_WEIGHT),
            outcome => outcome,
        }
        .map_err(fault)
    }
}

/// Which groups of a hierarchy are units with a manager that this process may call; each manager is checked once.
#[derive(Debug)]
pub struct Units<'a> {
    root: &'a Root,
    top: &'a Path,
    reachable: BTreeMap<Option<u32>, bool>,
}

impl<'a> Units<'a> {
    /// For the hierarchy at `top`.
    pub fn of(root: &'a Root, top: &'a Path) -> Self {
        Self { root, top, reachable: BTreeMap::new() }
    }

    /// True where a manager may be called to change the weight of the group in `folder`.
    pub fn may_change(&mut self, folder: &Path) -> bool {
        let Some(unit) = folder.strip_prefix(self.top).ok().and_then(Unit::named) else { return false };
        *self.reachable.entry(unit.user).or_insert_with(|| unit.is_reachable(self.root))
    }
}

/// True where the system's units compete by weights.
pub fn have_weights(root: &Root, top: &Path) -> bool {
    root.is_folder("/run/systemd/system") && hierarchy::lists(root, &top.join("cgroup.subtree_control"), "cpu")
}

/// True where this process may call the system's manager.
pub fn is_manager_reachable(root: &Root) -> bool {
    Unit { name: "-.slice".to_owned(), user: None }.is_reachable(root)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_trees::root_of;

    // Verifies PLACE-4.
    #[test]
    fn a_group_belongs_to_the_unit_that_its_manager_made() {
        let of = |path: &str| Unit::named(Path::new(path)).map(|unit| (unit.name, unit.user));
        for (path, expected) in [
            ("", None),
            ("init.scope", None),
            ("system.slice", Some(("system.slice", None))),
            ("system.slice/a.service", Some(("a.service", None))),
            ("system.slice/system-getty.slice/getty@tty1.service", Some(("getty@tty1.service", None))),
            ("system.slice/a.service/worker", None),
            ("system.slice/docker-1.scope/init.scope", None),
            ("system.slice/a.service/system.slice", None),
            ("user.slice/user-7.slice/session-2.scope", Some(("session-2.scope", None))),
            ("user.slice/user-7.slice/user@7.service", Some(("user@7.service", None))),
            ("user.slice/user-7.slice/user@7.service/init.scope", None),
            ("user.slice/user-7.slice/user@7.service/app.slice", Some(("app.slice", Some(7)))),
            ("user.slice/user-7.slice/user@7.service/app.slice/b.scope", Some(("b.scope", Some(7)))),
            ("user.slice/user-7.slice/user@7.service/app.slice/user@8.service/x.slice", None),
            ("system.slice/_cpu.service", Some(("cpu.service", None))),
            ("kiosk", None),
            ("kiosk/a.service", None),
        ] {
            assert_eq!(of(path), expected.map(|(name, user)| (name.to_owned(), user)), "{path}");
        }
    }

    // Verifies PLACE-4.
    #[test]
    fn without_a_systemd_no_group_belongs_to_a_unit() {
        let mount = ("/proc/mounts", "none /sys/fs/cgroup cgroup2 rw 0 0\n");
        let folder = Path::new("/sys/fs/cgroup/system.slice");
        let (_folder, root) = root_of(&[mount]);
        assert_eq!(Unit::of(&root, folder), None);
        let (_folder, root) = root_of(&[mount, ("/run/systemd/system/x", "")]);
        let unit = Unit::of(&root, folder).unwrap();
        assert!(unit.name == "system.slice" && !unit.is_reachable(&root), "{unit:?}");
    }

    // Verifies UNDO-1.
    #[test]
    fn a_runtime_weight_is_readable_after_the_unit_has_ended() {
        const CONTROL: &str = "/run/systemd/system.control/a.service.d/50-CPUWeight.conf";
        let unit = Unit { name: "a.service".to_owned(), user: None };
        for (text, expected) in
            [("# by set-property\n[Service]\nCPUWeight=10\n", "10"), ("[Service]\nCPUWeight=\n", DEFAULT_WEIGHT)]
        {
            let (_folder, root) = root_of(&[(CONTROL, text)]);
            assert_eq!(unit.runtime_weight(&root).unwrap(), expected);
        }
        let (_folder, root) = root_of(&[]);
        assert!(unit.runtime_weight(&root).unwrap_err().is_missing());
        assert!(unit.set_weight(&root, "10").unwrap_err().is_missing(), "no manager runs");
    }
}
