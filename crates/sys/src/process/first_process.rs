//! What the kernel's first process, and who is started by it before anything is mounted, find missing.

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

/// The first process's root, for who has left it: not that of the initial RAM disk, once it has moved on.
pub const ROOT_OF_FIRST_PROCESS: &str = "/proc/1/root";

/// Gives standard input, output and error something to be where they are closed, until the next exec(2). Called before
/// `main`: the language's own start would end the program when there is no /dev/null either, and a kernel whose console
/// does not exist starts its first process so.
pub extern "C" fn open_missing_descriptors() {
    for number in 0..=2 {
        // SAFETY: the number is only asked about; it is not kept.
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        if rustix::io::fcntl_getfd(descriptor) != Err(Errno::BADF) {
            continue;
        }
        // The lowest free number is taken, which is this one. A descriptor of a folder can be neither read nor written.
        for (path, flags) in [("/dev/null", OFlags::RDWR), ("/", OFlags::RDONLY | OFlags::DIRECTORY)] {
            if let Ok(opened) = rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty()) {
                let _ = opened.into_raw_fd();
                break;
            }
        }
    }
}

/// Gives this process a /proc, a /sys and an empty tmpfs at the folder of [`Root::runtime_folder`] that no other process sees
/// or can remove, whatever is mounted, moved or unmounted meanwhile.
///
/// # Errors
/// When it has not the rights, or a file system cannot be mounted.
pub fn take_own_view() -> io::Result<()> {
    // SAFETY: only the mount namespace is left, which no safe code of this process relies on.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS)? };
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    for (kind, place) in [("proc", "/proc"), ("sysfs", "/sys")] {
        mount_own(kind, Path::new(place))?;
    }
    let runtime = Root::system().runtime_folder();
    mount_own("tmpfs", runtime.parent().unwrap_or(&runtime))
}

/// True once the system that boots below `world` has mounted what its runtime folder lies on, so that what is kept beside
/// it lasts until the next reboot. What is there before goes with the initial RAM disk, or lies on a disk.
pub fn has_lasting_runtime_folder(world: &Root) -> bool {
    let folder = world.runtime_folder();
    let parent = folder.parent().and_then(|parent| parent.symlink_metadata().ok());
    let root = world.path("/").metadata();
    parent.zip(root.ok()).is_some_and(|(parent, root)| parent.is_dir() && parent.dev() != root.dev())
}

fn mount_own(kind: &str, place: &Path) -> io::Result<()> {
    // Where it is missing and cannot be made, the mount says so.
    let _ = fs::create_dir(place);
    match mount(kind, place, kind, MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC, None) {
        // Init was faster: this process has a copy of its mount.
        Ok(()) | Err(Errno::BUSY) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
