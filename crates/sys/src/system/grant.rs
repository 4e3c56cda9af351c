//! Ownership of cpufreq tunables: they belong to root, and chown(2) of a sysfs file lets a service write it that has no
//! capability for that. The kernel resets the owner when it creates the file again: a governor that is chosen again has new
//! tunables, and so has a policy that comes back online.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, OFlags, chownat};
use rustix::process::Uid;

use crate::Root;
use crate::cpu::hotplug::CPU_FOLDER;

/// The depth of `cpufreq/policy0/ondemand/sampling_rate`, the deepest tunable.
const MAX_DEPTH: u32 = 3;

/// The file that `brisk-grant.path` watches, in the runtime folder.
const REQUEST: &str = "grant";

/// Asks the service manager to run `brisk grant` again.
///
/// # Errors
/// When the file cannot be written.
pub fn ask(root: &Root) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).mode(0o600).custom_flags(OFlags::NOFOLLOW.bits() as i32);
    // The unit notices when a written file is closed.
    options.open(root.runtime_folder().join(REQUEST))?.write_all(b".")
}

/// True for files that may be granted.
pub fn is_grantable(file: &Path) -> bool {
    file.starts_with(CPU_FOLDER)
}

/// Makes the user the owner of `file`, named as on the device. False when root did not own it, or its owner may not write it.
///
/// # Errors
/// The kernel's answer.
pub fn give(root: &Root, file: &Path, user: u32) -> io::Result<bool> {
    let path = root.path(file);
    let metadata = path.symlink_metadata()?;
    // Another owner was set on purpose.
    if !metadata.is_file() || metadata.uid() != 0 || metadata.mode() & 0o200 == 0 {
        return Ok(false);
    }
    change_owner(&path, user).map(|()| true)
}

/// Makes root the owner of `file`, named as on the device.
pub fn revoke(root: &Root, file: &Path) {
    // A file that was removed has no owner.
    let _ = change_owner(&root.path(file), 0);
}

/// Makes root the owner of all that was granted to `user`, whatever was configured at that time.
pub fn revoke_all(root: &Root, user: u32) {
    let cpus = root.list(CPU_FOLDER).unwrap_or_default();
    // Before Linux 4.2 each CPU has its own folder.
    for folder in cpus.iter().map(|name| root.path(CPU_FOLDER).join(name).join("cpufreq")) {
        revoke_below(&folder, user, MAX_DEPTH);
    }
    revoke_below(&root.path(CPU_FOLDER).join("cpufreq"), user, MAX_DEPTH);
}

fn revoke_below(folder: &Path, user: u32, depth: u32) {
    if depth == 0 || !folder.symlink_metadata().is_ok_and(|it| it.is_dir()) {
        return;
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        match path.symlink_metadata() {
            Ok(metadata) if metadata.is_file() && metadata.uid() == user => {
                let _ = change_owner(&path, 0);
            }
            _ => revoke_below(&path, user, depth - 1),
        }
    }
}

fn change_owner(path: &Path, user: u32) -> io::Result<()> {
    Ok(chownat(CWD, path, Some(Uid::from_raw(user)), None, AtFlags::SYMLINK_NOFOLLOW)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;
    use crate::test_trees::root_of;

    const USER: u32 = 23_456;

    // Verifies SECURITY-2.
    #[test]
    fn tunables_are_granted_singly_and_revoked_together() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root can give files away");
            return;
        }
        let file = |name: &str| Path::new(CPU_FOLDER).join(name);
        let names = ["cpufreq/ondemand/sampling_rate", "cpufreq/policy0/schedutil/rate_limit_us", "cpu0/cpufreq/x"];
        let files: Vec<String> = names.iter().map(|name| file(name).display().to_string()).collect();
        let others = file("cpufreq/policy0/scaling_max_freq").display().to_string();
        let mut tree: Vec<(&str, &str)> = files.iter().map(|file| (file.as_str(), "1")).collect();
        tree.extend([(others.as_str(), "1"), ("/etc/victim", "1")]);
        let (_folder, root) = root_of(&tree);
        chown(root.path(&others), Some(USER + 1), None).unwrap();
        let owner = |file: &str| fs::metadata(root.path(file)).unwrap().uid();
        for file in &files {
            assert!(give(&root, Path::new(file), USER).unwrap() && owner(file) == USER, "{file}");
        }
        assert!(!give(&root, Path::new(&others), USER).unwrap(), "the choice of another process stays");
        fs::set_permissions(root.path("/etc/victim"), PermissionsExt::from_mode(0o444)).unwrap();
        assert!(!give(&root, Path::new("/etc/victim"), USER).unwrap(), "its owner may not write it");
        symlink("/etc/victim", root.path(file("link"))).unwrap();
        assert!(!give(&root, &file("link"), USER).unwrap());
        assert!(give(&root, &file("none"), USER).is_err());
        revoke_all(&root, USER);
        assert_eq!(files.iter().map(|file| owner(file)).collect::<Vec<_>>(), [0; 3]);
        assert_eq!((owner(&others), owner("/etc/victim")), (USER + 1, 0));
        assert!(is_grantable(&file(names[0])) && !is_grantable(Path::new("/sys/kernel/uevent_helper")));
    }
}
