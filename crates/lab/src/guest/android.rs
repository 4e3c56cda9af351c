//! What Android's init makes on every device, in its order and with its paths, owners and modes: the control groups of
//! libprocessgroup's `cgroups.json`, binderfs and the groups of `init.rc`, and the property area.

use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;

use anyhow::Context;
use rustix::mount::{MountFlags, mount};

use super::mounts::options;
use crate::android::Android;
use crate::property_area::PropertyArea;

/// The user and group `system` (AID_SYSTEM), as which ActivityManager moves processes.
const SYSTEM: u32 = 1000;

/// The groups of each hierarchy of version 1, in which ActivityManager and init place processes.
const CPU_GROUPS: &[&str] = &[
    "foreground",
    "background",
    "top-app",
    "rt",
    "system",
    "system-background",
    "dex2oat",
    "nnapi-hal",
    "camera-daemon",
];
const CPUSETS: &[&str] = &["foreground", "background", "system-background", "restricted", "top-app", "camera-daemon"];
const IO_GROUPS: &[&str] = &["background"];

/// What `init.rc` writes on every device.
const WRITES: &[(&str, &str)] = &[
    ("/dev/cpuctl/nnapi-hal/cpu.uclamp.min", "1"),
    ("/proc/sys/vm/overcommit_memory", "1"),
    ("/proc/sys/vm/dirty_background_ratio", "5"),
    ("/proc/sys/vm/dirty_expire_centisecs", "200"),
    ("/proc/sys/vm/watermark_boost_factor", "0"),
];

/// The files by which a process and a thread is moved into a group of version 1.
const MEMBER_FILES: [&str; 2] = ["tasks", "cgroup.procs"];

/// Prepares this guest.
///
/// # Errors
/// When the kernel lacks something that every Android device has, or a file cannot be made.
pub fn prepare(android: &Android) -> anyhow::Result<()> {
    for (folder, mode) in [("/system", 0o755), ("/data", 0o771), ("/data/misc", 0o1771), ("/data/local/tmp", 0o771)] {
        folder_of_system(Path::new(folder), mode)?;
    }
    symlink("/bin", "/system/bin").context("cannot link /system/bin")?;
    write(Path::new("/system/build.prop"), android.build_properties(), 0o600)?;
    properties(android)?;
    control_groups()?;
    binderfs()?;
    own(Path::new("/proc/pressure/memory"), 0o664)?;
    let of_device = android.writes.iter().map(|(file, text)| (file.as_str(), text.as_str()));
    WRITES.iter().copied().chain(of_device).try_for_each(|(file, text)| {
        // A kernel without such a file is another device's.
        let file_of_kernel = File::options().write(true).open(file);
        let written = file_of_kernel.and_then(|mut open| open.write_all(text.as_bytes()));
        written.with_context(|| format!("cannot write {text:?} to {file}"))
    })
}

/// The property area: a file for each label, which every process may map and none may write.
fn properties(android: &Android) -> anyhow::Result<()> {
    const FOLDER: &str = "/dev/__properties__";
    fs::create_dir(FOLDER).with_context(|| format!("cannot make {FOLDER}"))?;
    set_mode(Path::new(FOLDER), 0o711)?;
    for (label, properties) in &android.properties {
        let mut area = PropertyArea::new();
        for (name, value) in properties {
            area.add(name, value);
        }
        write(&Path::new(FOLDER).join(label), area.bytes(), 0o444)?;
    }
    Ok(())
}

/// The controllers of version 1 first: version 2 then has those that are left.
fn control_groups() -> anyhow::Result<()> {
    let hierarchies =
        [("blkio", "/dev/blkio", IO_GROUPS), ("cpu", "/dev/cpuctl", CPU_GROUPS), ("cpuset", "/dev/cpuset", CPUSETS)];
    for (controller, folder, _) in hierarchies {
        folder_of_system(Path::new(folder), 0o755)?;
        // The file system `cpuset` is that controller with files whose names have no prefix.
        let kind = if controller == "cpuset" { "cpuset" } else { "cgroup" };
        let text = if controller == "cpuset" { "" } else { controller };
        mount_group(kind, folder, text)?;
    }
    const UNIFIED: &str = "/sys/fs/cgroup";
    mount_group("cgroup2", UNIFIED, "memory_recursiveprot")?;
    own(Path::new(UNIFIED), 0o775)?;
    // Optional: a kernel may have memory in version 1.
    let _ = fs::write(Path::new(UNIFIED).join("cgroup.subtree_control"), "+memory");
    for (controller, folder, groups) in hierarchies {
        let top = Path::new(folder);
        for group in groups.iter().map(|name| top.join(name)) {
            fs::create_dir(&group).with_context(|| format!("cannot make {}", group.display()))?;
            if controller == "cpuset" {
                for file in ["cpus", "mems"] {
                    let text =
                        fs::read_to_string(top.join(file)).with_context(|| format!("cannot read {folder}/{file}"))?;
                    fs::write(group.join(file), text.trim())
                        .with_context(|| format!("cannot write {file} of {}", group.display()))?;
                }
            }
            give_to_system(&group)?;
        }
        give_to_system(top)?;
    }
    set_mode(Path::new("/dev/cpuset/system-background"), 0o775)
}

/// ActivityManager moves processes into `group`, in which it is no more than a user.
fn give_to_system(group: &Path) -> anyhow::Result<()> {
    own(group, 0o755)?;
    MEMBER_FILES.iter().try_for_each(|file| own(&group.join(file), 0o664))
}

fn binderfs() -> anyhow::Result<()> {
    const FOLDER: &str = "/dev/binderfs";
    fs::create_dir(FOLDER).with_context(|| format!("cannot make {FOLDER}"))?;
    let flags = MountFlags::empty();
    mount("binder", FOLDER, "binder", flags, Some(options("stats=global")?.as_c_str()))
        .with_context(|| format!("cannot mount binderfs at {FOLDER}"))?;
    set_mode(Path::new(FOLDER), 0o755)?;
    for device in ["binder", "hwbinder", "vndbinder"] {
        let (inside, outside) = (format!("{FOLDER}/{device}"), format!("/dev/{device}"));
        set_mode(Path::new(&inside), 0o666)?;
        symlink(&inside, &outside).with_context(|| format!("cannot link {outside} to {inside}"))?;
    }
    Ok(())
}

fn mount_group(kind: &str, folder: &str, text: &str) -> anyhow::Result<()> {
    let flags = MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::NOSUID;
    let options = options(text)?;
    mount("none", folder, kind, flags, Some(options.as_c_str()))
        .with_context(|| format!("cannot mount {kind} {text:?} at {folder}"))
}

fn folder_of_system(folder: &Path, mode: u32) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    own(folder, mode)
}

fn own(path: &Path, mode: u32) -> anyhow::Result<()> {
    chown(path, Some(SYSTEM), Some(SYSTEM)).with_context(|| format!("cannot give {} to system", path.display()))?;
    set_mode(path, mode)
}

fn set_mode(path: &Path, mode: u32) -> anyhow::Result<()> {
    fs::set_permissions(path, Permissions::from_mode(mode))
        .with_context(|| format!("cannot set the mode of {}", path.display()))
}

fn write(path: &Path, contents: impl AsRef<[u8]>, mode: u32) -> anyhow::Result<()> {
    fs::write(path, contents).with_context(|| format!("cannot write {}", path.display()))?;
    set_mode(path, mode)
}
