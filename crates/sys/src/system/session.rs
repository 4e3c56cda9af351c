//! The processes of the foreground session, on a system with logind: each seat names its active session, and the session its
//! scope (sd-login(3); the files below /run/systemd that its functions read).

use std::collections::BTreeSet;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};
use rustix::io::Errno;

use crate::cgroup::hierarchy;
use crate::{DeviceError, Operation, Root};

/// One file per seat.
const SEATS: &str = "/run/systemd/seats";
/// One file per session.
const SESSIONS: &str = "/run/systemd/sessions";
/// The folder of systemd's groups when version 2 has no controllers.
const NAMED_HIERARCHY: &str = "/sys/fs/cgroup/systemd";

/// A watch on the foreground of each seat.
#[derive(Debug)]
pub struct Sessions {
    root: Root,
    watch: OwnedFd,
    /// True until the first [`Sessions::pids`], before which the caller need not wait for a change.
    pub is_new: bool,
}

impl Sessions {
    /// Watches the seats; `None` where there is no logind.
    ///
    /// # Errors
    /// [`DeviceError`] when the kernel refuses the watch.
    pub fn open(root: &Root) -> Result<Option<Self>, DeviceError> {
        if !root.exists(SEATS) {
            return Ok(None);
        }
        let fault = |error: Errno| DeviceError::io(&root.path(SEATS), Operation::Watch, error);
        let watch = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).map_err(fault)?;
        // logind writes a new file and renames it over the old one.
        let events = WatchFlags::MOVED_TO | WatchFlags::CLOSE_WRITE | WatchFlags::DELETE;
        inotify::add_watch(&watch, root.path(SEATS), events).map_err(fault)?;
        Ok(Some(Self { root: root.clone(), watch, is_new: true }))
    }

    /// Discards pending events, without waiting, and returns the foreground processes, ascending.
    ///
    /// # Errors
    /// [`DeviceError`] when the watch fails.
    pub fn pids(&mut self) -> Result<Vec<u32>, DeviceError> {
        let mut buffer = [MaybeUninit::uninit(); 1024];
        let mut reader = Reader::new(&self.watch, &mut buffer);
        loop {
            match reader.next() {
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(error) => return Err(DeviceError::io(&self.root.path(SEATS), Operation::Watch, error)),
            }
        }
        self.is_new = false;
        Ok(pids(&self.root))
    }
}

impl AsFd for Sessions {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }
}

/// The processes of all active sessions, ascending. A session that has just ended has none.
pub fn pids(root: &Root) -> Vec<u32> {
    let seats = root.list(SEATS).unwrap_or_default();
    let members = seats.iter().filter_map(|seat| members(root, seat)).flatten();
    members.collect::<BTreeSet<u32>>().into_iter().collect()
}

fn members(root: &Root, seat: &str) -> Option<Vec<u32>> {
    let seat = root.read(format!("{SEATS}/{seat}")).ok()?;
    let session = field(&seat, "ACTIVE=").filter(|id| is_name(id))?;
    let session = root.read(format!("{SESSIONS}/{session}")).ok()?;
    let scope = field(&session, "SCOPE=").filter(|scope| is_name(scope))?;
    let user: u32 = field(&session, "UID=")?.parse().ok()?;
    let mut mounts = hierarchy::unified(root).into_iter().chain([PathBuf::from(NAMED_HIERARCHY)]);
    let group = format!("user.slice/user-{user}.slice/{scope}");
    mounts.find_map(|mount| hierarchy::members(root, &mount.join(&group)).ok())
}

/// The value of `name` in a file of one assignment per line.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// True for the name of one file, without a path.
fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.starts_with('.') && !text.contains('/')
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn write(root: &Root, file: &str, text: &str) {
        let path = root.path(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Two sessions of two users, of which `active` is in the foreground.
    fn device(active: &str) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        write(&root, "/proc/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n");
        write(&root, "/run/systemd/seats/seat0", &format!("# private\nIS_SEAT0=1\nACTIVE={active}\nSESSIONS=2 c1\n"));
        write(&root, "/run/systemd/sessions/2", "UID=1000\nUSER=a\nACTIVE=1\nSCOPE=session-2.scope\n");
        write(&root, "/run/systemd/sessions/c1", "UID=113\nSCOPE=session-c1.scope\n");
        write(&root, "/sys/fs/cgroup/user.slice/user-1000.slice/session-2.scope/cgroup.procs", "70\n9\n");
        write(&root, "/sys/fs/cgroup/systemd/user.slice/user-113.slice/session-c1.scope/cgroup.procs", "5\n");
        (folder, root)
    }

    // Verifies DAEMON-2.
    #[test]
    fn the_active_session_is_in_foreground() {
        for (active, expected) in [("2", vec![9, 70]), ("c1", vec![5]), ("3", vec![]), ("", vec![]), ("../2", vec![])] {
            let (_folder, root) = device(active);
            assert_eq!(pids(&root), expected, "{active}");
        }
        assert!(pids(&Root::at("/nonexistent")).is_empty());
    }

    // Verifies DAEMON-2.
    #[test]
    fn a_scope_is_a_plain_name() {
        let (_folder, root) = device("2");
        for scope in ["../user-113.slice/session-c1.scope", ".", "", "a/b"] {
            write(&root, "/run/systemd/sessions/2", &format!("UID=1000\nSCOPE={scope}\n"));
            assert!(pids(&root).is_empty(), "{scope}");
        }
    }

    // Verifies DAEMON-2.
    #[test]
    fn a_change_of_the_session_is_noticed() {
        let (_folder, root) = device("2");
        assert!(Sessions::open(&Root::at("/nonexistent")).unwrap().is_none());
        let mut sessions = Sessions::open(&root).unwrap().unwrap();
        assert!(sessions.is_new);
        assert_eq!(sessions.pids().unwrap(), [9, 70]);
        assert!(!sessions.is_new);
        write(&root, "/run/systemd/new", "ACTIVE=c1\n");
        fs::rename(root.path("/run/systemd/new"), root.path("/run/systemd/seats/seat0")).unwrap();
        let mut ready = [rustix::event::PollFd::new(&sessions, rustix::event::PollFlags::IN)];
        assert_eq!(rustix::event::poll(&mut ready, None).unwrap(), 1);
        assert_eq!(sessions.pids().unwrap(), [5]);
    }
}
