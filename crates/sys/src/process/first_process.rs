//! Descriptors and mounts that the kernel's first process, and programs that it starts before anything is mounted, lack.

use std::fs;
use std::io;
use std::os::fd::{BorrowedFd, IntoRawFd as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::thread::UnshareFlags;

use crate::Root;

/// The first process's root, for a process in another one: once init has switched roots, it is not the initial RAM disk's.
pub const INIT_ROOT: &str = "/proc/1/root";

/// Opens standard input, output and error where they are closed, until the next exec(2). Called before `main`: the start of
/// Rust's runtime would end the program when there is no /dev/null either, and a kernel without a console starts its first
/// process like that.
pub extern "C" fn open_missing_descriptors() {
    for number in 0..=2 {
        // SAFETY: the number is only queried; it is not kept.
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        if rustix::io::fcntl_getfd(descriptor) != Err(Errno::BADF) {
            continue;
        }
        // open(2) returns the lowest free number, which is this one. A folder's descriptor can be neither read nor written.
        for (path, flags) in [("/dev/null", OFlags::RDWR), ("/", OFlags::RDONLY | OFlags::DIRECTORY)] {
            if let Ok(opened) = rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty()) {
                let _ = opened.into_raw_fd();
                break;
            }
        }
    }
}

/// Mounts, for this process only, a /proc, a /sys and an empty tmpfs at the folder of [`Root::runtime_folder`]: no other
/// process sees or can remove them, whatever is mounted, moved or unmounted meanwhile.
///
/// # Errors
/// When it lacks the permission, or a file system cannot be mounted.
pub fn mount_private_filesystems() -> io::Result<()> {
    // SAFETY: only the mount namespace is left, which no safe code of this process relies on.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS)? };
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    for (kind, place) in [("proc", "/proc"), ("sysfs", "/sys")] {
        mount_own(kind, Path::new(place))?;
    }
    let runtime = Root::system().runtime_folder();
    mount_own("tmpfs", runtime.parent().unwrap_or(&runtime))
}

/// True once the system that boots below `world` has mounted the file system of its runtime folder, so that files beside that
/// folder last until the next reboot. Before that, they are lost with the initial RAM disk, or are on a disk.
pub fn is_runtime_folder_mounted(world: &Root) -> bool {
    let folder = world.runtime_folder();
    let parent = folder.parent().and_then(|parent| parent.symlink_metadata().ok());
    let root = world.path("/").metadata();
    parent.zip(root.ok()).is_some_and(|(parent, root)| parent.is_dir() && parent.dev() != root.dev())
}

fn mount_own(kind: &str, place: &Path) -> io::Result<()> {
    // Where it is missing and cannot be created, the mount fails.
    let _ = fs::create_dir(place);
    match mount(kind, place, kind, MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC, None) {
        // Init was faster: this process has a copy of its mount.
        Ok(()) | Err(Errno::BUSY) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
