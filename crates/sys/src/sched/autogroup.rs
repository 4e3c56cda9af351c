//! Autogroups: with `kernel.sched_autogroup_enabled` each session (setsid(2)) competes as one scheduling group, and nice values
//! apply only within it. The whole session has a nice value of its own, in /proc/PID/autogroup of any of its processes
//! (sched(7), "The autogroup feature").

use std::collections::BTreeMap;
use std::io;
use std::thread::sleep;
use std::time::Duration;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::memory::process_memory::pids;
use crate::{DeviceError, Operation, Root};

/// The file of a process, for messages.
pub const FILE: &str = "/proc/PID/autogroup";
const SWITCH: &str = "/proc/sys/kernel/sched_autogroup_enabled";
/// Without CAP_SYS_ADMIN the kernel accepts one write of a nice value in this period, from all processes together.
const WRITE_PERIOD: Duration = Duration::from_millis(100);
/// Other writers may use up the period.
const ATTEMPTS: usize = 5;

/// A session's scheduling group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Autogroup {
    /// Its number, which is not reused before the next boot.
    pub id: u64,
    /// Its nice value against other autogroups.
    pub nice: i32,
    /// This process is in it.
    #[serde(default)]
    pub is_own: bool,
}

/// True when sessions outside control groups compete as autogroups.
pub fn is_enabled(root: &Root) -> bool {
    root.read(SWITCH).is_ok_and(|value| value == "1")
}

/// The autogroup of process or thread `pid`; none for one that is not in a session yet.
///
/// # Errors
/// When it has ended, or the kernel has no autogroups.
pub fn of(root: &Root, pid: u32) -> Result<Option<Autogroup>, DeviceError> {
    let file = file(pid);
    let text = root.read(&file)?;
    let malformed = || DeviceError::malformed(&root.path(&file), "/autogroup-ID nice VALUE", &text);
    if text.is_empty() { Ok(None) } else { parse(&text).map(Some).ok_or_else(malformed) }
}

/// Parses /proc/PID/autogroup.
pub fn parse(text: &str) -> Option<Autogroup> {
    let (id, nice) = text.strip_prefix("/autogroup-")?.split_once(" nice ")?;
    Some(Autogroup { id: id.parse().ok()?, nice: parse_nice(nice)?, is_own: false })
}

/// Parses a nice value.
pub fn parse_nice(text: &str) -> Option<i32> {
    text.parse().ok().filter(|nice| (-20..=19).contains(nice))
}

fn file(pid: u32) -> String {
    format!("/proc/{pid}/autogroup")
}

/// Reads and writes the nice values of sessions, each through any process in it.
#[derive(Debug, Default)]
pub struct Autogroups {
    /// A process of each session, where one was found.
    members: BTreeMap<u64, u32>,
}

impl Autogroups {
    /// The nice value of autogroup `id`.
    ///
    /// # Errors
    /// [`DeviceError::is_missing`] when no process is in it any more.
    pub fn read(&mut self, root: &Root, id: u64) -> Result<i32, DeviceError> {
        Ok(self.member(root, id, Operation::Read)?.1)
    }

    /// Sets the nice value of autogroup `id` to `nice`.
    ///
    /// # Errors
    /// As [`Self::read`], and with the kernel's answer.
    pub fn write(&mut self, root: &Root, id: u64, nice: i32) -> Result<(), DeviceError> {
        let (pid, _) = self.member(root, id, Operation::Write)?;
        write_nice(root, pid, nice)?;
        // The process may have started its own session in between, whose nice value was 0.
        if of(root, pid).is_ok_and(|now| now.is_some_and(|now| now.id != id)) {
            self.members.remove(&id);
            write_nice(root, pid, 0)?;
            return Err(missing(root, id, Operation::Write));
        }
        Ok(())
    }

    fn member(&mut self, root: &Root, id: u64, operation: Operation) -> Result<(u32, i32), DeviceError> {
        let is_member = |pid: u32| {
            let found = of(root, pid).ok()??;
            (found.id == id).then_some((pid, found.nice))
        };
        if let Some(found) = self.members.get(&id).and_then(|&pid| is_member(pid)) {
            return Ok(found);
        }
        self.members.remove(&id);
        // The first process is most likely the session's leader, which cannot start another session.
        let found = pids(root)?.into_iter().find_map(is_member).ok_or_else(|| missing(root, id, operation))?;
        self.members.insert(id, found.0);
        Ok(found)
    }
}

fn write_nice(root: &Root, pid: u32, nice: i32) -> Result<(), DeviceError> {
    let must_wait = |error: &DeviceError| error.errno() == Some(Errno::AGAIN);
    let mut attempts = 1;
    loop {
        match root.write(file(pid), &nice.to_string()) {
            Err(error) if must_wait(&error) && attempts < ATTEMPTS => sleep(WRITE_PERIOD),
            result => return result,
        }
        attempts += 1;
    }
}

fn missing(root: &Root, id: u64, operation: Operation) -> DeviceError {
    DeviceError::io(&root.path(format!("/proc (autogroup {id})")), operation, io::ErrorKind::NotFound)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::test_trees::root_of;

    // Verifies PLACE-8.
    #[test]
    fn the_file_is_parsed_as_the_kernel_writes_it() {
        for (text, expected) in [
            ("/autogroup-123 nice 0", Some((123, 0))),
            ("/autogroup-1 nice -20", Some((1, -20))),
            ("/autogroup-1 nice 19", Some((1, 19))),
            ("/autogroup-1 nice 20", None),
            ("/autogroup- nice 0", None),
            ("/autogroup-1", None),
            ("autogroup-1 nice 0", None),
            ("", None),
        ] {
            assert_eq!(parse(text).map(|found| (found.id, found.nice)), expected, "{text:?}");
        }
    }

    // Verifies PLACE-8.
    #[test]
    fn a_session_is_reached_through_any_process_that_is_left() {
        let (_folder, root) = root_of(&[
            ("/proc/sys/kernel/sched_autogroup_enabled", "1\n"),
            ("/proc/5/autogroup", ""),
            ("/proc/7/autogroup", "/autogroup-12 nice 3\n"),
            ("/proc/9/autogroup", "/autogroup-12 nice 3\n"),
            ("/proc/11/autogroup", "/autogroup-13 nice 0\n"),
        ]);
        assert!(is_enabled(&root));
        assert_eq!(of(&root, 5).unwrap(), None, "in no session");
        let mut autogroups = Autogroups::default();
        assert_eq!(autogroups.read(&root, 12).unwrap(), 3);
        fs::remove_file(root.path("/proc/7/autogroup")).unwrap();
        assert_eq!(autogroups.read(&root, 12).unwrap(), 3, "through process 9");
        assert!(autogroups.read(&root, 14).unwrap_err().is_missing());
        // A recorded tree keeps what was written where the kernel would show the whole line.
        autogroups.write(&root, 13, 19).unwrap();
        assert_eq!(root.read("/proc/11/autogroup").unwrap(), "19");
    }

    // Verifies PLACE-8.
    #[test]
    fn a_kernel_without_autogroups_is_recognised() {
        for (files, enabled) in [(&[][..], false), (&[("/proc/sys/kernel/sched_autogroup_enabled", "0\n")][..], false)]
        {
            let (_folder, root) = root_of(files);
            assert_eq!(is_enabled(&root), enabled);
            assert!(of(&root, 1).unwrap_err().is_missing());
        }
    }
}
