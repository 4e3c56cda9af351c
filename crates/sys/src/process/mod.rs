//! The description of one process, from /proc/PID (proc(5)).

pub mod drm_clients;
pub mod first_process;
pub mod fork;
pub mod kinship;
pub mod own_code;
pub mod parent_death;
pub mod peer;
pub mod process_events;
pub mod process_filter;
pub mod process_kill;
pub mod process_watch;
pub mod schedstat;
pub mod user;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use serde::{Deserialize, Serialize};

use crate::{DeviceError, Root};

/// A clock tick of times in /proc: USER_HZ is 100 on every architecture that brisk runs on.
pub const TICK_MS: u64 = 10;

/// What a policy may need of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProcessDescription {
    /// Its parent; zero for the first process and for kernel threads' root.
    pub parent: u32,
    /// Its name (`comm`), at most 15 bytes.
    pub command: String,
    /// When it started, in clock ticks since boot (field 22 of `stat`): with the pid it identifies one process for ever.
    pub start_time_ticks: u64,
    /// Its real user id, where `status` could be read.
    pub uid: Option<u32>,
    /// Its cgroup: the v1 cpuset path where it is in one other than `/`, else the v2 path; none without cgroups.
    pub cgroup: Option<String>,
}

/// The facts of process `pid`.
///
/// # Errors
/// [`DeviceError::is_missing`] when it has ended, [`DeviceError::is_malformed`] when `stat` is not as documented.
pub fn facts(root: &Root, pid: u32) -> Result<ProcessDescription, DeviceError> {
    let stat = stat(root, pid)?;
    let uid = root.read(format!("/proc/{pid}/status")).ok().and_then(|text| parse_real_uid(&text));
    let cgroup = group(root, pid);
    Ok(ProcessDescription {
        parent: stat.parent,
        command: stat.command,
        start_time_ticks: stat.start_time_ticks,
        uid,
        cgroup,
    })
}

/// The most specific control group of process `pid` ([`parse_cgroup`]).
pub fn group(root: &Root, pid: u32) -> Option<String> {
    root.read(format!("/proc/{pid}/cgroup")).ok().and_then(|text| parse_cgroup(&text))
}

/// When process `pid` started, in clock ticks since boot.
///
/// # Errors
/// As [`facts`].
pub fn start_time_ticks(root: &Root, pid: u32) -> Result<u64, DeviceError> {
    Ok(stat(root, pid)?.start_time_ticks)
}

/// One life of a process: its number is reused after it has exited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// Its number.
    pub pid: u32,
    /// Field 22 of /proc/PID/stat.
    pub start_time_ticks: u64,
}

/// The current life of process `pid`; `None` when it has exited.
pub fn life(root: &Root, pid: u32) -> Option<ProcessIdentity> {
    let start_time_ticks = start_time_ticks(root, pid).ok()?;
    Some(ProcessIdentity { pid, start_time_ticks })
}

/// What brisk reads from /proc/PID/stat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatFacts {
    /// Field 4.
    pub parent: u32,
    /// Field 2 without its parentheses.
    pub command: String,
    /// Field 22.
    pub start_time_ticks: u64,
    /// Fields 14 and 15 together: CPU time of all its threads, in clock ticks.
    pub cpu_ticks: u64,
    /// Fields 16 and 17 together: CPU time of its children that have ended and of theirs, in clock ticks.
    pub children_ticks: u64,
    /// Field 3 is `Z` or `X`: its parent has not reaped it, but it holds no resources any more.
    pub is_dead: bool,
    /// Field 9 has `PF_EXITING`: it is exiting, and the kernel does not move it to another control group.
    pub is_exiting: bool,
}

/// `PF_EXITING` of the kernel's include/linux/sched.h, the same on every architecture.
const EXITING: u64 = 0x4;

/// The facts from one read of the `stat` of process `pid`.
///
/// # Errors
/// As [`facts`].
pub fn stat(root: &Root, pid: u32) -> Result<StatFacts, DeviceError> {
    let file = format!("/proc/{pid}/stat");
    let text = root.read(&file)?;
    parse_stat(&text).ok_or_else(|| DeviceError::malformed(&root.path(&file), "the fields of proc_pid_stat(5)", &text))
}

/// The name of `pid`: cheaper than [`stat`], for which the kernel walks its memory and its threads.
///
/// # Errors
/// [`DeviceError`] when it has ended.
pub fn command(root: &Root, pid: u32) -> Result<String, DeviceError> {
    root.read(format!("/proc/{pid}/comm"))
}

/// `pid` for system calls; none for a number that no process can have.
pub fn id(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

/// True when `pid` of this system has ended, whether or not its parent has reaped it.
pub fn has_ended(pid: u32) -> bool {
    // A signal queries the kernel directly: /proc may be mounted so that it hides other users' processes.
    let Some(process) = id(pid) else { return true };
    match test_kill_process(process) {
        Err(Errno::SRCH) => true,
        _ => stat(&Root::system(), pid).is_ok_and(|stat| stat.is_dead),
    }
}

/// Parses /proc/PID/stat; the name may contain blanks and parentheses, so it ends at the last parenthesis.
pub fn parse_stat(text: &str) -> Option<StatFacts> {
    let (before, after) = text.rsplit_once(')')?;
    let (_, command) = before.split_once('(')?;
    let mut fields = after.split_ascii_whitespace();
    let is_dead = matches!(fields.next()?, "Z" | "X");
    let parent = fields.next()?.parse().ok()?;
    let flags: u64 = fields.nth(4)?.parse().ok()?;
    // Signed, as proc_pid_stat(5) has them.
    let mut times = fields.by_ref().skip(4).map_while(|field| field.parse::<i64>().ok());
    let mut both = || Some(times.next()?.saturating_add(times.next()?).max(0) as u64);
    let (cpu_ticks, children_ticks) = (both()?, both()?);
    let start_time_ticks = fields.nth(4)?.parse().ok()?;
    Some(StatFacts {
        parent,
        command: command.to_owned(),
        start_time_ticks,
        cpu_ticks,
        children_ticks,
        is_dead,
        is_exiting: flags & EXITING != 0,
    })
}

/// The CPU on which the main thread of `pid` ran last, which `top` shows as its processor; `None` when it has ended.
pub fn last_cpu(root: &Root, pid: u32) -> Option<u32> {
    parse_last_cpu(&root.read(format!("/proc/{pid}/stat")).ok()?)
}

/// Field 39 of /proc/PID/stat.
pub fn parse_last_cpu(text: &str) -> Option<u32> {
    let (_, after) = text.rsplit_once(')')?;
    // What follows the name begins with field 3.
    after.split_ascii_whitespace().nth(36)?.parse().ok()
}

/// The function of the kernel in which the main thread of `pid` sleeps (proc_pid_wchan(5)); `None` while it does not, where this
/// user may not know, and on kernels without symbols.
pub fn wait_function(root: &Root, pid: u32) -> Option<String> {
    root.read(format!("/proc/{pid}/wchan")).ok().filter(|function| !matches!(function.as_str(), "" | "0"))
}

/// The first number of the `Uid:` line of /proc/PID/status. The whole file is not parsed: its lines vary by kernel.
pub fn parse_real_uid(text: &str) -> Option<u32> {
    text.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_ascii_whitespace().next()?.parse().ok()
}

/// The most specific cgroup of a process, from /proc/PID/cgroup (cgroups(7)): Android's cpuset group (`/top-app`), else the
/// unified hierarchy's path.
pub fn parse_cgroup(text: &str) -> Option<String> {
    let mut unified = None;
    for line in text.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        if controllers.split(',').any(|controller| controller == "cpuset") && path != "/" {
            return Some(path.to_owned());
        }
        if controllers.is_empty() {
            unified = Some(path.to_owned());
        }
    }
    unified
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn this_process_is_read() {
        let root = Root::system();
        let facts = facts(&root, std::process::id()).unwrap();
        assert_eq!(facts.parent, std::os::unix::process::parent_id());
        assert_eq!(facts.uid, Some(rustix::process::getuid().as_raw()));
        assert_eq!(facts.start_time_ticks, start_time_ticks(&root, std::process::id()).unwrap());
        assert!(start_time_ticks(&root, u32::MAX).unwrap_err().is_missing());
        assert!(last_cpu(&root, std::process::id()).is_some() && last_cpu(&root, u32::MAX).is_none());
    }

    #[test]
    fn a_function_is_told_only_while_a_process_sleeps() {
        for (text, expected) in [("futex_wait_queue", Some("futex_wait_queue")), ("0", None), ("", None)] {
            let (_folder, root) = crate::test_trees::root_of(&[("proc/7/wchan", text)]);
            assert_eq!(wait_function(&root, 7).as_deref(), expected, "{text}");
            assert_eq!(wait_function(&root, 8), None);
        }
    }

    #[test]
    fn names_with_blanks_and_brackets_are_kept() {
        let rest = "S 1 2 3 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 9876 1000 10 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 \
                    0 0 0 0 0 0 0 0 0 0 0 0 0 0";
        for name in ["sh", "Web Content", "a) S (b", ""] {
            let facts = parse_stat(&format!("42 ({name}) {rest}")).unwrap();
            assert_eq!((facts.command.as_str(), facts.parent, facts.start_time_ticks), (name, 1, 9876));
            assert_eq!((facts.cpu_ticks, facts.children_ticks), (5 + 6, 7 + 8));
            assert!(!facts.is_exiting);
        }
        assert!(parse_stat(&format!("42 (sh) {}", rest.replace("4194560", "4194564"))).unwrap().is_exiting);
        assert_eq!(parse_stat("42 (sh"), None);
        assert_eq!(parse_last_cpu(&format!("42 (a) S (b) {}", rest.replace(" 17 0 ", " 17 3 "))), Some(3));
        assert_eq!((parse_last_cpu(&format!("42 (sh) {}", &rest[..60])), parse_last_cpu("")), (None, None));
    }

    #[test]
    fn the_end_of_a_process_is_seen_before_it_is_reaped() {
        let mut child = std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        assert!(!has_ended(child.id()));
        drop(child.stdin.take());
        while !has_ended(child.id()) {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        for gone in [child.id(), 0, u32::MAX] {
            assert!(has_ended(gone), "{gone}");
        }
        assert!(!has_ended(1), "another user's process is alive too");
    }

    #[test]
    fn the_cpuset_wins_over_the_unified_path() {
        let cases = [
            ("0::/user.slice/session-1.scope\n", Some("/user.slice/session-1.scope")),
            ("4:cpuset:/top-app\n2:cpu:/\n0::/uid_10057/pid_1234\n", Some("/top-app")),
            ("4:cpuset:/\n0::/uid_10057/pid_1234\n", Some("/uid_10057/pid_1234")),
            ("3:cpuset,cpu:/bg:colon\n", Some("/bg:colon")),
            ("2:cpu:/apps\n", None),
            ("garbage\n", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_cgroup(text).as_deref(), expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,300}") {
            let _ = (parse_stat(&text), parse_real_uid(&text), parse_cgroup(&text), parse_last_cpu(&text));
            let _ = parse_stat(&format!("1 (x) {text}"));
        }
    }
}
