//! The guest's file systems.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use anyhow::Context;
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount, mount_bind};

use crate::scenario::CgroupVersion;
use brisk_sys::Root;

/// Controllers that a version 1 guest has, where its kernel knows them.
const V1_CONTROLLERS: &[&str] = &["cpu", "cpuacct", "cpuset", "memory", "blkio", "freezer"];

/// Mounts /proc, /sys, /dev and /tmp, /run unless the guest is like Android, which has none, and the debugging file systems
/// where the kernel has them.
///
/// # Errors
/// When one that is not for debugging cannot be mounted.
pub fn basic(is_android: bool) -> anyhow::Result<()> {
    for (kind, target, options) in [
        ("devtmpfs", "/dev", ""),
        ("proc", "/proc", ""),
        ("sysfs", "/sys", ""),
        ("tmpfs", "/tmp", "mode=1777"),
        ("devpts", "/dev/pts", ""),
    ] {
        mount_at(kind, target, options)?;
    }
    if !is_android {
        mount_at("tmpfs", "/run", "mode=0755")?;
        mount_at("tmpfs", "/dev/shm", "")?;
    }
    // These are optional.
    for (kind, target) in [("debugfs", "/sys/kernel/debug"), ("tracefs", "/sys/kernel/tracing")] {
        let _ = mount(kind, target, kind, MountFlags::empty(), None);
    }
    Ok(())
}

/// Mounts the cgroup hierarchy that the scenario asks for.
///
/// # Errors
/// When the kernel refuses it.
pub fn cgroup(version: CgroupVersion) -> anyhow::Result<()> {
    const FOLDER: &str = "/sys/fs/cgroup";
    match version {
        CgroupVersion::None => Ok(()),
        CgroupVersion::V2 => {
            mount_at("cgroup2", FOLDER, "")?;
            let controllers = fs::read_to_string(format!("{FOLDER}/cgroup.controllers"))?;
            let on: String = controllers.split_whitespace().map(|name| format!("+{name} ")).collect();
            fs::write(format!("{FOLDER}/cgroup.subtree_control"), &on)
                .with_context(|| format!("cannot hand the controllers {on}down from {FOLDER}"))
        }
        CgroupVersion::V1 => {
            mount_at("tmpfs", FOLDER, "mode=0755")?;
            for controller in V1_CONTROLLERS {
                let target = format!("{FOLDER}/{controller}");
                fs::create_dir_all(&target).with_context(|| format!("cannot make {target}"))?;
                match mount("cgroup", &target, "cgroup", MountFlags::empty(), Some(options(controller)?.as_c_str())) {
                    Ok(()) => {}
                    // The kernel does not have this controller, or switched it off.
                    Err(Errno::INVAL | Errno::NOENT) => fs::remove_dir(&target)?,
                    Err(error) => return Err(error).with_context(|| format!("cannot mount {target}")),
                }
            }
            Ok(())
        }
    }
}

/// Links the binder devices, so that they are both in /dev and in binderfs for programs that use one of the two only.
///
/// # Errors
/// When binderfs cannot be mounted or a link cannot be made.
pub fn binderfs(root: &Root) -> anyhow::Result<()> {
    const FOLDER: &str = "/dev/binderfs";
    let Ok(devices) = root.read("/sys/module/binder_linux/parameters/devices") else { return Ok(()) };
    fs::create_dir_all(FOLDER).with_context(|| format!("cannot make {FOLDER}"))?;
    let is_mounted = match mount("binder", FOLDER, "binder", MountFlags::empty(), None) {
        Ok(()) => true,
        // The kernel has no binderfs.
        Err(Errno::NODEV) => false,
        Err(error) => return Err(error).with_context(|| format!("cannot mount binderfs at {FOLDER}")),
    };
    for device in devices.split(',') {
        let (inside, outside) = (format!("{FOLDER}/{device}"), format!("/dev/{device}"));
        let (link, target) = if is_mounted { (outside, inside) } else { (inside, outside) };
        symlink(&target, &link).with_context(|| format!("cannot link {link} to {target}"))?;
    }
    Ok(())
}

/// Mounts the disk, and over each of `folders` its copy there, which is made from the initramfs at the first boot.
///
/// # Errors
/// When there is no disk, or something cannot be copied or mounted.
pub fn kept(folders: &[String]) -> anyhow::Result<()> {
    const DISK: &str = "/dev/pmem0";
    const PLACE: &str = "/disk";
    if folders.is_empty() {
        return Ok(());
    }
    // The disk's driver probes it asynchronously.
    for _ in 0..1000 {
        if Path::new(DISK).exists() {
            break;
        }
        sleep(Duration::from_millis(10));
    }
    fs::create_dir_all(PLACE).with_context(|| format!("cannot make {PLACE}"))?;
    mount(DISK, PLACE, "ext4", MountFlags::empty(), None).with_context(|| format!("cannot mount {DISK}"))?;
    for folder in folders {
        let on_disk = format!("{PLACE}{folder}");
        fs::create_dir_all(folder).with_context(|| format!("cannot make {folder}"))?;
        if !Path::new(&on_disk).exists() {
            copy(Path::new(folder), Path::new(&on_disk)).with_context(|| format!("cannot copy {folder}"))?;
        }
        mount_bind(&on_disk, folder).with_context(|| format!("cannot mount {on_disk} at {folder}"))?;
    }
    Ok(())
}

/// Copies the files and folders below `from`.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, copied) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() { copy(&path, &copied)? } else { fs::copy(&path, &copied).map(drop)? }
    }
    Ok(())
}

fn mount_at(kind: &str, target: &str, text: &str) -> anyhow::Result<()> {
    fs::create_dir_all(target).with_context(|| format!("cannot make {target}"))?;
    match mount(kind, target, kind, MountFlags::empty(), Some(options(text)?.as_c_str())) {
        // Some kernels mount /dev themselves (CONFIG_DEVTMPFS_MOUNT).
        Ok(()) | Err(Errno::BUSY) => Ok(()),
        Err(error) => Err(error).with_context(|| format!("cannot mount {kind} at {target}")),
    }
}

/// `text` as mount(2) takes it.
///
/// # Errors
/// When it holds a zero byte.
pub fn options(text: &str) -> anyhow::Result<std::ffi::CString> {
    std::ffi::CString::new(text).context("a mount option holds a zero byte")
}
