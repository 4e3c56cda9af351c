//! The foreground processes on Android: the members of the `top-app` cpuset, into which the system moves them (libprocessgroup;
//! `/dev/cpuset/top-app` since Android 7).

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};
use rustix::io::Errno;

use crate::cgroup::hierarchy::members;
use crate::{DeviceError, Operation, Root};

/// Where the group may be, as named on the device: Android's mount of the cpuset controller first.
const GROUPS: [&str; 2] = ["/dev/cpuset/top-app", "/sys/fs/cgroup/cpuset/top-app"];

/// Members are moved by process or by thread; both files are written to.
const MEMBER_FILES: [&str; 2] = ["cgroup.procs", "tasks"];

/// The folder of the group of the foreground processes, as named on the device, if there is one.
pub fn group(root: &Root) -> Option<PathBuf> {
    GROUPS.into_iter().map(PathBuf::from).find(|group| root.exists(group.join(MEMBER_FILES[0])))
}

/// A watch on the group of the foreground processes.
#[derive(Debug)]
pub struct Foreground {
    root: Root,
    group: PathBuf,
    watch: OwnedFd,
}

impl Foreground {
    /// Watches the group; `None` where there is none.
    ///
    /// # Errors
    /// [`DeviceError`] when the kernel refuses the watch.
    pub fn open(root: &Root) -> Result<Option<Self>, DeviceError> {
        let Some(group) = group(root) else { return Ok(None) };
        let fault = |file: &PathBuf, error: Errno| DeviceError::io(&root.path(file), Operation::Watch, error);
        let watch =
            inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).map_err(|error| fault(&group, error))?;
        for name in MEMBER_FILES {
            let file = group.join(name);
            match inotify::add_watch(&watch, root.path(&file), WatchFlags::MODIFY) {
                // The unified hierarchy has no `tasks`.
                Ok(_) | Err(Errno::NOENT) => {}
                Err(error) => return Err(fault(&file, error)),
            }
        }
        Ok(Some(Self { root: root.clone(), group, watch }))
    }

    /// Reads pending events, without waiting: true when a process was moved into the group.
    ///
    /// # Errors
    /// [`DeviceError`] when the watch fails.
    pub fn moved(&mut self) -> Result<bool, DeviceError> {
        let mut buffer = [MaybeUninit::uninit(); 1024];
        let mut reader = Reader::new(&self.watch, &mut buffer);
        let mut moved = false;
        loop {
            match reader.next() {
                Ok(_) => moved = true,
                Err(Errno::AGAIN) => return Ok(moved),
                Err(Errno::INTR) => {}
                Err(error) => return Err(DeviceError::io(&self.root.path(&self.group), Operation::Watch, error)),
            }
        }
    }

    /// The foreground processes, ascending.
    ///
    /// # Errors
    /// [`DeviceError`] when the group cannot be read.
    pub fn pids(&self) -> Result<Vec<u32>, DeviceError> {
        members(&self.root, &self.group)
    }
}

impl AsFd for Foreground {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_move_into_the_group_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        assert!(Foreground::open(&root).unwrap().is_none());
        let group = root.path("/dev/cpuset/top-app");
        fs::create_dir_all(&group).unwrap();
        for name in MEMBER_FILES {
            fs::write(group.join(name), "1234\n99\n1234\n").unwrap();
        }
        let mut foreground = Foreground::open(&root).unwrap().unwrap();
        assert!(!foreground.moved().unwrap());
        assert_eq!(foreground.pids().unwrap(), [99, 1234]);
        for name in MEMBER_FILES {
            fs::write(group.join(name), "4321\n").unwrap();
            assert!(foreground.moved().unwrap(), "{name}");
            assert!(!foreground.moved().unwrap(), "{name}");
        }
        assert_eq!(foreground.pids().unwrap(), [4321]);
    }
}
