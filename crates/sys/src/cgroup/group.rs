//! A control group that brisk makes: created, filled, emptied and removed.

use std::fs;
use std::io;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use rustix::io::Errno;

use super::hierarchy::Hierarchy;
use crate::{DeviceError, Operation, Root};

/// The name of a group that holds single threads.
pub const THREADS: &str = "brisk-threads";
/// The name of a group that holds whole processes.
pub const PROCESSES: &str = "brisk-processes";
/// What [`state`] returns where there is no group.
pub const ABSENT: &str = "absent";
/// What it returns where there is one.
pub const MADE: &str = "made";

/// Threads that are created while a group is emptied are found in the next round.
const EMPTYING_ROUNDS: u32 = 20;
const EMPTYING_PAUSE: Duration = Duration::from_millis(2);

/// The highest weight of a group of version 2 and of version 1.
const MAX_WEIGHTS: [(&str, &str); 2] = [("cpu.weight", "10000"), ("cpu.shares", "262144")];

/// True for the folder of a group that brisk makes.
pub fn is_brisk_group(folder: &Path) -> bool {
    folder.file_name().is_some_and(|name| name == THREADS || name == PROCESSES)
}

/// True when there are groups in `folder` that brisk has not made.
pub fn has_foreign_groups(root: &Root, folder: &Path) -> bool {
    let is_other = |name: &String| !is_brisk_group(Path::new(name)) && root.is_folder(folder.join(name));
    root.list(folder).unwrap_or_default().iter().any(is_other)
}

/// Whether the group in `folder` exists.
pub fn state(root: &Root, folder: &Path) -> &'static str {
    if root.exists(folder) { MADE } else { ABSENT }
}

/// What [`remove`] needs to restore the parent's current state: the controllers that it delegates to its children.
pub fn original(root: &Root, folder: &Path) -> String {
    let enabled_controllers = root.read(subtree_control_file(folder)).unwrap_or_default();
    format!("{ABSENT} {enabled_controllers}").trim_end().to_owned()
}

/// Creates the group in `folder`, if there is none, and writes its `settings`: `cpu.weight=10`, several separated by tabs.
///
/// # Errors
/// With the kernel's answer: EOPNOTSUPP where version 2 allows no threaded group there, EBUSY where the parent may not enable
/// controllers for its children.
pub fn make(root: &Root, folder: &Path, settings: &str) -> Result<(), DeviceError> {
    let settings = || settings.split('\t').filter_map(|setting| setting.split_once('='));
    let control = subtree_control_file(folder);
    if let Ok(enabled_controllers) = root.read(&control) {
        for controller in settings().filter_map(|(file, _)| file.split('.').next()) {
            if !has_word(&enabled_controllers, controller) {
                root.write(&control, &format!("+{controller}"))?;
            }
        }
    }
    let path = root.path(folder);
    match fs::create_dir(&path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(DeviceError::io(&path, Operation::Write, error));
        }
        _ => {}
    }
    let kind = folder.join("cgroup.type");
    if folder.ends_with(THREADS) && root.read(&kind).is_ok_and(|kind| kind != "threaded") {
        root.write(&kind, "threaded")?;
    }
    for (file, value) in settings() {
        set(root, folder, file, value)?;
    }
    Ok(())
}

fn set(root: &Root, folder: &Path, file: &str, value: &str) -> Result<(), DeviceError> {
    let named = |file: &str| folder.join(file);
    match file {
        // Android mounts cpuset without a prefix of its files. Version 1 accepts no thread before memory nodes are set as well.
        "cpuset.cpus" if !root.exists(named("cgroup.type")) => {
            let prefix = if root.exists(named(file)) { "cpuset." } else { "" };
            let memory = format!("{prefix}mems");
            let inherited = root.read(folder.with_file_name(&memory))?;
            root.write(named(&memory), &inherited)?;
            root.write(named(&format!("{prefix}cpus")), value)
        }
        // `cpu.idle` exists since Linux 5.15; the lowest weight is the closest substitute.
        "cpu.idle" if !root.exists(named(file)) && root.exists(named("cpu.weight")) => {
            root.write(named("cpu.weight"), "1")
        }
        "cpu.idle" if !root.exists(named(file)) => root.write(named("cpu.shares"), "2"),
        // An idle group (SCHED_IDLE) refuses a weight: EINVAL.
        "cpu.weight" | "cpu.shares" if root.read(named("cpu.idle")).is_ok_and(|idle| idle != "0") => {
            root.write(named("cpu.idle"), "0")?;
            root.write(named(file), value)
        }
        _ => root.write(named(file), value),
    }
}

/// Moves thread `tid`, or its whole process if the group holds processes, from group `from` into `to`, both of the hierarchy
/// that is mounted at `mount`.
///
/// # Errors
/// ENOENT when the group was removed, ESRCH when the thread has exited, or when another process has moved it since the
/// decision: from another group it would escape the limits there.
pub fn enter(
    root: &Root,
    mount: &Path,
    hierarchy: Hierarchy,
    (from, to): (&str, &str),
    tid: u32,
) -> Result<(), DeviceError> {
    let folder = |group: &str| mount.join(group.trim_start_matches('/'));
    // In version 1 a group of single threads is a sibling of all others; elsewhere it is made below the threads' own group.
    let is_child_only = hierarchy != Hierarchy::Cpu && Path::new(to).ends_with(THREADS);
    if is_child_only && from != to && Path::new(to).parent() != Some(Path::new(from)) {
        return Err(DeviceError::io(&root.path(format!("/proc/{tid}")), Operation::Write, Errno::SRCH));
    }
    let is_threaded = |group| root.read(folder(group).join("cgroup.type")).is_ok_and(|kind| kind == "threaded");
    let file = match hierarchy {
        Hierarchy::Cpu | Hierarchy::Cpuset => "tasks",
        Hierarchy::Unified if is_threaded(from) || is_threaded(to) => "cgroup.threads",
        Hierarchy::Unified => "cgroup.procs",
    };
    root.write(folder(to).join(file), &tid.to_string())
}

/// Removes the group in `folder`; members move to the parent, whose delegated controllers are restored to `original`.
///
/// # Errors
/// EBUSY when it does not become empty.
pub fn remove(root: &Root, folder: &Path, original: &str) -> Result<(), DeviceError> {
    let control = subtree_control_file(folder);
    // Groups that were made since may use the delegated controllers.
    let is_alone = folder.parent().is_some_and(|parent| !has_foreign_groups(root, parent));
    let enabled_controllers = root.read(&control).ok().filter(|_| is_alone).unwrap_or_default();
    let path = root.path(folder);
    let mut outcome = Ok(());
    for round in 0..EMPTYING_ROUNDS {
        if round == 1 {
            raise_weight(root, folder);
        }
        if round > 0 {
            sleep(EMPTYING_PAUSE);
        }
        empty(root, folder);
        for controller in enabled_controllers.split_ascii_whitespace().filter(|name| !has_word(original, name)) {
            let _ = root.write(&control, &format!("-{controller}"));
        }
        outcome = match fs::remove_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            outcome => outcome,
        };
        if outcome.is_ok() {
            break;
        }
    }
    outcome.map_err(|error| DeviceError::io(&path, Operation::Write, error))
}

/// Moves all its threads to its parent. A thread that cannot be moved has exited.
fn empty(root: &Root, folder: &Path) {
    let file = match (root.exists(folder.join("tasks")), folder.ends_with(THREADS)) {
        (true, _) => "tasks",
        (false, true) => "cgroup.threads",
        (false, false) => "cgroup.procs",
    };
    for tid in root.read(folder.join(file)).unwrap_or_default().split_ascii_whitespace() {
        let _ = root.write(folder.with_file_name(file), tid);
    }
}

/// An exiting thread stays in its group and cannot be moved until it has run once more: a low weight must not delay that.
fn raise_weight(root: &Root, folder: &Path) {
    for (file, greatest) in MAX_WEIGHTS {
        if root.exists(folder.join(file)) {
            let _ = set(root, folder, file, greatest);
        }
    }
}

fn subtree_control_file(folder: &Path) -> std::path::PathBuf {
    folder.with_file_name("cgroup.subtree_control")
}

fn has_word(text: &str, word: &str) -> bool {
    text.split_ascii_whitespace().any(|listed| listed == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel refuses a weight (EINVAL) while `cpu.idle` is 1, and resets the weight to the default when that ends.
    // Verifies PLACE-4.
    #[test]
    fn an_idle_group_gets_its_weight_again() {
        let device = tempfile::tempdir().unwrap();
        let root = Root::at(device.path());
        for (hierarchy, weight) in [("v2", "cpu.weight"), ("v1", "cpu.shares")] {
            let folder = Path::new("/").join(hierarchy).join(PROCESSES);
            fs::create_dir_all(root.path(&folder)).unwrap();
            for (file, value) in [(weight, "100"), ("cpu.idle", "0")] {
                fs::write(root.path(folder.join(file)), value).unwrap();
            }
            for (settings, expected) in [("cpu.idle=1".to_owned(), ["1", "100"]), (format!("{weight}=11"), ["0", "11"])]
            {
                make(&root, &folder, &settings).unwrap();
                let held = ["cpu.idle", weight].map(|file| root.read(folder.join(file)).unwrap());
                assert_eq!(held, expected, "{settings}");
            }
        }
    }

    /// A regular file in the folder stands for an exiting thread: the group cannot be removed.
    // Verifies PLACE-4.
    #[test]
    fn a_group_that_does_not_empty_gets_the_greatest_weight() {
        let device = tempfile::tempdir().unwrap();
        let root = Root::at(device.path());
        for (hierarchy, file, greatest) in [("v2", "cpu.weight", "10000"), ("v1", "cpu.shares", "262144")] {
            let folder = Path::new("/").join(hierarchy).join(THREADS);
            fs::create_dir_all(root.path(&folder)).unwrap();
            for (file, value) in [(file, "1"), ("cpu.idle", "1")] {
                fs::write(root.path(folder.join(file)), value).unwrap();
            }
            remove(&root, &folder, ABSENT).unwrap_err();
            let held = ["cpu.idle", file].map(|file| root.read(folder.join(file)).unwrap());
            assert_eq!(held, ["0", greatest], "{hierarchy}");
        }
    }

    /// Between sampling and moving, another process has moved the thread into another group.
    // Verifies PLACE-5.
    #[test]
    fn a_thread_that_was_moved_meanwhile_is_not_taken() {
        let device = tempfile::tempdir().unwrap();
        let root = Root::at(device.path());
        for group in ["app/brisk-threads", "app/part", "brisk-threads", "brisk-processes"] {
            let folder = root.path(Path::new("/cg").join(group));
            fs::create_dir_all(&folder).unwrap();
            for file in ["cgroup.threads", "cgroup.procs", "tasks"] {
                fs::write(folder.join(file), "").unwrap();
            }
            fs::write(folder.join("cgroup.type"), if group == "brisk-processes" { "domain" } else { "threaded" })
                .unwrap();
        }
        fs::write(root.path("/cg/cgroup.threads"), "").unwrap();
        let enter = |hierarchy, from, to| enter(&root, Path::new("/cg"), hierarchy, (from, to), 7).is_ok();
        for (hierarchy, from, to, expected) in [
            (Hierarchy::Unified, "/app", "/app/brisk-threads", true),
            (Hierarchy::Unified, "/", "/brisk-threads", true),
            (Hierarchy::Unified, "/app/brisk-threads", "/app/brisk-threads", true),
            (Hierarchy::Unified, "/app/part", "/app/brisk-threads", false),
            (Hierarchy::Cpuset, "/app/part", "/app/brisk-threads", false),
            (Hierarchy::Cpu, "/app/part", "/brisk-threads", true),
            (Hierarchy::Unified, "/app/part", "/brisk-processes", true),
            (Hierarchy::Unified, "/app/brisk-threads", "/app/part", true),
        ] {
            assert_eq!(enter(hierarchy, from, to), expected, "{hierarchy:?}: {from} to {to}");
        }
    }
}
