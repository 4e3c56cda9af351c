//! A kernel filter for process events: an event that no mechanism wants does not wake the daemon.
//!
//! The connector reports every fork, exec and exit of the system, threads included. A classic BPF program on the
//! socket (Documentation/networking/filter.rst; SO_ATTACH_FILTER in socket(7)) drops a message before it is queued.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// The kinds of events to let through.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EventMask {
    /// Creation of processes; never of threads.
    pub fork: bool,
    /// Executions of programs.
    pub exec: bool,
    /// Name changes of processes; never of threads.
    pub comm: bool,
    /// User changes.
    pub uid: bool,
    /// Exits of processes; never of threads.
    pub exit: bool,
}

/// Offsets in the message: 16 bytes of netlink header, 20 of connector header, then `struct proc_event`
/// (linux/cn_proc.h) with 16 bytes before the data of each kind.
const KIND_OFFSET: u32 = 36;
const DATA_OFFSET: u32 = 52;

const LOAD_WORD: u16 = 0x20;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_EQUAL_X: u16 = 0x1d;
const MOVE_A_TO_X: u16 = 0x07;
const RETURN: u16 = 0x06;
const ACCEPT: u32 = u32::MAX;
const DROP: u32 = 0;

/// From now on, lets only `wanted` events reach `socket`, a subscription to process events.
///
/// # Errors
/// The kernel's answer; the previous filter stays.
pub fn attach(socket: impl AsFd, wanted: EventMask) -> io::Result<()> {
    let mut program = program(wanted);
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the kernel copies `filter.len` instructions from `filter.filter`, which is `program` and outlives the call,
    // and `size_of::<sock_fprog>` bytes from `filter`.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const filter).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// For each wanted kind: compares the kind, and where threads have it too, checks that the event is the process's own.
fn program(wanted: EventMask) -> Vec<libc::sock_filter> {
    let instruction =
        |code, jump_true, jump_false, value| libc::sock_filter { code, jt: jump_true, jf: jump_false, k: value };
    // The data's words: parent and its group, child and its group for a fork; thread and group for the others.
    let kinds = [
        (wanted.fork, 0x1, Some(2)),
        (wanted.exec, 0x2, None),
        (wanted.uid, 0x4, Some(0)),
        (wanted.comm, 0x200, Some(0)),
        (wanted.exit, 0x8000_0000, Some(0)),
    ];
    let mut program = Vec::new();
    for (_, kind, thread_word) in kinds.into_iter().filter(|(is_wanted, ..)| *is_wanted) {
        program.push(instruction(LOAD_WORD, 0, 0, KIND_OFFSET));
        // BPF loads words in network order, the connector writes them in host order.
        let kind = u32::to_be(kind);
        match thread_word {
            None => program.push(instruction(JUMP_IF_EQUAL, 0, 1, kind)),
            Some(word) => {
                program.push(instruction(JUMP_IF_EQUAL, 0, 5, kind));
                program.push(instruction(LOAD_WORD, 0, 0, DATA_OFFSET + 4 * word));
                program.push(instruction(MOVE_A_TO_X, 0, 0, 0));
                program.push(instruction(LOAD_WORD, 0, 0, DATA_OFFSET + 4 * word + 4));
                program.push(instruction(JUMP_IF_EQUAL_X, 0, 1, 0));
            }
        }
        program.push(instruction(RETURN, 0, 0, ACCEPT));
    }
    program.push(instruction(RETURN, 0, 0, DROP));
    program
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::process::process_events::{Notice, ProcessEvents};

    /// The events of a child process that arrive: fork, exec, exit. This process also creates a thread meanwhile.
    fn kinds_seen(wanted: EventMask) -> Option<Vec<&'static str>> {
        let mut events = match ProcessEvents::open() {
            Ok(events) => events,
            Err(error) => {
                eprintln!("skipped: {error}");
                return None;
            }
        };
        attach(&events, wanted).unwrap();
        events.receive(&mut Vec::new()).unwrap();
        let mut child = Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        thread::Builder::new().name("named".to_owned()).spawn(|| {}).unwrap().join().unwrap();
        let mut seen = Vec::new();
        let started = Instant::now();
        while started.elapsed() < Duration::from_millis(300) {
            let mut notices = Vec::new();
            events.receive(&mut notices).unwrap();
            seen.extend(notices.into_iter().filter_map(|timed| match timed.notice {
                Notice::Fork { child, .. } if child == pid => Some("fork"),
                Notice::Exec { pid: it } if it == pid => Some("exec"),
                Notice::Exit { pid: it } if it == pid => Some("exit"),
                _ => None,
            }));
            thread::sleep(Duration::from_millis(5));
        }
        Some(seen)
    }

    #[test]
    fn only_wanted_events_arrive() {
        let cases: [(EventMask, &[&str]); 4] = [
            (EventMask { fork: true, exec: true, comm: true, uid: true, exit: true }, &["fork", "exec", "exit"]),
            (EventMask { exec: true, ..EventMask::default() }, &["exec"]),
            (EventMask { fork: true, exit: true, ..EventMask::default() }, &["fork", "exit"]),
            (EventMask::default(), &[]),
        ];
        for (wanted, expected) in cases {
            let Some(seen) = kinds_seen(wanted) else { return };
            assert_eq!(seen, expected, "{wanted:?}");
        }
    }
}
