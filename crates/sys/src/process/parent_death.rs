//! A child that does not outlive its parent: prctl(2), `PR_SET_PDEATHSIG`.

use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::io::Errno;
use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

/// Sends the command's process `signal` when the thread that starts it ends in any way.
///
/// Starting it fails with `ESRCH` when that thread's process ends meanwhile.
pub fn die_with_parent(command: &mut Command, signal: Signal) {
    let parent = getpid();
    let prepare = move || {
        set_parent_process_death_signal(Some(signal))?;
        // The parent may have died before the line above took effect.
        if getppid() == Some(parent) { Ok(()) } else { Err(Errno::SRCH.into()) }
    };
    // SAFETY: between fork and exec `prepare` makes system calls only; it neither allocates nor takes a lock.
    unsafe {
        command.pre_exec(prepare);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Stdio;

    use super::*;

    // Verifies UNDO-4.
    #[test]
    fn a_child_ends_with_the_thread_that_started_it() {
        let start = || {
            let mut command = Command::new("cat");
            command.stdin(Stdio::piped());
            die_with_parent(&mut command, Signal::TERM);
            command.spawn().unwrap()
        };
        let mut child = std::thread::spawn(start).join().unwrap();
        // Its stdin stays open: nothing else ends it.
        let stdin = child.stdin.take();
        assert_eq!(child.wait().unwrap().signal(), Some(Signal::TERM.as_raw()));
        drop(stdin);
    }
}
